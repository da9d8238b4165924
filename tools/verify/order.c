// SPDX-License-Identifier: MIT
/*
 * Order: the proof for one context (order.h).
 *
 * Three kinds of lanes: blocking and per-thread streams (S), the legacy stream itself (N), its
 * substitute (L). The clock of a lane says up to which record it is behind the others:
 *
 *	native		all operations of lanes S and N up to there; of N alone it may be more (begun)
 *	substitute	all operations of L up to there
 *	joined		those of one lane S or N (kept with that lane: only L needs it)
 *
 * They grow by
 *	a barrier that stands for records up to r
 *		S -> L	joined[S] = r, and what S itself is behind
 *		N -> L	native = r: by the driver's rule N is behind all S
 *		L -> S, L -> N	substitute = r
 *	the driver's rule, at an operation of N: N is behind what any S was behind
 *	the driver's rule, at an operation of S: S is behind N, and what N's last operation was behind
 *
 * So what is left to check, at each operation:
 *	S, N	substitute reaches the last operation of L. All else the driver does.
 *	L	native or joined reaches the last operation of each lane S and N that had one since the last
 *		operation of L. All earlier ones that one was behind, and L is one lane.
 * This is constant time, but for the lanes at the last: each had an operation for it.
 *
 * A call that is open was handed to the driver some time between its two records. What it must be behind
 * is checked at the first one, and what is behind it must reach the second one. Until that has come
 * nothing can be ordered with it but by the driver.
 *
 * After a finding the missing edge is taken to be there, so that one missing barrier is told once.
 */
#include <inttypes.h>

#include "emit/record.h"
#include "memory.h"
#include "verify/findings.h"
#include "verify/internal.h"

struct order *order_new(struct verify_result *result, uint32_t process, uint32_t context)
{
	struct order *order = memory_new(sizeof(*order));

	order->result = result;
	order->process = process;
	order->context = context;
	order->lanes.data_size = sizeof(struct lane *);
	return order;
}

struct order *order_free(struct order *order)
{
	if (!order)
		return NULL;
	for (size_t i = 0; i < order->lanes.count; i++)
		free(*(struct lane **)table_at(&order->lanes, i));
	while (order->gone) {
		struct lane *lane = order->gone;

		order->gone = lane->next_gone;
		free(lane);
	}
	table_done(&order->lanes);
	free(order->open);
	free(order);
	return NULL;
}

void order_contradict(struct order *order, uint64_t sequence, const char *what)
{
	findings_say(order->result, VERIFY_CONTRADICTION, order->process, order->context,
		     "record %" PRIu64 " of context %" PRIu32 " %s", sequence, order->context,
		     what);
}

static struct verify_finding missed(const struct order *order, enum verify_finding_kind kind,
				    const struct verify_operation *before,
				    const struct verify_operation *after, const struct stale *stale)
{
	struct verify_finding finding = {.kind = kind,
					 .process = order->process,
					 .context = order->context,
					 .before = *before,
					 .after = *after};

	if (stale && stale->sequence > before->sequence) {
		finding.stale = stale->sequence;
		finding.stale_recorded = stale->recorded;
	}
	return finding;
}

/* ---- lanes ---- */

struct lane *order_find_lane(const struct order *order, uint32_t stream)
{
	struct lane **place = table_find(&order->lanes, stream, 0);

	return place ? *place : NULL;
}

/* The stream that had the number is gone. What it submitted still has to be joined. */
static void retire(struct order *order, struct lane *lane)
{
	lane->is_gone = true;
	lane->last.is_gone = true;
	lane->next_gone = order->gone;
	order->gone = lane;
	if (order->legacy == lane)
		order->legacy = NULL;
}

static struct lane *new_lane(struct order *order, uint64_t sequence, uint32_t stream, uint32_t kind)
{
	struct lane **place = table_add(&order->lanes, stream, 0, &(bool){false});
	struct lane *lane = memory_new(sizeof(*lane));

	if (*place)
		retire(order, *place);
	*place = lane;
	lane->stream = stream;
	lane->kind = kind;
	if (kind == STREAM_LEGACY) {
		if (order->legacy)
			order_contradict(order, sequence, "names a second legacy stream");
		order->legacy = lane;
	} else if (kind != STREAM_BLOCKING && kind != STREAM_PER_THREAD) {
		order_contradict(order, sequence,
				 "names a stream that is none of legacy, blocking, per-thread");
	}
	return lane;
}

