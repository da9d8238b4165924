// SPDX-License-Identifier: MIT
/*
 * Copies and memsets, with the waits measured on a real driver.
 *
 * Owns: the rules which copy makes the host wait (README.md has them as a table). Called by:
 * exports.c. Relies on stream.c for order and kernels.c for the bytes.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static size_t total(const struct sim_copy *copy)
{
	return copy->width * copy->height * copy->depth;
}

/* The bytes of a pageable source as they are now: it may be reused when the call returns. */
static CUresult stage(struct sim_work *work)
{
	struct sim_copy *copy = &work->copy;
	uint8_t *from = (uint8_t *)copy->source.address;

	work->byte_count = total(copy);
	work->bytes = malloc(work->byte_count ? work->byte_count : 1);
	if (!work->bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t z = 0; z < copy->depth; z++)
		for (size_t y = 0; y < copy->height; y++)
			memcpy(work->bytes + (z * copy->height + y) * copy->width,
			       from + z * copy->source.slice + y * copy->source.pitch, copy->width);
	copy->source.pitch = copy->width;
	copy->source.slice = copy->width * copy->height;
	return CUDA_SUCCESS;
}

static bool on_device(enum sim_memory kind)
{
	return kind == SIM_DEVICE || kind == SIM_POOL;
}

/* Operands must be known now: wrong ones are an error of this call, not of the device. */
static CUresult validate(const struct sim_operand *operand, const struct sim_copy *copy,
			 bool device)
{
	size_t span = operand->slice * (copy->depth - 1) + operand->pitch * (copy->height - 1) +
		      copy->width;

	if (!operand->address)
		return CUDA_ERROR_INVALID_VALUE;
	if (device && sim_memory_kind(operand->address) == SIM_PAGEABLE)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_memory_translate(operand->address, span, true) ? CUDA_SUCCESS
								  : CUDA_ERROR_INVALID_VALUE;
}

static CUresult wait_and_put(struct sim_stream *stream, struct sim_operation *operation, bool wait)
{
	CUresult result = CUDA_SUCCESS;

	if (operation && wait) {
		struct sim_context *context = stream->context;

		context->object.references++;
		sim_wait_operation(operation);
		result = context->sticky;
		if (!--context->object.references)
			sim_object_free(context);
	}
	sim_operation_put(operation);
	return result;
}

/*
 * `device_source`, `device_destination`: the call's type says that this side is device memory. A
 * pageable source is staged at the call, unless the call captures.
 */
static CUresult copy_submit(struct sim_stream *stream, struct sim_copy copy, bool async,
			    bool device_source, bool device_destination)
{
	struct sim_work work = {.kind = SIM_COPY, .copy = copy};
	struct sim_context *context = stream->context;
	enum sim_memory source = sim_memory_kind(copy.source.address);
	enum sim_memory destination = sim_memory_kind(copy.destination.address);
	bool host = !on_device(source) || !on_device(destination);
	struct sim_operation *operation;
	CUresult result;
	bool wait;

	if (stream->kind == SIM_LEGACY && sim_capture_blocking(context)) {
		/* Even a copy of no bytes. */
		sim_capture_invalidate_blocking(context);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!async) {
		result = sim_capture_prohibits();
		if (result)
			return result;
	}
	if (!total(&copy))
		return CUDA_SUCCESS;
	result = validate(&copy.source, &copy, device_source);
	if (!result)
		result = validate(&copy.destination, &copy, device_destination);
	if (result)
		return result;
	if (stream->capture)
		return sim_submit(stream, &work,
				  NULL); /* pageable bytes are read when the node runs */
	if (async) {
		if (source == SIM_PAGEABLE && destination != SIM_PAGEABLE) {
			if (total(&copy) > SIM_PAGEABLE_WAIT_BYTES)
				sim_wait_stream(stream);
			wait = false;
		} else {
			wait = destination == SIM_PAGEABLE ||
			       (sim_memory_is_host(source) && sim_memory_is_host(destination));
		}
		if (context->flags & CU_CTX_SYNC_MEMOPS || sim_memory_sync(copy.source.address) ||
		    sim_memory_sync(copy.destination.address))
			wait = true;
	} else if (source == SIM_PAGEABLE && on_device(destination)) {
		/* First the stream, then the bytes are staged; their way to the device is not
		 * waited for. */
		sim_wait_stream(stream);
		wait = context->flags & CU_CTX_SYNC_MEMOPS ||
		       sim_memory_sync(copy.destination.address);
	} else {
		wait = host || context->flags & CU_CTX_SYNC_MEMOPS ||
		       sim_memory_sync(copy.source.address) ||
		       sim_memory_sync(copy.destination.address);
	}
	if (source == SIM_PAGEABLE && !wait) {
		result = stage(&work);
		if (result)
			return result;
		sim_cost(total(&copy) / 10);
	}
	result = sim_submit(stream, &work, &operation);
	return result ? result : wait_and_put(stream, operation, wait);
}

