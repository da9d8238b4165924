// SPDX-License-Identifier: MIT
/*
 * Guard, edges: what the host knows of a copy by what it knows of other streams (internal.h). Called by heard.c and its neighbours with the lock held.
 *
 * State draws only such conclusions of a wait as no schedule breaks, and does not follow event waits; for a guard that would be too few: a wait
 * that orders would be taken for none. So each guard has marks of its own, "complete with this operation of that stream": of its own copy, and of
 * every event wait by which another stream goes on behind it. Where something goes on behind nobody knows what, or is known by legacy order, all
 * guards that it could be about are taken to be among what came before. That ends guards too early, never too late.
 */
#include "guard/internal.h"

#include "state/state.h"

static const struct guard_mark *mark_of(const struct guard *guard,
					const struct state_stream *stream)
{
	uint32_t i;

	for (i = 0; i < guard->marks; i++)
		if (guard->mark[i].stream == stream)
			return &guard->mark[i];
	return NULL;
}

/* Could work of the stream be behind the copy by legacy order? */
static bool is_behind_by_legacy(const struct guard *guard, const struct state_stream *stream)
{
	uint32_t i;

	if (!guard->is_mixed || !state_may_join(stream))
		return false;
	for (i = 0; i < guard->marks; i++)
		if (state_may_join(guard->mark[i].stream))
			return true;
	return false;
}

bool guard_is_covered(const struct guard *guard, const struct state_stream *stream, uint64_t number)
{
	const struct guard_mark *mark = mark_of(guard, stream);

	return (mark && mark->number <= number) || is_behind_by_legacy(guard, stream);
}

/* Of each stream the earliest operation is enough. False: no room. */
static bool add_mark(struct guard *guard, const struct guard_mark *by)
{
	const struct guard_mark *known = mark_of(guard, by->stream);

	if (known && known->number <= by->number)
		return true;
	if (guard->marks == GUARD_MARKS)
		return false;
	guard->mark[guard->marks++] = *by;
	return true;
}

void guard_goes_on(const struct guard_mark *by, const struct guard_mark *of)
{
	uint32_t i;

	for (i = guard_count; i-- > 0;) {
		struct guard *guard = guard_at(i);

		if ((!of || guard_is_covered(guard, of->stream, of->number)) &&
		    !add_mark(guard, by)) {
			guard_end(i);
			check_lost("guard: a copy was left: too many streams go on behind it");
		}
	}
}

void guard_wait_over(const struct state_stream *stream, uint64_t number)
{
	uint32_t i;

	for (i = guard_count; i-- > 0;)
		if (guard_is_covered(guard_at(i), stream, number))
			guard_end(i);
}

void guard_may_tell(const struct guard_mark *by)
{
	uint32_t i;

	for (i = guard_count; i-- > 0;)
		if (guard_is_covered(guard_at(i), by->stream, by->number)) {
			guard_end(i);
			check_lost(
				"guard: a copy was left: the host may hear of its end by what "
				"follows it "
				"(a host function, a graph, a value, a kernel with host memory)");
		}
}

void guard_mixes(void)
{
	uint32_t i;

	/* Legacy order between two other streams takes an operation of the legacy stream between them. */
	for (i = 0; i < guard_count; i++)
		guard_at(i)->is_mixed = true;
}

void guard_sweep(void)
{
	uint32_t i, n;

	for (i = guard_count; i-- > 0;) {
		const struct guard *guard = guard_at(i);

		for (n = 0; n < guard->marks; n++)
			if (state_completed(guard->mark[n].stream) >= guard->mark[n].number)
				break;
		if (n < guard->marks)
			guard_end(i);
	}
}
