// SPDX-License-Identifier: MIT
/*
 * Capture: streams that build a graph instead of working. Called by the hooks of the capture
 * functions and by state_before().
 *
 * A capture is named by the stream that began it and a sequence number that is odd while the
 * capture lasts. Streams drawn in by an event wait carry the same name, and need not be told of the
 * end.
 */
#include "catalogue/catalogue.h"
#include "state/internal.h"
#include "state/state.h"

bool capture_is_active(uint64_t capture)
{
	uint32_t sequence = (uint32_t)capture;
	struct state_stream *origin;

	if (!(sequence & 1))
		return false;
	origin = stream_at((uint32_t)(capture >> 32));
	return STATE_LOAD(&origin->capture_sequence) == sequence;
}

void state_capture_begun(struct call *call, CUstream handle, CUstreamCaptureMode mode)
{
	struct state_stream *stream = call->stream;
	uint32_t sequence;

	if (!stream)
		return;
	/* A capture that ended unseen leaves an odd number: the next odd one is the new capture. */
	sequence = (STATE_LOAD(&stream->capture_sequence) + 1) | 1;
	STATE_STORE(&stream->capture_sequence, sequence);
	STATE_STORE(&stream->capture, (uint64_t)stream->index << 32 | sequence);
	launch_forget_all();
}

void state_capture_ending(struct call *call)
{
	call->capture = call->stream ? STATE_LOAD(&call->stream->capture_sequence) : 0;
}

/*
 * Of several threads that end one capture one gets the better of it, here as in the driver; and none ends a capture that began while its
 * own call was on its way.
 */
static void ended(struct call *call)
{
	struct state_stream *stream = call->stream;
	uint32_t sequence = call->capture;
	uint64_t name;

	if (!stream || !(sequence & 1) ||
	    !__atomic_compare_exchange_n(&stream->capture_sequence, &sequence, sequence + 1, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	/* Unless the stream has begun another one by now. */
	name = (uint64_t)stream->index << 32 | sequence;
	__atomic_compare_exchange_n(&stream->capture, &name, 0, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	proof_capture_over();
}

void state_capture_result(struct call *call, CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
	case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
	case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
	case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
	case CUDA_ERROR_ILLEGAL_STATE:
		ended(call);
		break;
	default: /* wrong thread, bad argument: the capture goes on */
		break;
	}
}
