// SPDX-License-Identifier: MIT
/*
 * Check, what captures refuse: L08, an operation of the legacy default stream that the driver refused because a blocking stream captures (906), and
 * L09, a call that it refused because another thread captures in global mode (900). Both have ended that capture, so the status is the proof; of a call
 * that came a moment earlier nothing is said.
 */
#include "check/internal.h"

/*
 * A capture that this thread has not begun, in global mode, while nothing else can be what the driver minds: no capture of this thread's own, nor one of
 * the call's stream, which is refused whoever asks, in each mode.
 */
static bool find_foreign(const struct call *call, struct check_side *ret_begun)
{
	const struct check_capture *capture;
	uint64_t thread = check_thread();
	bool found = false, own = false;
	uint32_t i;

	if (!check_lock())
		return false;
	for (i = 0; (capture = check_capture_at(i)); i++) {
		if (capture->thread == thread) {
			own |= capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
		} else if (capture->stream == call->stream) {
			own = true;
		} else if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && !found) {
			*ret_begun = capture->begun;
			found = true;
		}
	}
	check_unlock();
	return found && !own;
}

/* A capture of a blocking stream. */
static bool find_blocking(struct check_side *ret_begun)
{
	const struct check_capture *capture;
	bool found = false;
	uint32_t i;

	if (!check_lock())
		return false;
	for (i = 0; !found && (capture = check_capture_at(i)); i++)
		if (capture->kind == STREAM_BLOCKING || capture->kind == STREAM_PER_THREAD) {
			*ret_begun = capture->begun;
			found = true;
		}
	check_unlock();
	return found;
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	struct check_side begun;

	(void)arguments;
	if (__builtin_expect(result == CUDA_SUCCESS, 1))
		return;
	if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT && find_blocking(&begun))
		check_remark(call, RULE_LEGACY_IN_CAPTURE, &begun);
	else if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && find_foreign(call, &begun))
		check_remark(call, RULE_UNSAFE_CALL_IN_CAPTURE, &begun);
}

const struct check_rule check_refused_rule = {.after = after};
