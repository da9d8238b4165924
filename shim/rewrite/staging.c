// SPDX-License-Identifier: MIT
/*
 * Staging: hooks of the copies between pageable memory and the device. Called by the generated wrappers. Decides which copies the engine
 * (stage.h) makes, makes the wait that is promised before, and leaves everything else to the driver. Relies on place.h for what memory
 * lies where, on proof.h for when nothing may be rewritten.
 *
 * What a call still promises:
 *	to the device, synchronous	first the wait for its stream, by that very call of the driver; then the source is read. Where nothing that is
 *					under way can wait for who writes the source (state_source_is_settled()), it is read first, and
 *					the wait comes before the copy. relax=order leaves the wait out, where nobody could notice
 *					(state_noticeable()); the engine still waits for a copy of more than a chunk
 *	to the device, asynchronous	the source is read when it returns; the copy has its place in the stream
 *	to the host, both		all bytes are there when it returns, so it waits for all that comes before
 *
 * A copy that the engine declines after the wait goes to the driver, which then has nothing to wait for.
 */
#include "rewrite/staging.h"
#include "call.h"
#include "clock.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/busy.h"
#include "emit/emit.h"
#include "rewrite/deny.h"
#include "rewrite/events.h"
#include "rewrite/internal.h"
#include "rewrite/pinned.h"
#include "rewrite/rewrite.h"
#include "stage/drain.h"
#include "state/place.h"
#include "state/proof.h"
#include "state/state.h"

void staging_start(void)
{
	const char *why;

	if (!(config.fix & CONFIG_FIX_STAGING))
		return;
	why = staging_machine_objection();
	if (why)
		emit_note(NOTE_REWRITE, why);
	else
		__atomic_store_n(&stage_on, 1, __ATOMIC_RELAXED);
}

/* Does the call's stream have work that is not known complete? Legacy: any that it stands for. */
static bool is_busy(const struct call *call)
{
	return call->pending_count || call->backlog;
}

static bool wins(const struct call *call, bool busy, bool relaxed)
{
	/* A copy from host to host is neither; it is found out later. */
	bool to_device = call->destination_kind != MEMORY_PAGEABLE;
	bool async = call->flags & CALL_ASYNC;

	return staging_wins(to_device, async, busy, async || !relaxed || !to_device, call->bytes);
}

/* Whether it may be is asked later (may_read_first()). */
static bool wins_read_first(const struct call *call)
{
	return call->bytes >= staging_read_first_from && !(call->flags & CALL_ASYNC) &&
	       call->pending_count && call->source_kind == MEMORY_PAGEABLE &&
	       call->destination_kind != MEMORY_PAGEABLE;
}

/*
 * Most copies are small: nothing but their size is looked at, unless a wait could be left out (staging_wins()). An asynchronous one may find
 * its stream idle after all.
 */
static bool may_win(const struct call *call)
{
	if (call->bytes < staging_least && !wins_read_first(call) &&
	    (call->flags & CALL_ASYNC || !(config.relax & CONFIG_RELAX_ORDER) || !is_busy(call)))
		return false;
	return __atomic_load_n(&stage_on, __ATOMIC_RELAXED) &&
	       (wins(call, is_busy(call), config.relax & CONFIG_RELAX_ORDER) ||
		wins_read_first(call) || (call->flags & CALL_ASYNC && wins(call, false, false)));
}

