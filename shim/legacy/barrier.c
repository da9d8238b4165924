// SPDX-License-Identifier: MIT
/*
 * Barrier: records and waits that keep legacy order while the substitute stands for the legacy stream. Called by turn.c, under the
 * submission lock of the context. A wait takes what the event holds when it is called (cuda.h, cuStreamWaitEvent), so two events a context
 * are enough. Neither call waits for the device while the queues are short, which turn.c sees to.
 */
#include "call.h"
#include "driver/driver.h"
#include "legacy/internal.h"
#include "state/proof.h"
#include "state/state.h"

/*
 * What follows makes the calls that put one lane behind another, and no other place of the room does. A record of level full is made here alone, behind the
 * call, of what was given to the driver and of what it answered: who leaves out the call leaves out the record. So neither the lanes nor
 * what the event stands for are told by who asks for a barrier.
 */

/* A lane of the context, by the handle that the driver was given in it. `named`: which per-thread stream it is. False: none of its. */
static bool lane_of(const struct legacy_context *context, CUstream handle,
		    const struct state_stream *named, struct barrier_lane *ret_lane)
{
	const struct state_stream *stream = context->legacy;

	*ret_lane = (struct barrier_lane){0};
	if (handle == context->substitute)
		ret_lane->place = TRACE_ORDER_SUBSTITUTE;
	else if (!call_is_own_handle(handle))
		stream = state_stream_of(handle);
	else if (state_current_context() != context->id)
		return false;
	else if (handle == CU_STREAM_PER_THREAD)
		stream = named;
	ret_lane->stream = state_stream_number(stream);
	return ret_lane->stream != 0;
}

/* 0: the two need none. */
static uint32_t kind_of(const struct legacy_context *context, const struct barrier_lane *from,
			const struct barrier_lane *to)
{
	uint32_t legacy = state_stream_number(context->legacy);

	if (from->place == to->place)
		return 0;
	if (from->place)
		return to->stream == legacy ? TRACE_ORDER_BACK : TRACE_ORDER_POST;
	return from->stream == legacy ? TRACE_ORDER_JOIN : TRACE_ORDER_EXPLICIT;
}

static void note(struct legacy_context *context, struct legacy_pass *pass, uint32_t kind,
		 const struct barrier_lane *from, const struct barrier_lane *to, uint64_t covered)
{
	struct trace_order_barrier *barrier = &pass->barrier[pass->noted];

	/* A call places two at most. */
	if (pass->noted == LEGACY_BARRIERS)
		return;
	pass->noted++;
	*barrier = (struct trace_order_barrier){
		.context = context->number,
		.sequence = legacy_sequence(context, pass),
		.kind = kind,
		.from_stream = from->stream,
		.from_place = from->place,
		.to_stream = to->stream,
		.to_place = to->place,
	};
	/* 0: nothing has been told since. */
	if (covered + 1 != barrier->sequence)
		barrier->recorded = covered;
}

/* What fails leaves doubt, where the failure may last. */
static bool is_done(CUresult result)
{
	if (result != CUDA_SUCCESS)
		state_failed(result);
	return result == CUDA_SUCCESS;
}

/* What is told of by now. Before the driver's call: what comes meanwhile is not covered. */
static uint64_t told(const struct legacy_context *context)
{
	return __atomic_load_n(&context->sequence, __ATOMIC_RELAXED);
}

static bool record(struct legacy_context *context, const struct legacy_pass *pass,
		   struct barrier_event *stands, CUevent event, CUstream stream)
{
	uint64_t covered = told(context);
	CUresult result = driver.cuEventRecord(event, stream);

	if (pass->tells && result == CUDA_SUCCESS) {
		stands->of = lane_of(context, stream, NULL, &stands->lane) ? context->id : 0;
		stands->event = event;
		stands->covered = covered;
	}
	return is_done(result);
}

/* `named`: as lane_of() has it. A wait for an event that stands for nothing, or for the same lane, orders nothing. */
static bool wait(struct legacy_context *context, struct legacy_pass *pass,
		 const struct barrier_event *stands, CUstream stream, CUevent event,
		 const struct state_stream *named)
{
	CUresult result = driver.cuStreamWaitEvent(stream, event, 0);
	struct barrier_lane to;
	uint32_t kind;

	if (!is_done(result))
		return false;
	pass->barriers++;
	if (!pass->tells || stands->of != context->id || stands->event != event ||
	    !lane_of(context, stream, named, &to))
		return true;
	kind = kind_of(context, &stands->lane, &to);
	if (kind)
		note(context, pass, kind, &stands->lane, &to, stands->covered);
	return true;
}

/* Whoever captures has nothing to do with it: in the relaxed mode the driver does not ask. */
bool barrier_host(struct legacy_context *context, struct legacy_pass *pass,
		  const struct state_stream *stream)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct barrier_lane from, to = {.stream = state_stream_number(stream)};
	uint64_t covered = told(context);
	CUresult result;

	(void)driver.cuThreadExchangeStreamCaptureMode(&mode);
	result = driver.cuStreamSynchronize(context->substitute);
	(void)driver.cuThreadExchangeStreamCaptureMode(&mode);
	if (result != CUDA_SUCCESS)
		return false;
	pass->barriers++;
	if (pass->tells && lane_of(context, context->substitute, NULL, &from))
		note(context, pass, TRACE_ORDER_HOST, &from, &to, covered);
	emit_note(NOTE_REWRITE, "legacy: a barrier could not be placed, the host waited");
	return true;
}

bool barrier_join(struct legacy_context *context, struct legacy_pass *pass)
{
	return record(context, pass, &context->before_stands, context->before, CU_STREAM_LEGACY) &&
	       wait(context, pass, &context->before_stands, context->substitute, context->before,
		    NULL);
}

/* The record is made once for all streams that come behind the same operation. */
bool barrier_post(struct legacy_context *context, struct legacy_pass *pass,
		  const struct state_stream *stream, CUstream handle)
{
	bool is_new = context->recorded != context->epoch;

	if (is_new &&
	    !record(context, pass, &context->after_stands, context->after, context->substitute))
		return false;
	context->recorded = context->epoch;
	return wait(context, pass, &context->after_stands, handle, context->after, stream);
}

/* An event of its own: `after` may be recorded again while the other thread waits for room. */
bool barrier_begin_post(struct legacy_context *context, struct legacy_pass *pass)
{
	CUevent event;

	if (QUIETLY(driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) != CUDA_SUCCESS)
		return false;
	if (!record(context, pass, &pass->late_stands, event, context->substitute)) {
		(void)driver.cuEventDestroy_v2(event);
		return false;
	}
	pass->late = event;
	return true;
}

bool barrier_end_post(struct legacy_context *context, struct legacy_pass *pass,
		      const struct state_stream *stream, CUstream handle)
{
	bool is_placed =
		pass->late && wait(context, pass, &pass->late_stands, handle, pass->late, stream);

	if (pass->late)
		(void)driver.cuEventDestroy_v2(pass->late);
	return is_placed || barrier_host(context, pass, stream);
}

bool barrier_back(struct legacy_context *context, struct legacy_pass *pass)
{
	if (!record(context, pass, &context->after_stands, context->after, context->substitute) ||
	    !wait(context, pass, &context->after_stands, CU_STREAM_LEGACY, context->after, NULL))
		return false;
	context->recorded = context->epoch;
	return true;
}