bool order_knows(const struct order *order, uint32_t stream)
{
	const struct lane *lane = order_find_lane(order, stream);

	return lane && lane->is_told;
}

void order_define(struct order *order, uint64_t sequence, const struct order_stream *stream)
{
	struct lane *lane = order_find_lane(order, stream->number);

	if (lane && (lane->is_told || lane->version == stream->version))
		return;
	lane = new_lane(order, sequence, stream->number, stream->kind);
	lane->version = stream->version;
}

static void free_gone(struct order *order)
{
	struct lane **at = &order->gone;

	while (*at) {
		struct lane *lane = *at;
		bool is_open = lane->is_dirty;

		for (size_t i = 0; i < order->open_count; i++)
			is_open |= order->open[i].lane == lane;
		if (is_open) {
			at = &lane->next_gone;
			continue;
		}
		*at = lane->next_gone;
		free(lane);
	}
}

static void mark_dirty(struct order *order, struct lane *lane)
{
	if (lane->is_dirty)
		return;
	lane->is_dirty = true;
	lane->next_dirty = order->dirty;
	order->dirty = lane;
}

/* ---- checks ---- */

/* Whatever is still on its way to the driver can be on either side. Told once it is known that it came there, and once for each such call. */
static void check_flight(struct order *order, const struct verify_operation *operation,
			 uint32_t place)
{
	for (size_t i = 0; i < order->open_count; i++) {
		struct open_call *call = &order->open[i];

		if (call->operation.place == place && !call->flight.after.sequence)
			call->flight =
				missed(order, VERIFY_FLIGHT, &call->operation, operation, NULL);
	}
}

/* An operation of S or N: behind the last one of L. */
static void check_native(struct order *order, struct open_call *call)
{
	check_flight(order, &call->operation, TRACE_ORDER_SUBSTITUTE);
	if (order->last.covered > call->substitute)
		call->edge = missed(order, VERIFY_EDGE, &order->last, &call->operation,
				    &call->lane->from_substitute);
}

/* A barrier of this lane, or of all, that should have done. */
static const struct stale *stale_of(const struct order *order, const struct lane *lane)
{
	if (lane->to_substitute.sequence > lane->last.sequence || !order->legacy)
		return &lane->to_substitute;
	return &order->legacy->to_substitute;
}

/* One of L: behind all of S and N. */
static void check_substitute(struct order *order, const struct verify_operation *operation)
{
	check_flight(order, operation, TRACE_ORDER_NATIVE);
	while (order->dirty) {
		struct lane *lane = order->dirty;
		struct verify_finding finding;

		order->dirty = lane->next_dirty;
		lane->is_dirty = false;
		if (lane->last.covered <= larger(order->native, lane->joined))
			continue;
		finding = missed(order, VERIFY_EDGE, &lane->last, operation, stale_of(order, lane));
		findings_add(order->result, &finding);
	}
	free_gone(order);
}

/* ---- records ---- */

static void take_turn(struct order *order, const struct order_record *record)
{
	if (record->turn.place > TRACE_ORDER_SUBSTITUTE)
		order_contradict(order, record->sequence, "turns to a place that does not exist");
	order->place = record->turn.place;
	order->result->turns++;
}

static void take_stream(struct order *order, const struct order_record *record)
{
	new_lane(order, record->sequence, record->stream.stream, record->stream.kind)->is_told =
		true;
}

/* How many orderings this operation closes: with the last legacy one, or with each lane since then. */
static void count(struct order *order, struct lane *lane)
{
	struct verify_result *result = order->result;

	result->operations++;
	result->orderings += order->legacy_count > 0;
	if (!lane || lane->kind == STREAM_LEGACY) {
		result->orderings += order->active;
		order->active = 0;
		order->legacy_count++;
		result->legacy++;
	} else if (lane->active != order->legacy_count + 1) {
		lane->active = order->legacy_count + 1;
		order->active++;
	}
}

