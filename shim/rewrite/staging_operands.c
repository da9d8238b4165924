// SPDX-License-Identifier: MIT
/*
 * Operands: a copy as stage.h wants it, out of the driver's descriptions. Called by staging.c. What is odd in any way (no rows, pitches that
 * rows do not fit in, arrays, sizes that overflow) is not described: the driver has an error for it, or a meaning.
 */
#include "call.h"
#include "rewrite/staging.h"

/* CU_DEVICE_ATTRIBUTE_MAX_PITCH of all devices so far. */
#define PITCH_MAX 0x7fffffff

/* One side of the copy: bytes from row to row, and from slice to slice. */
struct side {
	size_t pitch, slice;
};

static bool is_memory(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE ||
	       type == CU_MEMORYTYPE_UNIFIED;
}

/* Which way; false: neither. A side that may be either is what state took it for. */
static bool find_direction(const struct call *call, CUmemorytype source, CUmemorytype destination,
			   bool *ret_to_device)
{
	bool host_to_device = source != CU_MEMORYTYPE_DEVICE && destination != CU_MEMORYTYPE_HOST &&
			      call->source_kind == MEMORY_PAGEABLE;
	bool device_to_host = source != CU_MEMORYTYPE_HOST && destination != CU_MEMORYTYPE_DEVICE &&
			      call->destination_kind == MEMORY_PAGEABLE;

	if (host_to_device == device_to_host || !is_memory(source) || !is_memory(destination))
		return false;
	*ret_to_device = host_to_device;
	return true;
}

static bool span_of(const struct stage_copy *copy, const struct side *side, size_t *ret_span)
{
	size_t slices, rows;

	return !__builtin_mul_overflow(side->slice, copy->depth - 1, &slices) &&
	       !__builtin_mul_overflow(side->pitch, copy->height - 1, &rows) &&
	       !__builtin_add_overflow(slices, rows, ret_span) &&
	       !__builtin_add_overflow(*ret_span, copy->width, ret_span);
}

/* Rows without gaps are one long row. */
static void flatten(struct stage_copy *copy)
{
	if (copy->device_pitch == copy->width && copy->host_pitch == copy->width &&
	    (copy->depth == 1 || (copy->device_slice == copy->width * copy->height &&
				  copy->host_slice == copy->device_slice))) {
		copy->width *= copy->height * copy->depth;
		copy->height = copy->depth = 1;
		copy->device_pitch = copy->host_pitch = copy->width;
		copy->device_slice = copy->host_slice = copy->width;
	}
}

static bool fill(const struct call *call, bool to_device, const struct side *source,
		 const struct side *destination, struct staging *staging)
{
	const struct side *host = to_device ? source : destination,
			  *device = to_device ? destination : source;
	uint64_t host_address = to_device ? call->source : call->destination;
	struct stage_copy *copy = &staging->copy;

	copy->to_device = to_device;
	copy->device = to_device ? call->destination : call->source;
	copy->host = (void *)(uintptr_t)host_address;
	copy->device_pitch = device->pitch;
	copy->device_slice = device->slice;
	copy->host_pitch = host->pitch;
	copy->host_slice = host->slice;
	if (!copy->device || !copy->host || !copy->width || !copy->height || !copy->depth ||
	    !span_of(copy, host, &staging->host_span) ||
	    !span_of(copy, device, &staging->device_span) ||
	    host_address + staging->host_span < host_address)
		return false;
	flatten(copy);
	return true;
}

bool staging_describe(const struct call *call, struct staging *ret_staging)
{
	const struct side side = {call->bytes, call->bytes};
	bool to_device,
		either = call->flags & CALL_SOURCE_HOST && call->flags & CALL_DESTINATION_HOST;
	CUmemorytype source = CU_MEMORYTYPE_UNIFIED, destination = CU_MEMORYTYPE_UNIFIED;

	if (!either) {
		to_device = call->flags & CALL_SOURCE_HOST;
		source = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		destination = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	}
	if (!find_direction(call, source, destination, &to_device))
		return false;
	ret_staging->copy = (struct stage_copy){.width = call->bytes, .height = 1, .depth = 1};
	return fill(call, to_device, &side, &side, ret_staging);
}

/* Rows of `width` bytes from `x` on must fit. */
static bool is_plain_pitch(size_t pitch, size_t x, size_t width)
{
	return pitch <= PITCH_MAX && x <= pitch && width <= pitch - x;
}

bool staging_describe_2d(const struct call *call, const CUDA_MEMCPY2D *described,
			 struct staging *ret_staging)
{
	const struct side source = {described->srcPitch, described->srcPitch},
			  destination = {described->dstPitch, described->dstPitch};
	bool to_device;

	if (!find_direction(call, described->srcMemoryType, described->dstMemoryType, &to_device) ||
	    !is_plain_pitch(described->srcPitch, described->srcXInBytes, described->WidthInBytes) ||
	    !is_plain_pitch(described->dstPitch, described->dstXInBytes, described->WidthInBytes))
		return false;
	ret_staging->copy = (struct stage_copy){
		.width = described->WidthInBytes, .height = described->Height, .depth = 1};
	return fill(call, to_device, &source, &destination, ret_staging);
}

/* Rows of a slice must fit, too. */
static bool is_plain_height(size_t height, size_t y, size_t rows, size_t pitch, size_t *ret_slice)
{
	return y <= height && rows <= height - y &&
	       !__builtin_mul_overflow(height, pitch, ret_slice);
}

bool staging_describe_3d(const struct call *call, const CUDA_MEMCPY3D *described,
			 struct staging *ret_staging)
{
	struct side source = {described->srcPitch, 0}, destination = {described->dstPitch, 0};
	bool to_device;

	if (described->srcLOD || described->dstLOD || described->reserved0 ||
	    described->reserved1 ||
	    !find_direction(call, described->srcMemoryType, described->dstMemoryType, &to_device) ||
	    !is_plain_pitch(described->srcPitch, described->srcXInBytes, described->WidthInBytes) ||
	    !is_plain_pitch(described->dstPitch, described->dstXInBytes, described->WidthInBytes) ||
	    !is_plain_height(described->srcHeight, described->srcY, described->Height, source.pitch,
			     &source.slice) ||
	    !is_plain_height(described->dstHeight, described->dstY, described->Height,
			     destination.pitch, &destination.slice))
		return false;
	ret_staging->copy = (struct stage_copy){.width = described->WidthInBytes,
						.height = described->Height,
						.depth = described->Depth};
	return fill(call, to_device, &source, &destination, ret_staging);
}
