// SPDX-License-Identifier: MIT
/* Held waits (held_waits.h): a ring. Called by the filter and by the list of waits. */
#include "tracing/analysis/held_waits.h"

#include "memory.h"
#include "tracing/analysis/timeline_words.h"

void held_waits_done(struct held_waits *held)
{
	free(held->ring);
	*held = (struct held_waits){0};
}

void held_waits_add(struct held_waits *held, const struct analysis_event *event)
{
	struct held_wait *place;

	if (!held->ring)
		held->ring = memory_new(HELD_WAITS_MAX * sizeof(held->ring[0]));
	place = &held->ring[(held->first + held->count++) % HELD_WAITS_MAX];
	place->event = *event;
	place->event.payload = NULL;
	place->wait = *(const struct trace_wait *)event->payload;
}

const struct held_wait *held_waits_next(struct held_waits *held, const struct model *model,
					int64_t now_ns)
{
	const struct held_wait *wait;

	if (!held->count)
		return NULL;
	wait = &held->ring[held->first];
	if (!held_waits_full(held) && now_ns != INT64_MAX &&
	    now_ns - wait->event.ns < HELD_WAITS_NS &&
	    !wait_is_defined(model, wait->event.process, &wait->wait))
		return NULL;
	held->first = (held->first + 1) % HELD_WAITS_MAX;
	held->count--;
	return wait;
}
