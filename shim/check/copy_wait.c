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

#include "clock.h"
#include "state/state.h"

#define PAIRS_MAX 256
/* So often at one pair of places: a copy at the end of a program's work has to be waited for. */
#define LEAST_COUNT 3
#define AT_ONCE_NS  20000

struct last {
	const struct state_stream *stream; /* of the copy; NULL: the last call was none */
	uint64_t event;                    /* recorded behind it; 0 none */
	uint64_t left;                     /* ticks: when the last call returned */
	struct check_side copy;
};

struct pair {
	struct check_side copy, wait;
	uint32_t count;
};

static __thread struct last last __attribute__((tls_model("initial-exec")));
static struct pair pairs[PAIRS_MAX];
static uint32_t count;

static bool is_same(const struct check_side *left, const struct check_side *right)
{
	return left->function == right->function && left->site == right->site;
}

/* Remarks to make of this one: none at first, all that were seen with the one that is enough. */
static uint32_t count_pair(const struct check_side *copy, const struct check_side *wait)
{
	bool fits = true;
	uint32_t i, made = 0;

	if (!check_lock())
		return 0;
	for (i = 0; i < count; i++)
		if (is_same(&pairs[i].copy, copy) && is_same(&pairs[i].wait, wait))
			break;
	if (i == count) {
		fits = count < PAIRS_MAX;
		if (fits)
			pairs[count++] = (struct pair){.copy = *copy, .wait = *wait};
	}
	if (fits && ++pairs[i].count >= LEAST_COUNT)
		made = pairs[i].count == LEAST_COUNT ? LEAST_COUNT : 1;
	check_unlock();
	if (!fits)
		check_lost("asynchronous copies and waits for them: too many places");
	return made;
}

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
		for (made = count_pair(&last.copy, &wait); made; made--)
			check_remark_at(&wait, 0, RULE_ASYNC_COPY_THEN_WAIT, &last.copy);
	} else {
		last.stream = NULL;
	}
}

static void forget(void)
{
	memset(pairs, 0, sizeof(pairs));
	count = 0;
	last.stream = NULL;
}

const struct check_rule check_copy_wait_rule = {.after = after, .forget = forget};