static struct sim_copy linear(uint64_t to, uint64_t from, size_t bytes)
{
	return (struct sim_copy){
		.source = {.address = from, .pitch = bytes, .slice = bytes},
		.destination = {.address = to, .pitch = bytes, .slice = bytes},
		.width = bytes,
		.height = 1,
		.depth = 1,
	};
}

static CUresult sync_copy(struct sim_copy copy, bool device_source, bool device_destination)
{
	struct sim_stream *stream;
	CUresult result = sim_stream_implicit(&stream);

	return result ? result
		      : copy_submit(stream, copy, false, device_source, device_destination);
}

static CUresult async_copy(CUstream handle, struct sim_copy copy, bool device_source,
			   bool device_destination)
{
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(handle, &stream);

	return result ? result : copy_submit(stream, copy, true, device_source, device_destination);
}

CUresult impl_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return sync_copy(linear(dst, src, ByteCount), false, false);
}

CUresult impl_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return sync_copy(linear(dstDevice, (uintptr_t)srcHost, ByteCount), false, true);
}

CUresult impl_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return sync_copy(linear((uintptr_t)dstHost, srcDevice, ByteCount), true, false);
}

CUresult impl_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return sync_copy(linear(dstDevice, srcDevice, ByteCount), true, true);
}

CUresult impl_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return async_copy(hStream, linear(dst, src, ByteCount), false, false);
}

CUresult impl_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
				   CUstream hStream)
{
	return async_copy(hStream, linear(dstDevice, (uintptr_t)srcHost, ByteCount), false, true);
}

CUresult impl_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
				   CUstream hStream)
{
	return async_copy(hStream, linear((uintptr_t)dstHost, srcDevice, ByteCount), true, false);
}

CUresult impl_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
				   CUstream hStream)
{
	return async_copy(hStream, linear(dstDevice, srcDevice, ByteCount), true, true);
}

/* ---- peers: the synchronous forms join the legacy streams of both contexts ---- */

static CUresult peer_sync(struct sim_context *to, struct sim_context *from, struct sim_copy copy)
{
	struct sim_work work = {.kind = SIM_EVENT_RECORD};
	struct sim_operation *other = NULL, *operation = NULL;
	struct sim_stream *here;
	CUresult result = sim_stream_implicit(&here);

	if (result)
		return result;
	if (!to || !from)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!total(&copy))
		return CUDA_SUCCESS;
	result = validate(&copy.source, &copy, true);
	if (!result)
		result = validate(&copy.destination, &copy, true);
	if (!result)
		result = sim_submit(sim_stream_legacy(from), &work, &other);
	if (result)
		return result;
	work = (struct sim_work){.kind = SIM_COPY, .copy = copy};
	result = sim_submit_after(sim_stream_legacy(to), &work, other, &operation);
	sim_operation_put(other);
	if (result)
		return result;
	/* Later work of the source's context and of the caller's waits for the copy. */
	for (int i = 0; i < 2 && !result; i++) {
		struct sim_stream *later =
			i ? sim_stream_legacy(here->context) : sim_stream_legacy(from);

		work = (struct sim_work){.kind = SIM_EVENT_WAIT};
		if (later->context != to)
			result = sim_submit_after(later, &work, operation, NULL);
	}
	sim_operation_put(operation);
	return result;
}

CUresult impl_cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
			   CUcontext srcContext, size_t ByteCount)
{
	return peer_sync(sim_context_handle(dstContext), sim_context_handle(srcContext),
			 linear(dstDevice, srcDevice, ByteCount));
}

CUresult impl_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
				CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	if (!sim_context_handle(dstContext) || !sim_context_handle(srcContext))
		return CUDA_ERROR_INVALID_CONTEXT;
	return async_copy(hStream, linear(dstDevice, srcDevice, ByteCount), true, true);
}

/* ---- two and three dimensions ---- */

