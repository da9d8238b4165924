// SPDX-License-Identifier: MIT
/*
 * Memsets. Owns: the rule that a memset of pinned host memory makes the host wait and one of device
 * memory does not. Called by: exports.c. Relies on stream.c and kernels.c.
 */
#include "sim.h"

static CUresult set(struct sim_stream *stream, struct sim_memset memset, bool async)
{
	struct sim_work work = {.kind = SIM_MEMSET, .memset = memset};
	enum sim_memory kind = sim_memory_kind(memset.address);
	struct sim_context *context = stream->context;
	struct sim_operation *operation;
	CUresult result;
	bool wait;

	if (stream->kind == SIM_LEGACY && sim_capture_blocking(context)) {
		sim_capture_invalidate_blocking(context);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!memset.width || !memset.height)
		return CUDA_SUCCESS;
	if (memset.address % memset.element ||
	    !sim_memory_translate(
		    memset.address,
		    memset.pitch * (memset.height - 1) + memset.width * memset.element, false))
		return CUDA_ERROR_INVALID_VALUE;
	wait = !async && (kind == SIM_PINNED || kind == SIM_REGISTERED);
	if (context->flags & CU_CTX_SYNC_MEMOPS || sim_memory_sync(memset.address))
		wait = true;
	result = sim_submit(stream, &work, &operation);
	if (result || !operation)
		return result;
	if (wait)
		sim_wait_operation(operation);
	sim_operation_put(operation);
	return CUDA_SUCCESS;
}

static CUresult sync_set(uint64_t address, size_t pitch, unsigned value, unsigned element,
			 size_t width, size_t height)
{
	struct sim_stream *stream;
	CUresult result = sim_stream_implicit(&stream);

	if (result)
		return result;
	return set(stream,
		   (struct sim_memset){.address = address,
				       .pitch = pitch,
				       .width = width,
				       .height = height,
				       .value = value,
				       .element = element},
		   false);
}

static CUresult async_set(CUstream handle, uint64_t address, size_t pitch, unsigned value,
			  unsigned element, size_t width, size_t height)
{
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(handle, &stream);

	if (result)
		return result;
	return set(stream,
		   (struct sim_memset){.address = address,
				       .pitch = pitch,
				       .width = width,
				       .height = height,
				       .value = value,
				       .element = element},
		   true);
}

#define FORMS(bits, type, argument)                                                                \
	CUresult impl_cuMemsetD##bits##_v2(CUdeviceptr dstDevice, type argument, size_t N)         \
	{                                                                                          \
		return sync_set(dstDevice, N * (bits / 8), argument, bits / 8, N, 1);              \
	}                                                                                          \
	CUresult impl_cuMemsetD##bits##Async(CUdeviceptr dstDevice, type argument, size_t N,       \
					     CUstream hStream)                                     \
	{                                                                                          \
		return async_set(hStream, dstDevice, N * (bits / 8), argument, bits / 8, N, 1);    \
	}                                                                                          \
	CUresult impl_cuMemsetD2D##bits##_v2(CUdeviceptr dstDevice, size_t dstPitch,               \
					     type argument, size_t Width, size_t Height)           \
	{                                                                                          \
		return sync_set(dstDevice, dstPitch, argument, bits / 8, Width, Height);           \
	}                                                                                          \
	CUresult impl_cuMemsetD2D##bits##Async(CUdeviceptr dstDevice, size_t dstPitch,             \
					       type argument, size_t Width, size_t Height,         \
					       CUstream hStream)                                   \
	{                                                                                          \
		return async_set(hStream, dstDevice, dstPitch, argument, bits / 8, Width, Height); \
	}

FORMS(8, unsigned char, uc)
FORMS(16, unsigned short, us)
FORMS(32, unsigned int, ui)
