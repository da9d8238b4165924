// SPDX-License-Identifier: MIT
/*
 * Check, calls that may not return: for L06, L10, L11 and L15. Before the driver is called a remark is written down of each call that can wait for work
 * of the device, and taken back when it returns. So who has to end a program that hangs (`slipstream lint --timeout`) finds in the record file where
 * each thread stands. Of a program that was not ended lint takes none of these remarks.
 *
 *	stuck-load		a first launch, or another call that loads code
 *	stuck-sync-memops	SYNC_MEMOPS is set
 *	stuck-queue		the operation may have no room
 *	stuck-wait		a call that is no wait by its name, with work in its rules' scope
 *	stuck-asked-wait	a wait, while a stream of its scope waits for a value in memory
 *
 * inside, depth	each thread's own
 * gates		under check_lock()
 */
#include "check/internal.h"

#include <string.h>

#include "state/proof.h"
#include "state/state.h"

#define DEPTH_MAX 4 /* the driver calls the program, which calls the driver */
#define GATES_MAX 256
/* Drivers wait at 1024 pending operations of a stream, and what is done is not known at once. */
#define QUEUE_NEARLY_FULL 900

struct inside {
	const struct call *call;
	struct record_remark *remark;
};

static __thread struct inside inside[DEPTH_MAX] __attribute__((tls_model("initial-exec")));
static __thread uint32_t depth __attribute__((tls_model("initial-exec")));

/* Streams that were told to wait for a value in memory, and the newest operation that does. */
static struct gate {
	const struct state_stream *stream;
	uint64_t number;
} gates[GATES_MAX];
static uint32_t gate_count;

/* Not known to have been passed. Numbers never go back, not even where the entry is another stream's by now. */
static bool is_closed(const struct gate *gate)
{
	return state_completed(gate->stream) < gate->number;
}

static bool is_gate(const struct state_stream *stream)
{
	uint32_t i;

	for (i = 0; i < gate_count; i++)
		if (gates[i].stream == stream && is_closed(&gates[i]))
			return true;
	return false;
}

static void add_gate(const struct state_stream *stream, uint64_t number)
{
	bool fits;
	uint32_t i;

	if (!check_lock())
		return;
	for (i = 0; i < gate_count; i++)
		if (gates[i].stream == stream || !is_closed(&gates[i]))
			break;
	fits = i < GATES_MAX;
	if (fits)
		gates[i] = (struct gate){.stream = stream, .number = number};
	if (fits && i == gate_count)
		(void)check_hint_add(&gate_count, 1);
	check_unlock();
	if (!fits)
		check_lost("waits for values: too many streams");
}

static bool has_gate(const struct call *call)
{
	bool found = false;
	uint32_t i;

	if (!__atomic_load_n(&gate_count, __ATOMIC_RELAXED) || !check_lock())
		return false;
	for (i = 0; i < state_pending_stored(call) && !found; i++)
		found = is_gate(call->pending[i].stream);
	check_unlock();
	return found;
}

/* By the rules of its row; RULE_COUNT: nothing that it could wait for is known. */
static uint32_t rule_of_row(const struct call *call, const struct catalogue_row *row)
{
	const struct catalogue_rule *rule;
	uint32_t held = (call->held ? call->held : row->held(call)) & CATALOGUE_HELD_RULES;

	for (; held; held &= held - 1) {
		rule = &catalogue_rules[row->rules[__builtin_ctz(held)] - 1U];
		if (rule->wait_class == WAIT_EXPLICIT)
			return has_gate(call) ? RULE_STUCK_ASKED_WAIT : RULE_COUNT;
		if (rule->wait_class == WAIT_IMPLICIT && !(rule->flags & RECORD_RULE_ROOM) &&
		    rule->scope != CATALOGUE_SCOPE_HOST && state_has_pending(call, rule->scope))
			return RULE_STUCK_WAIT;
	}
	return RULE_COUNT;
}

static bool sets_sync_memops(const struct call *call)
{
	switch (call->function) {
	case FUNCTION_cuPointerSetAttribute:
		return call->subject == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	case FUNCTION_cuCtxSetFlags:
		return call->subject & CU_CTX_SYNC_MEMOPS;
	default:
		return false;
	}
}

static uint32_t rule_of(const struct call *call)
{
	struct call_pending pending;
	const struct catalogue_row *row = &catalogue_rows[call->function];

	if (call->flags & CALL_CAPTURED)
		return RULE_COUNT;
	/* With nothing at work it takes its own time, a compiler's perhaps. */
	if (call->flags & CALL_FIRST_USE || row->kind == CATALOGUE_KIND_MODULE)
		return state_pending_anywhere(&pending, 1) ? RULE_STUCK_LOAD : RULE_COUNT;
	if (sets_sync_memops(call))
		return call->pending_count ? RULE_STUCK_SYNC_MEMOPS : RULE_COUNT;
	if (call->operation && call->flags & CALL_ASYNC && call->backlog >= QUEUE_NEARLY_FULL)
		return RULE_STUCK_QUEUE;
	return row->rules[0] ? rule_of_row(call, row) : RULE_COUNT;
}

static void before(const struct call *call, const uint64_t *arguments)
{
	struct check_side side;
	uint32_t rule;

	(void)arguments;
	if (depth >= DEPTH_MAX)
		return;
	rule = rule_of(call);
	if (rule == RULE_COUNT)
		return;
	side = check_side_take(call);
	inside[depth].call = call;
	inside[depth].remark = check_remark_open(&side, rule, NULL);
	check_remark_count(inside[depth].remark, 1);
	depth++;
}

static bool waits_for_value(const struct call *call)
{
	switch (call->function) {
	case FUNCTION_cuStreamWaitValue32:
	case FUNCTION_cuStreamWaitValue32_ptsz:
	case FUNCTION_cuStreamWaitValue32_v2:
	case FUNCTION_cuStreamWaitValue32_v2_ptsz:
	case FUNCTION_cuStreamWaitValue64:
	case FUNCTION_cuStreamWaitValue64_ptsz:
	case FUNCTION_cuStreamWaitValue64_v2:
	case FUNCTION_cuStreamWaitValue64_v2_ptsz:
	case FUNCTION_cuStreamBatchMemOp:
	case FUNCTION_cuStreamBatchMemOp_ptsz:
	case FUNCTION_cuStreamBatchMemOp_v2:
	case FUNCTION_cuStreamBatchMemOp_v2_ptsz:
	case FUNCTION_cuWaitExternalSemaphoresAsync:
	case FUNCTION_cuWaitExternalSemaphoresAsync_ptsz:
		return true;
	default:
		return false;
	}
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	(void)arguments;
	if (depth && inside[depth - 1].call == call)
		check_remark_count(inside[--depth].remark, -1);
	if (result == CUDA_SUCCESS && call->stream && call->submission && waits_for_value(call))
		add_gate(call->stream, call->submission);
}

static void forget(void)
{
	memset(gates, 0, sizeof(gates));
	gate_count = 0;
	depth = 0;
}

const struct check_rule check_stuck_rule = {.before = before, .after = after, .forget = forget};
