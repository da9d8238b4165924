// SPDX-License-Identifier: MIT
/*
 * Check, events: what each stands for (lane.h). Under check_lock(). An event that is not in the table was recorded by somebody who is not seen, or
 * when the table was full: it stands for everything.
 */
#include "check/lane.h"
#include "check/map.h"

#define EVENTS_MAX 2048

static struct check_event {
	bool is_recorded; /* else nothing was, and who waits for it waits for nothing */
	bool is_foreign;
	struct check_clock clock;
} events[EVENTS_MAX];
CHECK_MAP(map, EVENTS_MAX);

static struct check_event *find(uint64_t handle)
{
	uint32_t at = check_map_find(&map, handle);

	return at == CHECK_NONE ? NULL : &events[at];
}

static struct check_event *find_or_add(uint64_t handle)
{
	struct check_event *event = find(handle);
	uint32_t at;

	if (event || !handle)
		return event;
	at = check_map_add(&map, handle);
	if (at == CHECK_NONE) {
		check_lost("order: more than " CHECK_TEXT(
			EVENTS_MAX) " events at once" NOTE_CHECK_HIDES);
		return NULL;
	}
	events[at].is_recorded = events[at].is_foreign = false;
	return &events[at];
}

void event_made(uint64_t handle)
{
	event_gone(handle);
	(void)find_or_add(handle);
}

void event_gone(uint64_t handle)
{
	if (handle)
		check_map_remove(&map, handle);
}

void event_records(uint64_t handle, uint32_t lane)
{
	struct check_event *event = find_or_add(handle);

	if (!event)
		return;
	event->is_recorded = true;
	if (lane == CHECK_NONE)
		lane_clock_all(&event->clock);
	else
		event->clock = lane_at(lane)->clock;
}

void event_is_foreign(uint64_t handle)
{
	struct check_event *event = find_or_add(handle);

	if (event)
		event->is_foreign = true;
}

void event_joins(uint64_t handle, uint32_t lane)
{
	const struct check_event *event = find(handle);
	struct check_clock all;

	if (event && !event->is_foreign) {
		if (event->is_recorded)
			lane_clock_join(&lane_at(lane)->clock, &event->clock);
		return;
	}
	lane_clock_all(&all);
	lane_clock_join(&lane_at(lane)->clock, &all);
	lane_meets(lane, MEETING_UNKNOWN);
}

void event_observed(uint64_t handle)
{
	const struct check_event *event = find(handle);

	if (!event || event->is_foreign)
		lane_observed_all();
	else if (event->is_recorded)
		lane_host_join(&event->clock);
}

void event_forget(void)
{
	check_map_clear(&map);
}
