// SPDX-License-Identifier: MIT
/* Check, lanes and their clocks (lane.h). Called by the engine of accesses. */
#include "check/lane.h"

#include <string.h>

#include "check/map.h"
#include "state/state.h"

static struct check_lane lanes[LANES_MAX];
static uint32_t lane_count;
static struct check_clock host; /* what the host knows complete */
static bool given_up;           /* read without the lock, too */

void lane_give_up(const char *why)
{
	if (!__atomic_exchange_n(&given_up, true, __ATOMIC_RELAXED))
		check_lost(why);
}

bool lane_has_given_up(void)
{
	return __atomic_load_n(&given_up, __ATOMIC_RELAXED);
}

struct check_lane *lane_at(uint32_t index)
{
	return &lanes[index];
}

bool lane_is_done(uint32_t of, uint32_t number)
{
	return host.at[of] >= number;
}

/* A lane without a stream, of which everything is known complete: what others know of it stays true, since numbers go on. */
static uint32_t find_free(void)
{
	uint32_t i;

	if (lane_count < LANES_MAX)
		return lane_count++;
	for (i = 0; i < LANES_MAX; i++)
		if (!lanes[i].stream && lane_is_done(i, lanes[i].number) &&
		    !lanes[i].clock.is_unknown)
			return i;
	return CHECK_NONE;
}

static uint64_t handle_of(const struct call *call)
{
	return call_is_own_handle(call->stream_handle) ? 0 : (uintptr_t)call->stream_handle;
}

/*
 * The lane of the call's stream. State may give the entry of a stream that was destroyed to another one: that is a lane of its own, while the work of the
 * first one is what it was.
 */
static uint32_t find(const struct call *call)
{
	uint32_t i;

	for (i = 0; i < lane_count && lanes[i].stream != call->stream; i++)
		;
	if (i == lane_count)
		return CHECK_NONE;
	if (lanes[i].handle == handle_of(call) && lanes[i].kind == call->stream_kind &&
	    lanes[i].context == state_context_of(call->stream))
		return i;
	lanes[i].stream = NULL;
	return CHECK_NONE;
}

uint32_t lane_of(const struct call *call)
{
	uint32_t i;

	if (!call->stream) {
		lane_give_up("order: work on a stream that is not known" NOTE_CHECK_HIDES);
		return CHECK_NONE;
	}
	i = find(call);
	if (i != CHECK_NONE)
		return i;
	i = find_free();
	if (i == CHECK_NONE) {
		lane_give_up("order: more than " CHECK_TEXT(
			LANES_MAX) " streams at once" NOTE_CHECK_HIDES);
		return CHECK_NONE;
	}
	lanes[i].stream = call->stream;
	lanes[i].context = state_context_of(call->stream);
	lanes[i].handle = handle_of(call);
	lanes[i].kind = call->stream_kind;
	/* Its own number stays: what is remembered of the lane before has smaller ones. */
	lanes[i].clock = (struct check_clock){.at = {[0] = 0}};
	lanes[i].clock.at[i] = lanes[i].number;
	return i;
}

void lane_clock_join(struct check_clock *clock, const struct check_clock *other)
{
	uint32_t i;

	for (i = 0; i < lane_count; i++)
		if (clock->at[i] < other->at[i])
			clock->at[i] = other->at[i];
	clock->is_unknown |= other->is_unknown;
}

void lane_clock_all(struct check_clock *ret_clock)
{
	uint32_t i;

	ret_clock->is_unknown = false;
	for (i = 0; i < lane_count; i++)
		ret_clock->at[i] = lanes[i].number;
}

/* Whoever may take part in legacy order does: an order too many is a remark less. */
static bool may_join(const struct check_lane *lane, const struct state_context *context)
{
	return lane->context == context && lane->kind != STREAM_NON_BLOCKING;
}

void lane_join(uint32_t index)
{
	struct check_lane *lane = &lanes[index];
	uint32_t i;

	if (!may_join(lane, lane->context))
		return;
	for (i = 0; i < lane_count; i++)
		if (i != index && may_join(&lanes[i], lane->context) &&
		    (lane->kind == STREAM_LEGACY || lanes[i].kind == STREAM_LEGACY))
			lane_clock_join(&lane->clock, &lanes[i].clock);
}

void lane_join_all(uint32_t index)
{
	struct check_clock all;

	lane_clock_all(&all);
	lane_clock_join(&lanes[index].clock, &all);
}

uint32_t lane_submit(uint32_t index)
{
	lanes[index].clock.at[index] = ++lanes[index].number;
	return lanes[index].number;
}

bool lane_is_behind(uint32_t index, uint32_t of, uint32_t number)
{
	return lanes[index].clock.at[of] >= number;
}

void lane_settle(uint32_t index, uint32_t of, uint32_t number)
{
	if (lanes[index].clock.at[of] < number)
		lanes[index].clock.at[of] = number;
}

void lane_host_join(const struct check_clock *clock)
{
	/* What nobody saw was before: it has been submitted by now. */
	if (clock->is_unknown)
		lane_clock_all(&host);
	else
		lane_clock_join(&host, clock);
}

void lane_observed(uint32_t index)
{
	/* A wait for the legacy stream is one for all blocking streams. */
	lane_join(index);
	lane_host_join(&lanes[index].clock);
	lanes[index].clock.is_unknown = false;
}

void lane_observed_before(uint32_t index)
{
	uint32_t own = host.at[index];

	lane_host_join(&lanes[index].clock);
	if (host.at[index] == lanes[index].number && own < host.at[index])
		host.at[index] = lanes[index].number - 1;
}

void lane_observed_context(const struct state_context *context, bool legacy_only)
{
	uint32_t i;

	for (i = 0; i < lane_count; i++)
		if (lanes[i].context == context && (!legacy_only || may_join(&lanes[i], context)))
			lane_observed(i);
}

void lane_observed_all(void)
{
	uint32_t i;

	lane_clock_all(&host);
	for (i = 0; i < lane_count; i++)
		lanes[i].clock.is_unknown = false;
}

void lane_meets(uint32_t index, enum lane_meeting meeting)
{
	if (meeting == MEETING_HEARD || meeting == MEETING_HOST)
		lane_host_join(&lanes[index].clock);
	if (meeting == MEETING_UNKNOWN || meeting == MEETING_HOST)
		lanes[index].clock.is_unknown = true;
}

void lane_forget_streams(void)
{
	uint32_t i;

	lane_observed_all();
	for (i = 0; i < lane_count; i++)
		lanes[i].stream = NULL;
}

void lane_forget(void)
{
	memset(lanes, 0, sizeof(lanes));
	memset(&host, 0, sizeof(host));
	lane_count = 0;
	__atomic_store_n(&given_up, false, __ATOMIC_RELAXED);
}
