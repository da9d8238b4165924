// SPDX-License-Identifier: MIT
/*
 * Launch: the short way of a kernel launch (launch.h says why). Relies on the thread's caches of
 * streams and kernels, which the long way (state_before) fills: whatever is not in them is not
 * plain.
 *
 * What the short way leaves out is knowledge, never truth: a legacy launch that joins nothing new
 * and a blocking stream's launch with no new legacy work before it draw no conclusion in order.c
 * either.
 */
#include "state/launch.h"

#include "state/internal.h"
#include "state/state.h"

/* Streams looked at one bit each; more than this many words is the long way's business. */
#define WORDS_MAX 4

static bool anything_unjoined(void)
{
	uint32_t words = (stream_count() + 63) / 64;
	uint32_t word;

	if (words > WORDS_MAX)
		return true;
	for (word = 0; word < words; word++)
		/* Pairs with pending_list(): a submission that came before is seen. */
		if (__atomic_load_n(&unjoined_bits[word], __ATOMIC_SEQ_CST))
			return true;
	return false;
}

bool state_launch_is_plain(CUstream handle, CUfunction function, bool per_thread,
			   struct state_launch *ret_launch)
{
	struct state_thread *thread = &state_thread;
	const struct thread_kernel *known = thread_kernel_slot(thread, (uintptr_t)function);
	struct state_context *context;
	struct state_stream *stream;

	if (known->handle != (uintptr_t)function || !known->kernel ||
	    !STATE_LOAD(&known->kernel->launched))
		return false;
	if ((uintptr_t)handle > 2) {
		const struct thread_stream *slot = thread_stream_slot(thread, (uintptr_t)handle);

		stream = slot->stream;
		/* Pairs with the release store in stream_new(). */
		if (slot->handle != (uintptr_t)handle || !stream ||
		    __atomic_load_n(&stream->handle, __ATOMIC_ACQUIRE) != (uintptr_t)handle)
			return false;
	} else {
		if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread))
			return false;
		context = context_current();
		if (!context)
			return false;
		stream = context->legacy;
	}
	if (STATE_LOAD(&stream->capture))
		return false;
	switch (stream_kind(stream)) {
	case STREAM_NON_BLOCKING:
		break;
	case STREAM_LEGACY:
		if (anything_unjoined())
			return false;
		break;
	case STREAM_BLOCKING:
		context = stream_context(stream);
		if (!context ||
		    STATE_LOAD(&context->legacy->submitted) != STATE_LOAD(&stream->legacy_joined))
			return false;
		break;
	default:
		return false;
	}
	ret_launch->stream = stream;
	ret_launch->youngest = (uint64_t)OPERATION_KERNEL << 32 | STATE_LOAD(&known->kernel->name);
	return true;
}

void state_launch_submitted(const struct state_launch *launch)
{
	order_number(launch->stream, launch->youngest);
}
