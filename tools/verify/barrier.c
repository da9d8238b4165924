// SPDX-License-Identifier: MIT
/* Barriers: what a recorded event and a wait for it add to what a lane is behind (order.c). */
#include "emit/record.h"
#include "verify/internal.h"

enum end { END_STREAM, END_LEGACY, END_SUBSTITUTE };

static enum end end_of(const struct lane *lane, uint32_t place)
{
	if (lane->kind != STREAM_LEGACY)
		return END_STREAM;
	return place ? END_SUBSTITUTE : END_LEGACY;
}

static bool is_of_kind(uint32_t kind, enum end from, enum end to)
{
	switch (kind) {
	case TRACE_ORDER_EXPLICIT:
		return from == END_STREAM && to == END_SUBSTITUTE;
	case TRACE_ORDER_JOIN:
		return from == END_LEGACY && to == END_SUBSTITUTE;
	case TRACE_ORDER_POST:
		return from == END_SUBSTITUTE && to == END_STREAM;
	case TRACE_ORDER_BACK:
		return from == END_SUBSTITUTE && to == END_LEGACY;
	case TRACE_ORDER_HOST: /* between others it is not needed */
		return (from == END_SUBSTITUTE) != (to == END_SUBSTITUTE);
	default:
		return false;
	}
}

static void note_stale(struct stale *stale, const struct order_record *record)
{
	*stale = (struct stale){record->sequence, record->barrier.recorded};
	if (!stale->recorded)
		*stale = (struct stale){0};
}

/* Something of ours was submitted to N. */
static void settle_legacy(struct order *order, struct lane *legacy, uint64_t sequence)
{
	advance(&legacy->native, sequence);
	advance(&legacy->substitute, order->any_substitute);
	advance(&legacy->handed, legacy->substitute);
}

/* To L, of what stands for records up to `covered`. */
static void join(struct order *order, struct lane *from, enum end end, uint64_t covered,
		 const struct order_record *record)
{
	note_stale(&from->to_substitute, record);
	if (end == END_STREAM) {
		advance(&from->joined, covered);
		/* What S was behind by then; of later operations nobody knows. */
		if (from->last.covered > covered)
			return;
		advance(&order->native, from->native);
		if (order->legacy)
			advance(&order->legacy->joined, from->begun);
	} else if (end == END_LEGACY) {
		advance(&order->native, covered);
	}
}

void order_take_barrier(struct order *order, const struct order_record *record)
{
	const struct trace_order_barrier *barrier = &record->barrier;
	struct lane *from = order_find_lane(order, barrier->from_stream);
	struct lane *to = order_find_lane(order, barrier->to_stream);
	enum end from_end = end_of(from, barrier->from_place),
		 to_end = end_of(to, barrier->to_place);
	uint64_t covered = barrier->recorded ?: record->sequence;

	if (barrier->from_place > TRACE_ORDER_SUBSTITUTE ||
	    barrier->to_place > TRACE_ORDER_SUBSTITUTE ||
	    (barrier->from_place && from_end == END_STREAM) ||
	    (barrier->to_place && to_end == END_STREAM) ||
	    !is_of_kind(barrier->kind, from_end, to_end) || covered > record->sequence) {
		order_contradict(order, record->sequence, "is a barrier that does not exist");
		return;
	}
	order->result->barriers[barrier->kind]++;
	if (to_end == END_SUBSTITUTE) {
		join(order, from, from_end, covered, record);
	} else if (from_end == END_SUBSTITUTE) {
		note_stale(&to->from_substitute, record);
		advance(&to->substitute, covered);
		/* Whoever is ordered with N comes behind it from now on, as the host did. */
		if (barrier->kind == TRACE_ORDER_HOST && to_end == END_LEGACY)
			advance(&to->handed, covered);
	}
	/* An event of N that is recorded now, or a wait there, is an operation of N. */
	if (barrier->kind == TRACE_ORDER_JOIN && !barrier->recorded)
		settle_legacy(order, from, record->sequence);
	if (barrier->kind == TRACE_ORDER_BACK)
		settle_legacy(order, to, record->sequence);
}