/* The driver has it: what it says holds. An edge that is missing is taken to be there from now on. */
static void settle(struct order *order, struct open_call *call, uint64_t covered)
{
	struct lane *lane = call->lane;

	count(order, lane);
	if (call->flight.after.sequence)
		findings_add(order->result, &call->flight);
	if (!lane) {
		order->last = call->operation;
		order->last.covered = covered;
		return;
	}
	if (call->edge.after.sequence) {
		findings_add(order->result, &call->edge);
		advance(&call->substitute, call->edge.before.covered);
	}
	lane->last = call->operation;
	lane->last.covered = covered;
	lane->last.is_gone = lane->is_gone;
	mark_dirty(order, lane);
	advance(&lane->begun, call->operation.sequence);
	advance(&lane->native, call->native);
	advance(&lane->substitute, call->substitute);
	if (lane->kind == STREAM_LEGACY)
		advance(&lane->handed, call->substitute);
	else
		advance(&order->any_substitute, call->substitute);
}

static void keep_open(struct order *order, const struct open_call *call)
{
	order->open = memory_grow(order->open, order->open_count, &order->open_capacity,
				  sizeof(order->open[0]));
	order->open[order->open_count++] = *call;
}

static void take_return(struct order *order, const struct order_record *record)
{
	for (size_t i = 0; i < order->open_count; i++) {
		struct open_call call = order->open[i];

		if (call.operation.sequence != record->returned.of)
			continue;
		order->open[i] = order->open[--order->open_count];
		if (record->returned.failed)
			order->result->refused++;
		else
			settle(order, &call, record->sequence);
		return;
	}
	order_contradict(order, record->sequence,
			 "tells of the return of a call that was not open");
}

/* An operation of S or N. */
static void submit_native(struct order *order, struct lane *lane, struct open_call *call)
{
	const struct lane *legacy = order->legacy;

	call->native = lane->native;
	call->substitute = lane->substitute;
	if (lane->kind == STREAM_LEGACY) {
		call->native = call->operation.sequence;
		advance(&call->substitute, order->any_substitute);
	} else if (legacy) {
		advance(&call->native, legacy->native);
		advance(&call->substitute, legacy->handed);
	}
	check_native(order, call);
}

static void take_submit(struct order *order, const struct order_record *record)
{
	const struct trace_order_submit *submit = &record->submit;
	struct verify_result *result = order->result;
	struct lane *lane = order_find_lane(order, submit->stream);
	struct open_call call = {.operation = {.sequence = record->sequence,
					       .covered = record->sequence,
					       .stream = submit->stream,
					       .place = submit->place,
					       .function = submit->function}};
	bool is_legacy = lane->kind == STREAM_LEGACY;

	if (submit->place > TRACE_ORDER_SUBSTITUTE || (submit->place && !is_legacy) ||
	    submit->elided > TRACE_ORDER_ORDERED || submit->reason > TRACE_ORDER_DENIED ||
	    submit->open > 1) {
		order_contradict(order, record->sequence,
				 "is of a place, a reason or a state that does not exist");
		return;
	}
	if (submit->place && !order->place)
		order_contradict(order, record->sequence,
				 "is on the substitute before a turn to it");
	if (submit->failed) {
		result->refused++;
		return;
	}
	result->elisions[submit->elided]++;
	if (is_legacy)
		result->natives[submit->reason]++;
	if (submit->place) {
		check_substitute(order, &call.operation);
	} else {
		call.lane = lane;
		submit_native(order, lane, &call);
	}
	if (submit->open)
		keep_open(order, &call);
	else
		settle(order, &call, record->sequence);
}

void order_take(struct order *order, const struct order_record *record)
{
	order->result->records++;
	switch (record->event) {
	case TRACE_ORDER_TURN:
		take_turn(order, record);
		break;
	case TRACE_ORDER_BARRIER:
		order_take_barrier(order, record);
		break;
	case TRACE_ORDER_SUBMIT:
		take_submit(order, record);
		break;
	case TRACE_ORDER_STREAM:
		take_stream(order, record);
		break;
	default:
		take_return(order, record);
	}
}

void order_finish(struct order *order)
{
	for (size_t i = 0; i < order->open_count; i++)
		findings_say(order->result, VERIFY_INCOMPLETE, order->process, order->context,
			     "incomplete: the call of record %" PRIu64 " of context %" PRIu32
			     " never returned",
			     order->open[i].operation.sequence, order->context);
}
