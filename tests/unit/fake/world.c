// SPDX-License-Identifier: MIT
/*
 * The fake driver and the calls of the tests (fake/world.h).
 */
#include "fake/world.h"

#include <string.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "state/internal.h"
#include "state/state.h"

__thread unsigned long long world_context = 1;
unsigned int world_context_flags;
unsigned int world_queries;
CUresult world_query_result;
bool world_legacy_implicated;
CUstream world_captures;
__thread bool world_relaxed;
unsigned int world_unrelaxed_queries;

static CUresult get_id(CUcontext context, unsigned long long *ret_id)
{
	*ret_id = context ? (unsigned long long)(uintptr_t)context : world_context;
	return *ret_id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult get_device(CUdevice *ret_device)
{
	*ret_device = 0;
	return CUDA_SUCCESS;
}

static CUresult get_flags(unsigned int *ret_flags)
{
	*ret_flags = world_context_flags;
	return CUDA_SUCCESS;
}

/* Memory of another process: blocks of 64 KiB above 1 TiB. */
static CUresult get_range(CUdeviceptr *ret_base, size_t *ret_size, CUdeviceptr address)
{
	if (address < UINT64_C(1) << 40)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_base = address & ~UINT64_C(0xffff);
	*ret_size = 0x10000;
	return CUDA_SUCCESS;
}

static CUresult query(CUstream stream)
{
	__atomic_fetch_add(&world_queries, 1, __ATOMIC_RELAXED);
	if (!world_relaxed)
		__atomic_fetch_add(&world_unrelaxed_queries, 1, __ATOMIC_RELAXED);
	return world_query_result;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *ret_status)
{
	if (stream == CU_STREAM_LEGACY && world_legacy_implicated)
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*ret_status = stream == world_captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE
					       : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	world_relaxed = *mode == CU_STREAM_CAPTURE_MODE_RELAXED;
	*mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	return CUDA_SUCCESS;
}

int world_begin(void **state)
{
	driver = (struct driver_ops){
		.cuCtxGetId = get_id,
		.cuCtxGetDevice = get_device,
		.cuCtxGetFlags = get_flags,
		.cuMemGetAddressRange_v2 = get_range,
		.cuStreamQuery = query,
		.cuStreamIsCapturing = is_capturing,
		.cuThreadExchangeStreamCaptureMode = exchange_mode,
	};
	world_context = 1;
	world_context_flags = 0;
	world_queries = 0;
	world_query_result = CUDA_ERROR_NOT_READY;
	world_legacy_implicated = false;
	world_captures = NULL;
	world_relaxed = false;
	world_unrelaxed_queries = 0;
	config.attribute = false;
	config.out = NULL;
	emit_forked();
	state_forked();
	return !emit_open();
}

struct call world_call(unsigned int function, CUstream stream)
{
	const struct catalogue_row *row = &catalogue_rows[function];
	struct call call;

	/* Like entry_begin(): what state fills itself is left as rubbish. */
	memset(&call, 0xa5, sizeof(call));
	call.function = (uint16_t)function;
	call.flags = row->flags & CATALOGUE_ASYNC ? CALL_ASYNC : 0;
	call.stream_form = row->stream_form;
	call.operation = row->submits;
	call.source_kind = MEMORY_NONE;
	call.destination_kind = MEMORY_NONE;
	call.stream_handle = stream;
	call.source = 0;
	call.destination = 0;
	call.bytes = 0;
	call.subject = 0;
	call.peer_context = 0;
	call.context = NULL;
	call.stream = NULL;
	call.submission = 0;
	call.entered = 1000;
	call.left = 2000;
	call.return_address = NULL;
	call.frame = NULL;
	call.pending_count = 0;
	return call;
}

void world_create_stream(CUstream stream, unsigned int flags)
{
	struct call call = world_call(FUNCTION_cuStreamCreate, NULL);

	state_before(&call);
	state_stream_created(&call, stream, flags);
	state_after(&call, CUDA_SUCCESS);
}

void world_destroy_stream(CUstream stream)
{
	struct call call = world_call(FUNCTION_cuStreamDestroy_v2, stream);

	state_before(&call);
	state_stream_destroying(&call, stream);
	state_after(&call, CUDA_SUCCESS);
}

void world_launch(CUstream stream, uint64_t function)
{
	struct call call = world_call(FUNCTION_cuLaunchKernel, stream);

	call.subject = function;
	state_before(&call);
	state_after(&call, CUDA_SUCCESS);
}

void world_synchronize(CUstream stream)
{
	struct call call = world_call(FUNCTION_cuStreamSynchronize, stream);

	state_before(&call);
	state_stream_observed(&call, CUDA_SUCCESS);
	state_after(&call, CUDA_SUCCESS);
}

void world_create_event(CUevent event)
{
	struct call call = world_call(FUNCTION_cuStreamCreate, NULL);

	state_before(&call);
	state_event_created(&call, event, 0);
	state_after(&call, CUDA_SUCCESS);
}

void world_record(CUevent event, CUstream stream)
{
	struct call call = world_call(FUNCTION_cuEventRecord, stream);

	call.subject = (uintptr_t)event;
	state_before(&call);
	state_event_recording(&call, event);
	state_event_recorded(&call, event);
	state_after(&call, CUDA_SUCCESS);
}

void world_event_synchronize(CUevent event)
{
	struct call call = world_call(FUNCTION_cuEventSynchronize, NULL);

	call.subject = (uintptr_t)event;
	state_before(&call);
	state_event_observed(&call, CUDA_SUCCESS);
	state_after(&call, CUDA_SUCCESS);
}

void world_context_synchronize(void)
{
	struct call call = world_call(FUNCTION_cuCtxSynchronize, NULL);

	state_before(&call);
	state_context_observed(&call, CUDA_SUCCESS);
	state_after(&call, CUDA_SUCCESS);
}

void world_wait_event(CUstream stream, CUevent event)
{
	struct call call = world_call(FUNCTION_cuStreamWaitEvent, stream);

	call.subject = (uintptr_t)event;
	state_before(&call);
	state_event_waited(&call, event);
	state_after(&call, CUDA_SUCCESS);
}

unsigned int world_pending(const CUstream *streams, unsigned int count)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	unsigned int found = 0;
	uint32_t i, n;

	state_before(&call);
	for (i = 0; i < call.pending_count && i < CALL_PENDING_MAX; i++) {
		for (n = 0; n < count; n++) {
			if (streams[n] == LEGACY
				    ? stream_kind(call.pending[i].stream) == STREAM_LEGACY
				    : call.pending[i].stream->handle ==
					      (uint64_t)(uintptr_t)streams[n])
				found |= 1U << n;
		}
	}
	return found;
}
