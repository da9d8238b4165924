// SPDX-License-Identifier: MIT
/*
 * Barrier: records and waits that keep legacy order while the substitute stands for the legacy stream. Called by turn.c, under the
 * submission lock of the context. A wait takes what the event holds when it is called (cuda.h, cuStreamWaitEvent), so two events a context
 * are enough. Neither call waits for the device while the queues are short, which turn.c sees to.
 */
#include "driver/driver.h"
#include "legacy/internal.h"
#include "state/proof.h"
#include "state/state.h"

/* `recorded`: the record that told of the event, 0: this one does. */
static uint64_t note(struct legacy_context *context, struct legacy_pass *pass, uint32_t kind,
		     const struct state_stream *from, const struct state_stream *to,
		     uint64_t recorded)
{
	bool from_substitute =
		kind == TRACE_ORDER_POST || kind == TRACE_ORDER_BACK || kind == TRACE_ORDER_HOST;
	struct trace_order_barrier *barrier = &pass->barrier[pass->barriers];

	/* A call places two at most. */
	if (pass->barriers == LEGACY_BARRIERS)
		return 0;
	pass->barriers++;
	*barrier = (struct trace_order_barrier){
		.context = context->number,
		.sequence = legacy_sequence(context, pass),
		.kind = kind,
		.from_stream = state_stream_number(from),
		.from_place = from_substitute ? TRACE_ORDER_SUBSTITUTE : TRACE_ORDER_NATIVE,
		.to_stream = state_stream_number(to),
		.to_place = from_substitute ? TRACE_ORDER_NATIVE : TRACE_ORDER_SUBSTITUTE,
		.recorded = recorded,
	};
	return barrier->sequence;
}

/* What fails leaves doubt, where the failure may last. */
static bool is_done(CUresult result)
{
	if (result != CUDA_SUCCESS)
		state_failed(result);
	return result == CUDA_SUCCESS;
}

static bool record(CUevent event, CUstream stream)
{
	return is_done(driver.cuEventRecord(event, stream));
}

static bool wait(CUstream stream, CUevent event)
{
	return is_done(driver.cuStreamWaitEvent(stream, event, 0));
}

bool barrier_join(struct legacy_context *context, struct legacy_pass *pass)
{
	if (!record(context->before, CU_STREAM_LEGACY) ||
	    !wait(context->substitute, context->before))
		return false;
	(void)note(context, pass, TRACE_ORDER_JOIN, context->legacy, context->legacy, 0);
	return true;
}

/* Whoever captures has nothing to do with it: in the relaxed mode the driver does not ask. */
static bool wait_on_host(const struct legacy_context *context)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult result;

	(void)driver.cuThreadExchangeStreamCaptureMode(&mode);
	result = driver.cuStreamSynchronize(context->substitute);
	(void)driver.cuThreadExchangeStreamCaptureMode(&mode);
	if (result != CUDA_SUCCESS)
		return false;
	emit_note(NOTE_REWRITE, "legacy: a barrier could not be placed, the host waited");
	return true;
}

/* The record is made once for all streams that come behind the same operation. */
bool barrier_post(struct legacy_context *context, struct legacy_pass *pass,
		  const struct state_stream *stream, CUstream handle)
{
	bool is_new = context->recorded != context->epoch;
	uint64_t sequence;

	if (is_new && !record(context->after, context->substitute))
		return false;
	context->recorded = context->epoch;
	if (!wait(handle, context->after)) {
		context->recorded = 0; /* nobody was told of this one */
		return false;
	}
	sequence = note(context, pass, TRACE_ORDER_POST, context->legacy, stream,
			is_new ? 0 : context->recorded_at);
	if (is_new)
		context->recorded_at = sequence;
	return true;
}

/* An event of its own: `after` may be recorded again while the other thread waits for room. */
bool barrier_begin_post(struct legacy_context *context, struct legacy_pass *pass,
			const struct state_stream *stream)
{
	CUevent event;

	if (QUIETLY(driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) != CUDA_SUCCESS)
		return false;
	if (!record(event, context->substitute)) {
		(void)driver.cuEventDestroy_v2(event);
		return false;
	}
	pass->late = event;
	(void)note(context, pass, TRACE_ORDER_POST, context->legacy, stream, 0);
	return true;
}

bool barrier_end_post(const struct legacy_context *context, const struct legacy_pass *pass,
		      CUstream handle)
{
	bool is_placed = wait(handle, pass->late) || wait_on_host(context);

	(void)driver.cuEventDestroy_v2(pass->late);
	return is_placed;
}

bool barrier_back(struct legacy_context *context, struct legacy_pass *pass)
{
	if (!record(context->after, context->substitute) || !wait(CU_STREAM_LEGACY, context->after))
		return false;
	context->recorded = context->epoch;
	context->recorded_at =
		note(context, pass, TRACE_ORDER_BACK, context->legacy, context->legacy, 0);
	return true;
}

bool barrier_host(struct legacy_context *context, struct legacy_pass *pass,
		  const struct state_stream *stream)
{
	if (!wait_on_host(context))
		return false;
	(void)note(context, pass, TRACE_ORDER_HOST, context->legacy, stream, 0);
	return true;
}