static CUstream stream_of(const struct call *call)
{
	if (call->stream_handle)
		return call->stream_handle;
	return call->flags & CALL_PER_THREAD ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* What is not known complete may be; asked only where a copy takes a hundred times as long as the question. */
static bool stream_is_done(const struct call *call)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	bool done;

	if (!driver.cuStreamQuery || !driver.cuThreadExchangeStreamCaptureMode ||
	    driver.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
		return false;
	done = driver.cuStreamQuery(stream_of(call)) == CUDA_SUCCESS;
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	return done;
}

/* NULL: it may be staged. */
static const char *objection(const struct call *call, const struct staging *staging)
{
	const char *why = state_objection();

	if (why)
		return why;
	if (call->flags & CALL_CAPTURED)
		return "driver: the stream captures";
	if (call->flags & CALL_SYNC_MEMOPS)
		return "driver: SYNC_MEMOPS";
	if (!state_works_in_current(call))
		return "driver: the stream is not known, or of another context than the current "
		       "one";
	why = staging_memory_objection(call, staging);
	if (!why && rewrite_denied(call, CONFIG_FIX_STAGING))
		why = "driver: the call site is denied";
	return why;
}

static bool go_to_driver(const char *why)
{
	COUNT_STAGING(to_driver, 1);
	emit_note(NOTE_REWRITE, why);
	return false;
}

/* May the wait for the stream be left out? Asked only where there is something to wait for. */
static bool may_leave_out_wait(const struct call *call)
{
	const char *why;

	if (!(config.relax & CONFIG_RELAX_ORDER))
		return false;
	why = staging_device_writes_pageable() ? "order: the device can write pageable memory"
					       : state_noticeable(call);
	if (why)
		emit_note(NOTE_REWRITE, why);
	return !why;
}

/* The device does not write it, and what is under way does not wait for who does. */
static bool may_read_first(const struct call *call)
{
	return driver.cuStreamSynchronize && !staging_device_writes_pageable() &&
	       state_source_is_settled(call);
}

static bool source_is_same(uint64_t mark)
{
	/* Who is submitting first: it may raise the mark, and then have its number. */
	return !state_is_flying() && state_source_mark() == mark && !state_objection();
}

/* The wait that the driver's own copy makes before it reads the source. */
static bool wait_for_stream(const struct call *call)
{
	return driver.cuStreamSynchronize &&
	       driver.cuStreamSynchronize(stream_of(call)) == CUDA_SUCCESS;
}

static void count(const struct call *call, const struct stage_copy *copy, bool waited)
{
	bool left_out = call->flags & CALL_UNWAITED;

	if (copy->to_device) {
		COUNT_STAGING(to_device, 1);
		COUNT_STAGING(to_device_bytes, call->bytes);
	} else {
		COUNT_STAGING(from_device, 1);
		COUNT_STAGING(from_device_bytes, call->bytes);
	}
	COUNT_STAGING(waits_avoided, left_out);
	COUNT_STAGING(waits_made, waited && !left_out);
	__atomic_store_n(&counts_staging->held_bytes, stage_held_bytes(), __ATOMIC_RELAXED);
}

static bool stage(struct call *call, CUresult *ret_result, struct staging *staging)
{
	struct stage_copy *copy = &staging->copy;
	const char *why = objection(call, staging);
	bool waits = false;
	enum stage_outcome outcome;

	if (!why && call->flags & CALL_ASYNC && is_busy(call) && !wins(call, true, false) &&
	    !stream_is_done(call))
		why = "driver: it would wait for its stream, where the driver may not";
	if (why)
		return go_to_driver(why);
	if (copy->to_device && !(call->flags & CALL_ASYNC) && call->pending_count) {
		waits = !may_leave_out_wait(call);
		copy->source_mark = state_source_mark();
		copy->is_same = source_is_same;
		copy->waits = waits && may_read_first(call);
		/* It was worth staging only without the wait? */
		if (waits && !wins(call, true, false) && !(copy->waits && wins_read_first(call)))
			return false;
	} else if (copy->to_device && !(call->flags & CALL_ASYNC)) {
		/* Events may be under way there, which have no number: the driver's copy waits for them. */
		waits = !(config.relax & CONFIG_RELAX_ORDER);
	}
	copy->context = state_context_id(call->context);
	copy->stream = stream_of(call);
	call->entered = busy_driver(call->function, clock_ticks());
	if (waits && !copy->waits && !wait_for_stream(call))
		return go_to_driver("driver: the wait for the stream failed");
	outcome = stage_copy(copy);
	call->left = clock_ticks();
	/* It has said why. */
	if (outcome == STAGE_DRIVER) {
		COUNT_STAGING(to_driver, 1);
		return false;
	}
	call->flags |= CALL_STAGED;
	/* One that needs a gate has waited for it, behind all that was unfinished before it. */
	if (copy->to_device && !(call->flags & CALL_ASYNC) && call->pending_count && !waits &&
	    call->bytes <= stage_chunk_bytes())
		call->flags |= CALL_UNWAITED;
	*ret_result = CUDA_SUCCESS;
	count(call, copy, call->pending_count && !(copy->to_device && call->flags & CALL_ASYNC));
	events_rewritten(call, CONFIG_FIX_STAGING, TRACE_REWRITTEN_STAGED, call->bytes);
	return true;
}

bool rewrite_copy(struct call *call, CUresult *ret_result)
{
	struct staging staging;

	return may_win(call) && staging_describe(call, &staging) &&
	       stage(call, ret_result, &staging);
}

bool rewrite_copy_2d(struct call *call, CUresult *ret_result, const CUDA_MEMCPY2D *described)
{
	struct staging staging;

	return may_win(call) && staging_describe_2d(call, described, &staging) &&
	       stage(call, ret_result, &staging);
}

bool rewrite_copy_3d(struct call *call, CUresult *ret_result, const CUDA_MEMCPY3D *described)
{
	struct staging staging;

	return may_win(call) && staging_describe_3d(call, described, &staging) &&
	       stage(call, ret_result, &staging);
}

bool rewrite_sync_memops(struct call *call, CUresult *ret_result, uint64_t address)
{
	pinned_special(address);
	/* Nothing that is pending when it is set may still be pending when the call returns. */
	if (__atomic_load_n(&stage_on, __ATOMIC_RELAXED) && address != UINT64_MAX)
		stage_wait_pending();
	return false;
}

bool rewrite_host_code(struct call *call, CUresult *ret_result, bool is_there)
{
	if (is_there)
		state_host_code("order: host code in a graph or behind an object of it");
	return false;
}
