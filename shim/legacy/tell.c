// SPDX-License-Identifier: MIT
/*
 * Tell: the records (order_* events, tracing/events.yaml) from which `slipstream verify` proves that legacy order was kept, and the counts of the report. Called by turn.c
 * and barrier.c. Records are numbered when they happen, under the lock where there is one, and sent behind the call, since a tracer may block.
 */
#include "catalogue/catalogue.h"
#include "legacy/internal.h"
#include "state/state.h"

uint64_t legacy_sequence(struct legacy_context *context, const struct legacy_pass *pass)
{
	return pass->tells ? __atomic_add_fetch(&context->sequence, 1, __ATOMIC_RELAXED) : 0;
}

/* Under the lock: the stream's record has its number before any other thread's operation there, which would otherwise seem another stream's. */
static void introduce(const struct call *call, struct legacy_pass *pass, uint32_t *told)
{
	if (__atomic_load_n(told, __ATOMIC_RELAXED) || legacy_is_dead(pass->context, call))
		return;
	pass->is_first = true;
	pass->newcomer = (struct trace_order_stream){
		.context = pass->context->number,
		.sequence = legacy_sequence(pass->context, pass),
		.stream = state_stream_number(call->stream),
		.kind = call->stream_kind,
	};
	/* Pairs with the acquire load in legacy_meet(). */
	__atomic_store_n(told, 1, __ATOMIC_RELEASE);
}

void legacy_meet(const struct call *call, struct legacy_pass *pass)
{
	uint32_t *told = state_legacy_told(call->stream);

	if (!pass->tells || __atomic_load_n(told, __ATOMIC_ACQUIRE) || !legacy_lock(pass->context))
		return;
	introduce(call, pass, told);
	legacy_unlock(pass->context);
}

void legacy_number(const struct call *call, struct legacy_pass *pass)
{
	if (!pass->tells || !pass->context)
		return;
	pass->submit = (struct trace_order_submit){
		.context = pass->context->number,
		.sequence = legacy_sequence(pass->context, pass),
		.stream = state_stream_number(call->stream),
		/* Of what the driver is given. */
		.place = pass->redirected && pass->stream == pass->context->substitute
				 ? TRACE_ORDER_SUBSTITUTE
				 : TRACE_ORDER_NATIVE,
		.operation = call->operation,
		.function = call->function,
		.reason = pass->reason,
		.elided = pass->elided,
	};
}

static void count(const struct legacy_pass *pass)
{
	struct record_rewrite *counts = legacy_counts;
	bool is_elided = pass->elided && !pass->barriers;

	if (pass->redirected)
		__atomic_fetch_add(&counts->redirected, 1, __ATOMIC_RELAXED);
	else if (pass->reason > TRACE_ORDER_UNMIXED)
		__atomic_fetch_add(&counts->native, 1, __ATOMIC_RELAXED);
	if (pass->barriers)
		__atomic_fetch_add(&counts->barriers, pass->barriers, __ATOMIC_RELAXED);
	if (is_elided)
		__atomic_fetch_add(&counts->elided, 1, __ATOMIC_RELAXED);
	if (pass->turns)
		__atomic_fetch_add(&counts->turns, pass->turns, __ATOMIC_RELAXED);
}

void legacy_tell(const struct legacy_pass *pass)
{
	struct trace_order_return returned;
	struct trace_order_submit submit;
	uint32_t i;

	count(pass);
	if (!pass->tells)
		return;
	if (pass->is_first)
		emit_trace(TRACE_ORDER_STREAM, &pass->newcomer);
	for (i = 0; i < pass->turns; i++)
		emit_trace(TRACE_ORDER_TURN, &pass->turn[i]);
	for (i = 0; i < pass->noted; i++)
		emit_trace(TRACE_ORDER_BARRIER, &pass->barrier[i]);
	if (!pass->submit.sequence)
		return;
	submit = pass->submit;
	/* Only who had the lock up to here knows that nothing came between the number and the call. */
	submit.open = !pass->held;
	submit.failed = pass->failed && !submit.open;
	emit_trace(TRACE_ORDER_SUBMIT, &submit);
	if (!submit.open)
		return;
	returned = (struct trace_order_return){
		.context = pass->submit.context,
		.sequence = legacy_sequence(pass->context, pass),
		.of = pass->submit.sequence,
		.failed = pass->failed,
	};
	emit_trace(TRACE_ORDER_RETURN, &returned);
}

void legacy_number_peer(const struct call *call, struct legacy_pass *pass, unsigned int index)
{
	struct legacy_context *peer = pass->peers[index];

	pass->peer_submit[index].sequence = 0;
	if (!pass->tells || !peer || (index && peer == pass->peers[0]))
		return;
	pass->peer_submit[index] = (struct trace_order_submit){
		.context = peer->number,
		.sequence = legacy_sequence(peer, pass),
		.stream = state_stream_number(peer->legacy),
		.operation = call->operation,
		.function = call->function,
		.reason = TRACE_ORDER_SLOW,
	};
}

void legacy_tell_peers(const struct legacy_pass *pass)
{
	struct trace_order_return returned;
	struct trace_order_submit submit;
	unsigned int i;

	for (i = 0; pass->tells && i < 2; i++) {
		if (!pass->peers[i] || !pass->peer_submit[i].sequence)
			continue;
		submit = pass->peer_submit[i];
		submit.open = !pass->failed;
		submit.failed = pass->failed;
		submit.peer_of_context = pass->submit.context;
		submit.peer_of = pass->submit.sequence;
		emit_trace(TRACE_ORDER_SUBMIT, &submit);
		if (pass->failed)
			continue;
		returned = (struct trace_order_return){
			.context = submit.context,
			.sequence = legacy_sequence(pass->peers[i], pass),
			.of = submit.sequence,
		};
		emit_trace(TRACE_ORDER_RETURN, &returned);
	}
}

struct trace_order_end legacy_number_end(struct legacy_context *context)
{
	struct trace_order_end end = {.context = context->number};

	if (emit_traces_full() && context->sequence)
		end.sequence = __atomic_add_fetch(&context->sequence, 1, __ATOMIC_RELAXED);
	return end;
}

void legacy_tell_end(const struct trace_order_end *end)
{
	if (end->sequence)
		emit_trace(TRACE_ORDER_END, end);
}
