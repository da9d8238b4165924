// SPDX-License-Identifier: MIT
/*
 * Check, S01: an asynchronous copy on a stream with nothing to do, and next, at once, a wait for it in the same thread, again and again at the same two
 * places. Behind other work the wait is for that, too. An event that is recorded between belongs to the wait. What the thread does between without the driver shows in time only: then it is no "at once".
 *
 * last		each thread's own
 * pairs	under check_lock()
 */
#include "check/internal.h"

#include <string.h>

#include "check/pairs.h"
#include "clock.h"
#include "state/state.h"

/* So often at one pair of places: a copy at the end of a program's work has to be waited for. */
#define LEAST_COUNT 3
#define AT_ONCE_NS  20000

struct last {
	const struct state_stream *stream; /* of the copy; NULL: the last call was none */
	uint64_t event;                    /* recorded behind it; 0 none */
	uint64_t left;                     /* ticks: when the last call returned */
	struct check_side copy;
};

static __thread struct last last __attribute__((tls_model("initial-exec")));
static struct check_pairs pairs;

static bool is_async_copy(const struct call *call)
{
	return call->operation == OPERATION_COPY && call->flags & CALL_ASYNC &&
	       !(call->flags & CALL_CAPTURED) && call->stream && !call->backlog &&
	       !call->pending_count; /* the legacy stream, where this one comes behind it */
}

static bool records_behind(const struct call *call)
{
	return catalogue_rows[call->function].kind == CATALOGUE_KIND_EVENT && !call->operation &&
	       last.stream && call->stream == last.stream && !(call->flags & CALL_CAPTURED);
}

static bool waits_for(const struct call *call)
{
	return last.stream && catalogue_rows[call->function].kind == CATALOGUE_KIND_WAIT &&
	       (call->stream ? call->stream == last.stream
			     : last.event && call->subject == last.event);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	struct check_side wait;
	uint32_t made;

	(void)arguments;
	if (result != CUDA_SUCCESS) {
		last.stream = NULL;
	} else if (is_async_copy(call)) {
		last = (struct last){.stream = call->stream, .left = call->left};
		last.copy = check_side_take(call);
	} else if (records_behind(call)) {
		last.event = call->subject;
		last.left = call->left;
	} else if (waits_for(call) && clock_duration_ns(last.left, call->entered) < AT_ONCE_NS) {
		last.stream = NULL;
		wait = check_side_take(call);
		made = check_pairs_seen(&pairs, &last.copy, &wait, LEAST_COUNT,
					"asynchronous copies and waits for them: too many places");
		for (; made; made--)
			check_remark_at(&wait, 0, RULE_ASYNC_COPY_THEN_WAIT, &last.copy);
	} else {
		last.stream = NULL;
	}
}

static void forget(void)
{
	memset(&pairs, 0, sizeof(pairs));
	last.stream = NULL;
}

const struct check_rule check_copy_wait_rule = {.after = after, .forget = forget};
