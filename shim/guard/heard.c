// SPDX-License-Identifier: MIT
/*
 * Guard, heard: by which calls of the program the host can know that a copy has finished (guard.h). Called by calls.c, around each driver call.
 *
 * The host knows by what the program asked: waits and queries, and what orders streams behind each other (edges.c). It may also hear of the end
 * from work that runs behind the copy and can reach it: a host function, a graph, a value that is written, a kernel that was given an address of
 * host memory. What those say cannot be seen, so they end the guards that they come behind.
 */
#include "guard/internal.h"

#include "check/access.h"
#include "check/kinds.h"
#include "check/memory_kinds.h"
#include "state/state.h"

/* What this thread's call asks for, as it was before the call. */
static __thread struct {
	uint64_t event;
	struct state_stands_for stands_for;
	struct state_stands_for timed[2]; /* of the two events whose times are asked for */
} own __attribute__((tls_model("initial-exec")));

void guard_asks(const struct call *call, const uint64_t *arguments)
{
	own.event = 0;
	if (check_takes_time(call)) {
		own.timed[0] = state_event_stands_for(arguments[1]);
		own.timed[1] = state_event_stands_for(arguments[2]);
	}
	switch (catalogue_rows[call->function].kind) {
	case CATALOGUE_KIND_EVENT:
	case CATALOGUE_KIND_WAIT:
	case CATALOGUE_KIND_QUERY:
		own.event = call->subject;
		if (own.event)
			own.stands_for = state_event_stands_for(own.event);
		break;
	default:
		break;
	}
}

/* ---- what the host may hear of ---- */

static bool is_host_address(uint64_t word)
{
	uint64_t start, bytes;
	uint32_t kind = state_block_at(word, &start, &bytes);

	/* Pageable memory is in no block that is known. */
	return check_is_common(kind) || kind == MEMORY_UNKNOWN;
}

static bool may_tell(const struct call *call, const uint64_t *arguments)
{
	switch (call->operation) {
	case OPERATION_KERNEL:
		/* It may write where the host reads. */
		return parameters_may_hold(call, arguments, is_host_address);
	case OPERATION_COPY:
	case OPERATION_EVENT_WAIT:
	case OPERATION_ALLOCATION:
		return false;
	case OPERATION_MEMSET:
		return check_may_be_host(call->destination_kind);
	default:
		return true;
	}
}

/* Does it wait for something that is not known? */
static bool waits_for_anything(const struct call *call)
{
	return call->operation == OPERATION_MEMORY_OP || call->operation == OPERATION_GRAPH ||
	       call->operation == OPERATION_OTHER;
}

void guard_submitted(const struct call *call, const uint64_t *arguments)
{
	const struct guard_mark by = {call->stream, call->submission};
	struct guard_mark of = {own.stands_for.stream, own.stands_for.number};
	bool tells, is_same;
	struct state_stands_for now;
	struct guard_held held;

	if (!guard_count)
		return;
	if (!call->stream || !call->submission) {
		guard_let_go();
		return;
	}
	tells = may_tell(call, arguments);
	/* A kernel or a copy on the program's own stream is behind nothing new. */
	if (!tells && call->stream_kind != STREAM_LEGACY &&
	    call->operation != OPERATION_EVENT_WAIT && !waits_for_anything(call))
		return;
	now = state_event_stands_for(own.event);
	is_same = own.event && now.is_known && own.stands_for.is_known && now.stream == of.stream &&
		  now.number == of.number;
	if (!guard_lock(&held))
		return;
	if (call->stream_kind == STREAM_LEGACY)
		guard_mixes();
	if (call->operation == OPERATION_EVENT_WAIT && !is_same)
		guard_goes_on(&by, NULL);
	else if (call->operation == OPERATION_EVENT_WAIT && of.stream)
		guard_goes_on(&by, &of);
	else if (waits_for_anything(call))
		guard_goes_on(&by, NULL);
	if (tells)
		guard_may_tell(&by);
	guard_unlock(&held);
}

/* ---- what the host asks ---- */

static bool asks_for_event(const struct call *call)
{
	return check_waits_for_event(call) || check_queries_event(call);
}

static bool asks_for_stream(const struct call *call)
{
	return check_waits_for_stream(call) || check_queries_stream(call);
}

/* Times are there: both events are complete. */
static void timed(const uint64_t *arguments)
{
	struct state_stands_for now;
	struct guard_held held;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		now = state_event_stands_for(arguments[1 + i]);
		if (!now.is_known || !own.timed[i].is_known || now.stream != own.timed[i].stream ||
		    now.number != own.timed[i].number) {
			guard_let_go();
		} else if (now.stream && guard_lock(&held)) {
			guard_wait_over(now.stream, now.number);
			guard_unlock(&held);
		}
	}
}

static void observed(const struct call *call)
{
	struct state_stands_for now;
	struct guard_held held;

	if (!guard_count)
		return;
	if (asks_for_event(call)) {
		now = state_event_stands_for(own.event);
		if (!now.is_known || !own.stands_for.is_known ||
		    now.stream != own.stands_for.stream || now.number != own.stands_for.number) {
			guard_let_go();
		} else if (now.stream && guard_lock(&held)) {
			guard_wait_over(now.stream, now.number);
			guard_unlock(&held);
		}
	} else if (asks_for_stream(call) && call->stream && !(call->flags & CALL_CAPTURED)) {
		if (guard_lock(&held)) {
			/* All blocking streams were waited for, too. */
			if (call->stream_kind == STREAM_LEGACY)
				guard_mixes();
			guard_wait_over(call->stream, call->entry_number);
			guard_unlock(&held);
		}
	} else if (!(call->flags & CALL_CAPTURED)) {
		/* A context's, or one that nobody knows. */
		guard_let_go();
	}
}

/* What drains the device, or is something else that may wait. */
static bool may_wait(const struct call *call)
{
	switch (catalogue_rows[call->function].kind) {
	case CATALOGUE_KIND_FREE:
	case CATALOGUE_KIND_REGISTER:
		return !call->operation;
	case CATALOGUE_KIND_IPC:
	case CATALOGUE_KIND_EXTERNAL:
	case CATALOGUE_KIND_GRAPHICS:
		return !call->operation;
	default:
		return false;
	}
}

static bool is_wait(const struct call *call)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];

	return row->kind == CATALOGUE_KIND_WAIT ||
	       (row->kind == CATALOGUE_KIND_QUERY && row->flags & CATALOGUE_HAS_RESULT);
}

/* An event was recorded, or a whole context waits for one. */
static void event_changed(const struct call *call)
{
	struct guard_held held;

	if (call->operation == OPERATION_EVENT_WAIT || call->flags & CALL_CAPTURED)
		return;
	/* A context's, or one that another process may see, and tell of. */
	if (call->stream_form == CALL_STREAM_CONTEXT || !call->stream ||
	    (call->subject && state_event_is_foreign(call->subject))) {
		if (call->subject)
			guard_let_go();
		return;
	}
	/* Behind all blocking streams. */
	if (call->stream_kind == STREAM_LEGACY && guard_lock(&held)) {
		guard_mixes();
		guard_unlock(&held);
	}
}

void guard_heard(const struct call *call, const uint64_t *arguments)
{
	if (guard_count && check_takes_time(call))
		timed(arguments);
	else if (is_wait(call))
		observed(call);
	else if (guard_count && may_wait(call))
		guard_let_go();
	else if (guard_count && catalogue_rows[call->function].kind == CATALOGUE_KIND_EVENT)
		event_changed(call);
}