CUresult sim_copy_operand(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array,
			  size_t x, size_t y, size_t z, size_t pitch, size_t height,
			  struct sim_operand *ret_operand)
{
	uint64_t base;

	switch (type) {
	case CU_MEMORYTYPE_HOST:
		base = (uintptr_t)host;
		break;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		base = device;
		break;
	case CU_MEMORYTYPE_ARRAY:
		if (!sim_array_layout(array, &base, &pitch, &height))
			return CUDA_ERROR_INVALID_HANDLE;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	ret_operand->pitch = pitch;
	ret_operand->slice = pitch * height;
	ret_operand->address = base + z * ret_operand->slice + y * pitch + x;
	return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *from, struct sim_copy *ret_copy)
{
	CUresult result;

	if (!from)
		return CUDA_ERROR_INVALID_VALUE;
	ret_copy->width = from->WidthInBytes;
	ret_copy->height = from->Height;
	ret_copy->depth = 1;
	result = sim_copy_operand(from->srcMemoryType, from->srcHost, from->srcDevice,
				  from->srcArray, from->srcXInBytes, from->srcY, 0,
				  from->srcPitch ? from->srcPitch : from->WidthInBytes,
				  from->Height, &ret_copy->source);
	if (result)
		return result;
	result = sim_copy_operand(from->dstMemoryType, from->dstHost, from->dstDevice,
				  from->dstArray, from->dstXInBytes, from->dstY, 0,
				  from->dstPitch ? from->dstPitch : from->WidthInBytes,
				  from->Height, &ret_copy->destination);
	if (result)
		return result;
	if (ret_copy->source.pitch < from->WidthInBytes ||
	    ret_copy->destination.pitch < from->WidthInBytes)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static bool is_device(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY;
}

CUresult impl_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
	struct sim_copy copy;
	CUresult result = copy_2d(pCopy, &copy);

	return result ? result
		      : sync_copy(copy, is_device(pCopy->srcMemoryType),
				  is_device(pCopy->dstMemoryType));
}

CUresult impl_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
	return impl_cuMemcpy2D_v2(pCopy);
}

CUresult impl_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	struct sim_copy copy;
	CUresult result = copy_2d(pCopy, &copy);

	return result ? result
		      : async_copy(hStream, copy, is_device(pCopy->srcMemoryType),
				   is_device(pCopy->dstMemoryType));
}

CUresult sim_copy_3d(const CUDA_MEMCPY3D *from, struct sim_copy *ret_copy)
{
	CUresult result;

	if (!from)
		return CUDA_ERROR_INVALID_VALUE;
	ret_copy->width = from->WidthInBytes;
	ret_copy->height = from->Height;
	ret_copy->depth = from->Depth;
	result = sim_copy_operand(from->srcMemoryType, from->srcHost, from->srcDevice,
				  from->srcArray, from->srcXInBytes, from->srcY, from->srcZ,
				  from->srcPitch ? from->srcPitch : from->WidthInBytes,
				  from->srcHeight ? from->srcHeight : from->Height,
				  &ret_copy->source);
	if (result)
		return result;
	return sim_copy_operand(from->dstMemoryType, from->dstHost, from->dstDevice, from->dstArray,
				from->dstXInBytes, from->dstY, from->dstZ,
				from->dstPitch ? from->dstPitch : from->WidthInBytes,
				from->dstHeight ? from->dstHeight : from->Height,
				&ret_copy->destination);
}

CUresult impl_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
	struct sim_copy copy;
	CUresult result = sim_copy_3d(pCopy, &copy);

	return result ? result
		      : sync_copy(copy, is_device(pCopy->srcMemoryType),
				  is_device(pCopy->dstMemoryType));
}

CUresult impl_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	struct sim_copy copy;
	CUresult result = sim_copy_3d(pCopy, &copy);

	return result ? result
		      : async_copy(hStream, copy, is_device(pCopy->srcMemoryType),
				   is_device(pCopy->dstMemoryType));
}

