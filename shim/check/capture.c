// SPDX-License-Identifier: MIT
/*
 * Check, captures: which streams capture, since when and by which thread, for all rules about captures (internal.h); and L07: work that a thread
 * gives the legacy default stream while it captures a non-blocking stream.
 *
 * captures, count	under check_lock()
 */
#include "check/internal.h"

#include <string.h>

#include "check/kinds.h"
#include "state/state.h"

#define CAPTURES_MAX 64

static struct check_capture captures[CAPTURES_MAX];
static uint32_t count;

const struct check_capture *check_capture_at(uint32_t index)
{
	return index < count ? &captures[index] : NULL;
}

/* By stream, or where that is NULL by handle. Under check_lock(). */
static void forget(const struct state_stream *stream, uint64_t handle)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (stream ? captures[i].stream == stream : captures[i].handle == handle)
			captures[i--] = captures[check_hint_add(&count, -1)];
}

static bool begins(const struct call *call)
{
	switch (call->function) {
	case FUNCTION_cuStreamBeginCapture:
	case FUNCTION_cuStreamBeginCapture_ptsz:
	case FUNCTION_cuStreamBeginCapture_v2:
	case FUNCTION_cuStreamBeginCapture_v2_ptsz:
	case FUNCTION_cuStreamBeginCaptureToGraph:
	case FUNCTION_cuStreamBeginCaptureToGraph_ptsz:
		return true;
	default:
		return false;
	}
}

static bool ends(const struct call *call)
{
	switch (call->function) {
	case FUNCTION_cuStreamEndCapture:
	case FUNCTION_cuStreamEndCapture_ptsz:
		return true;
	default:
		return false;
	}
}

/* The first version had no mode: global. */
static uint32_t mode_of(const struct call *call, const uint64_t *arguments)
{
	switch (call->function) {
	case FUNCTION_cuStreamBeginCapture_v2:
	case FUNCTION_cuStreamBeginCapture_v2_ptsz:
		return (uint32_t)arguments[1];
	case FUNCTION_cuStreamBeginCaptureToGraph:
	case FUNCTION_cuStreamBeginCaptureToGraph_ptsz:
		return (uint32_t)arguments[5];
	default:
		return CU_STREAM_CAPTURE_MODE_GLOBAL;
	}
}

static void add(const struct check_capture *capture)
{
	if (!check_lock())
		return;
	forget(capture->stream, 0);
	if (count < CAPTURES_MAX) {
		captures[count] = *capture;
		(void)check_hint_add(&count, 1);
		check_unlock();
		return;
	}
	check_unlock();
	check_lost("captures: too many at once");
}

static void remove_of(const struct state_stream *stream, uint64_t handle)
{
	if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !check_lock())
		return;
	forget(stream, handle);
	check_unlock();
}

/* A capture of a non-blocking stream that this thread began and has not ended. */
static bool find_own(struct check_side *ret_begun)
{
	uint64_t thread = check_thread();
	bool found = false;
	uint32_t i;

	if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !check_lock())
		return false;
	for (i = 0; i < count && !found; i++)
		if (captures[i].thread == thread && captures[i].kind == STREAM_NON_BLOCKING) {
			*ret_begun = captures[i].begun;
			found = true;
		}
	check_unlock();
	return found;
}

/*
 * What is synchronous is meant to be done at once, not at each replay: constants that are uploaded while a graph is made. What is put on the
 * stream asynchronously stands beside what is captured, and was most likely meant to be captured with it.
 */
static bool is_outside(const struct call *call)
{
	return call->stream_kind == STREAM_LEGACY && call->operation && call->flags & CALL_ASYNC &&
	       !(call->flags & CALL_CAPTURED);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	struct check_side begun;

	if (check_destroys_stream(call)) {
		remove_of(NULL, arguments[0]);
	} else if (ends(call) && call->stream) {
		remove_of(call->stream, 0);
	} else if (result == CUDA_SUCCESS && begins(call) && call->stream) {
		add(&(struct check_capture){
			.stream = call->stream,
			.handle = (uintptr_t)call->stream_handle,
			.thread = check_thread(),
			.mode = mode_of(call, arguments),
			.kind = call->stream_kind,
			.begun = check_side_take(call),
		});
	} else if (result == CUDA_SUCCESS && is_outside(call) && find_own(&begun)) {
		check_remark(call, RULE_LEGACY_OUTSIDE_CAPTURE, &begun);
	}
}

static void forget_all(void)
{
	memset(captures, 0, sizeof(captures));
	count = 0;
}

const struct check_rule check_capture_rule = {.after = after, .forget = forget_all};
