// SPDX-License-Identifier: MIT
/*
 * Observe: waits for a stream, and queries of it (rewrite.h). Work of the legacy stream may be on its substitute (legacy/observe.c).
 *
 * And what the program knows to be done must be found done. An event of ours may stand behind it (settle.c, the chunks of staged copies), and for a moment the stream
 * is not ready for that alone: who has waited for its own event, or for the stream itself, and then asks the stream would be told otherwise. So where all that the
 * program gave a stream is known complete, or an event of ours is on its way, the stream is asked again for as long as an event takes.
 */
#include "call.h"
#include "catalogue/catalogue.h"
#include "clock.h"
#include "driver/driver.h"
#include "emit/busy.h"
#include "legacy/legacy.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "state/proof.h"
#include "state/state.h"

/* An event with nothing in front of it is done within some microseconds (H200). Longer where it is known that there is nothing. */
#define PATIENCE_NS UINT64_C(300000)
#define EVENT_NS    UINT64_C(60000)

static CUstream handle_of(const struct call *call)
{
	switch (call->stream_kind) {
	case STREAM_LEGACY:
		return CU_STREAM_LEGACY;
	case STREAM_PER_THREAD:
		return CU_STREAM_PER_THREAD;
	default:
		return call->stream_handle;
	}
}

static void ask(struct call *call, CUresult *ret_result)
{
	if (!legacy_observe(call, ret_result))
		*ret_result = driver.cuStreamQuery(handle_of(call));
}

/* Of the legacy stream that is true of all blocking streams, too. */
static bool is_known_done(const struct call *call)
{
	return !call->backlog && !call->pending_count && !state_objection();
}

static uint64_t patience_ns(const struct call *call)
{
	if (is_known_done(call))
		return PATIENCE_NS;
	/* On the legacy stream and its substitute barriers are. */
	return (legacy_active() && call->stream_kind == STREAM_LEGACY) ||
			       settle_has_event(state_context_id(call->context))
		       ? EVENT_NS
		       : 0;
}

bool rewrite_observe(struct call *call, CUresult *ret_result)
{
	uint64_t end;

	if (catalogue_rows[call->function].kind == CATALOGUE_KIND_WAIT)
		return legacy_observe(call, ret_result);
	if (!call->stream || call->flags & CALL_CAPTURED || !driver.cuStreamQuery)
		return false;
	call->entered = busy_driver(call->function, clock_ticks());
	ask(call, ret_result);
	end = *ret_result == CUDA_ERROR_NOT_READY ? patience_ns(call) : 0;
	end += end ? clock_now_ns() : 0;
	while (end && *ret_result == CUDA_ERROR_NOT_READY && clock_now_ns() < end)
		ask(call, ret_result);
	call->left = clock_ticks();
	return true;
}