static CUresult peer_3d(const CUDA_MEMCPY3D_PEER *from, struct sim_copy *ret_copy)
{
	CUDA_MEMCPY3D plain;

	if (!from)
		return CUDA_ERROR_INVALID_VALUE;
	plain = (CUDA_MEMCPY3D){
		.srcXInBytes = from->srcXInBytes,
		.srcY = from->srcY,
		.srcZ = from->srcZ,
		.srcMemoryType = from->srcMemoryType,
		.srcHost = from->srcHost,
		.srcDevice = from->srcDevice,
		.srcArray = from->srcArray,
		.srcPitch = from->srcPitch,
		.srcHeight = from->srcHeight,
		.dstXInBytes = from->dstXInBytes,
		.dstY = from->dstY,
		.dstZ = from->dstZ,
		.dstMemoryType = from->dstMemoryType,
		.dstHost = from->dstHost,
		.dstDevice = from->dstDevice,
		.dstArray = from->dstArray,
		.dstPitch = from->dstPitch,
		.dstHeight = from->dstHeight,
		.WidthInBytes = from->WidthInBytes,
		.Height = from->Height,
		.Depth = from->Depth,
	};
	return sim_copy_3d(&plain, ret_copy);
}

CUresult impl_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
	struct sim_copy copy;
	CUresult result = peer_3d(pCopy, &copy);

	if (result)
		return result;
	return peer_sync(sim_context_handle(pCopy->dstContext),
			 sim_context_handle(pCopy->srcContext), copy);
}

CUresult impl_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	struct sim_copy copy;
	CUresult result = peer_3d(pCopy, &copy);

	return result ? result : async_copy(hStream, copy, false, false);
}

/* ---- batches: not on the legacy stream ---- */

CUresult impl_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				    size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
				    size_t numAttrs, CUstream hStream)
{
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(hStream, &stream);

	if (result)
		return result;
	if (stream->kind == SIM_LEGACY || !dsts || !srcs || !sizes || !count || !attrs ||
	    !attrsIdxs || !numAttrs)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !result; i++)
		result =
			copy_submit(stream, linear(dsts[i], srcs[i], sizes[i]), true, false, false);
	return result;
}

CUresult impl_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
				 CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
				 size_t *failIdx, CUstream hStream)
{
	return impl_cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs,
					  hStream);
}

/* ---- arrays as operands ---- */

CUresult impl_cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
			      size_t ByteCount)
{
	uint64_t base;
	size_t pitch, height;

	if (!sim_array_layout(dstArray, &base, &pitch, &height))
		return CUDA_ERROR_INVALID_HANDLE;
	return sync_copy(linear(base + dstOffset, srcDevice, ByteCount), true, true);
}

CUresult impl_cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
			      size_t ByteCount)
{
	uint64_t base;
	size_t pitch, height;

	if (!sim_array_layout(srcArray, &base, &pitch, &height))
		return CUDA_ERROR_INVALID_HANDLE;
	return sync_copy(linear(dstDevice, base + srcOffset, ByteCount), true, true);
}

CUresult impl_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
			      size_t ByteCount)
{
	uint64_t base;
	size_t pitch, height;

	if (!sim_array_layout(dstArray, &base, &pitch, &height))
		return CUDA_ERROR_INVALID_HANDLE;
	return sync_copy(linear(base + dstOffset, (uintptr_t)srcHost, ByteCount), false, true);
}

CUresult impl_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	uint64_t base;
	size_t pitch, height;

	if (!sim_array_layout(srcArray, &base, &pitch, &height))
		return CUDA_ERROR_INVALID_HANDLE;
	return sync_copy(linear((uintptr_t)dstHost, base + srcOffset, ByteCount), true, false);
}

CUresult impl_cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray,
			      size_t srcOffset, size_t ByteCount)
{
	uint64_t to, from;
	size_t pitch, height;

	if (!sim_array_layout(dstArray, &to, &pitch, &height) ||
	    !sim_array_layout(srcArray, &from, &pitch, &height))
		return CUDA_ERROR_INVALID_HANDLE;
	return sync_copy(linear(to + dstOffset, from + srcOffset, ByteCount), true, true);
}

CUresult impl_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
				   size_t ByteCount, CUstream hStream)
{
	uint64_t base;
	size_t pitch, height;

	if (!sim_array_layout(dstArray, &base, &pitch, &height))
		return CUDA_ERROR_INVALID_HANDLE;
	return async_copy(hStream, linear(base + dstOffset, (uintptr_t)srcHost, ByteCount), false,
			  true);
}

CUresult impl_cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
				   size_t ByteCount, CUstream hStream)
{
	uint64_t base;
	size_t pitch, height;

	if (!sim_array_layout(srcArray, &base, &pitch, &height))
		return CUDA_ERROR_INVALID_HANDLE;
	return async_copy(hStream, linear((uintptr_t)dstHost, base + srcOffset, ByteCount), true,
			  false);
}
