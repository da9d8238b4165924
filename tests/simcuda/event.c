// SPDX-License-Identifier: MIT
/*
 * Events.
 *
 * Owns: create, record, wait, query, timing. An event refers to the operation of its last record;
 * one that was never recorded counts as complete. Called by: exports.c. Relies on stream.c for
 * order: a record or wait on the legacy stream is an operation there and so joins like any other.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static struct sim_event *check(CUevent handle)
{
	return sim_object_check(handle, SIM_EVENT);
}

CUresult impl_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct sim_context *context;
	CUresult result = sim_context_current(&context);
	struct sim_event *event;

	if (result)
		return result;
	if (!phEvent || Flags & ~7u ||
	    ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	event = sim_object_new(SIM_EVENT);
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->flags = Flags;
	event->context = context;
	event->context_id = context->object.id;
	if (Flags & CU_EVENT_INTERPROCESS) {
		result = sim_ipc_event_open(event);
		if (result) {
			sim_object_free(event);
			return result;
		}
	}
	*phEvent = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult impl_cuEventDestroy_v2(CUevent hEvent)
{
	struct sim_event *event = check(hEvent);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_event_uncapture(event);
	sim_operation_put(event->record);
	sim_ipc_event_close(event);
	sim_object_free(event);
	return CUDA_SUCCESS;
}

CUresult impl_cuEventDestroy(CUevent hEvent)
{
	return impl_cuEventDestroy_v2(hEvent);
}

CUresult impl_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct sim_event *event = check(hEvent);
	struct sim_work work = {.kind = SIM_EVENT_RECORD};
	struct sim_operation *operation;
	struct sim_stream *stream;
	CUresult result;

	if (flags & ~CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_stream_resolve(hStream, &stream);
	if (result)
		return result;
	if (!event || event->context_id != stream->context->object.id)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture)
		return sim_capture_record(stream, event, flags & CU_EVENT_RECORD_EXTERNAL);
	if (flags & CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	sim_ipc_event_record(event, &work);
	result = sim_submit(stream, &work, &operation);
	if (result)
		return result;
	sim_event_uncapture(event);
	sim_operation_put(event->record);
	event->record = operation;
	return CUDA_SUCCESS;
}

CUresult impl_cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return impl_cuEventRecordWithFlags(hEvent, hStream, 0);
}

CUresult impl_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct sim_event *event = check(hEvent);
	struct sim_work work = {.kind = SIM_EVENT_WAIT};
	struct sim_stream *stream;
	CUresult result;

	if (Flags & ~CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_stream_resolve(hStream, &stream);
	if (result)
		return result;
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture || event->capture_id)
		return sim_capture_wait(stream, event, Flags & CU_EVENT_WAIT_EXTERNAL);
	if (Flags & CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (event->shared)
		return sim_ipc_event_wait(stream, event);
	return sim_submit_after(stream, &work, event->record, NULL);
}

static CUresult captured(struct sim_event *event)
{
	if (!event->capture_id)
		return CUDA_SUCCESS;
	sim_event_invalidate(event);
	return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult impl_cuEventQuery(CUevent hEvent)
{
	struct sim_event *event = check(hEvent);
	CUresult result;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	result = captured(event);
	if (result)
		return result;
	if (event->shared && !sim_ipc_event_done(event))
		return CUDA_ERROR_NOT_READY;
	if (event->record && event->record->state != SIM_DONE)
		return CUDA_ERROR_NOT_READY;
	return event->context_id == event->context->object.id ? event->context->sticky
							      : CUDA_SUCCESS;
}

CUresult impl_cuEventSynchronize(CUevent hEvent)
{
	struct sim_event *event = check(hEvent);
	struct sim_context *context;
	CUresult result;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	result = captured(event);
	if (result)
		return result;
	context = event->context;
	if (event->shared)
		sim_ipc_event_synchronize(event);
	if (event->record)
		sim_wait_operation(event->record);
	sim_pools_synchronized(context->device);
	return context->sticky;
}

CUresult impl_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct sim_event *start = check(hStart), *stop = check(hEnd);

	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if (!start || !stop || !start->record || !stop->record ||
	    (start->flags | stop->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	if (start->record->state != SIM_DONE || stop->record->state != SIM_DONE)
		return CUDA_ERROR_NOT_READY;
	*pMilliseconds = ((double)stop->record->finish_at - (double)start->record->finish_at) / 1e6;
	return CUDA_SUCCESS;
}

CUresult impl_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return impl_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

/* All streams of the context, non-blocking ones too. */
CUresult impl_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct sim_context *context = sim_context_handle(hCtx);
	struct sim_event *event = check(hEvent);
	struct sim_operation *operation;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!event || event->context_id != context->object.id)
		return CUDA_ERROR_INVALID_HANDLE;
	if (sim_capture_context(context, true))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	operation = sim_operation_new(context, NULL);
	if (!operation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	operation->work.kind = SIM_EVENT_RECORD;
	if (context->legacy)
		sim_operation_after(operation, context->legacy->tail);
	for (unsigned i = 0; i < context->stream_count; i++)
		sim_operation_after(operation, context->streams[i]->tail);
	sim_operation_commit(operation);
	sim_event_uncapture(event);
	sim_operation_put(event->record);
	event->record = operation;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	struct sim_context *context = sim_context_handle(hCtx);
	struct sim_event *event = check(hEvent);
	struct sim_work work = {.kind = SIM_EVENT_WAIT};

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (sim_capture_context(context, true))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	sim_submit_after(sim_stream_legacy(context), &work, event->record, NULL);
	for (unsigned i = 0; i < context->stream_count; i++) {
		work = (struct sim_work){.kind = SIM_EVENT_WAIT};
		sim_submit_after(context->streams[i], &work, event->record, NULL);
	}
	return CUDA_SUCCESS;
}
