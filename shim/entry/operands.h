// SPDX-License-Identifier: MIT
/*
 * Operands of driver calls that lie in structures and lists: macros that the catalogue's rows name (stream:, source:, destination:, bytes:,
 * subject:, peer:, hook arguments).
 *
 * Used by the generated wrappers only, before the real call (hook arguments: after its success). Each may be given a
 * NULL pointer or a count of 0, since the driver, not we, refuses those. They are macros because one row serves several versions of a structure.
 */
#ifndef SLIPSTREAM_ENTRY_OPERANDS_H
#define SLIPSTREAM_ENTRY_OPERANDS_H

#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "driver/driver.h"

/* An array has no address: 0. */
#define OPERAND_BY_TYPE(type, host, device) \
	((type) == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)(host) : \
	 (type) == CU_MEMORYTYPE_DEVICE || (type) == CU_MEMORYTYPE_UNIFIED ? (uint64_t)(device) : 0)

#define OPERAND_SOURCE_2D(copy) \
	((copy) ? OPERAND_BY_TYPE((copy)->srcMemoryType, (copy)->srcHost, (copy)->srcDevice) : 0)
#define OPERAND_DESTINATION_2D(copy) \
	((copy) ? OPERAND_BY_TYPE((copy)->dstMemoryType, (copy)->dstHost, (copy)->dstDevice) : 0)
#define OPERAND_BYTES_2D(copy) \
	((copy) ? (uint64_t)(copy)->WidthInBytes * (uint64_t)(copy)->Height : 0)

#define OPERAND_SOURCE_3D(copy)	     OPERAND_SOURCE_2D(copy)
#define OPERAND_DESTINATION_3D(copy) OPERAND_DESTINATION_2D(copy)
#define OPERAND_BYTES_3D(copy)	     (OPERAND_BYTES_2D(copy) * ((copy) ? (uint64_t)(copy)->Depth : 0))

/* A batch is shown by its first operation and the sum of its bytes. */
#define OPERAND_BATCH_FIRST(list, count)   ((list) && (count) ? (uint64_t)(list)[0] : 0)
#define OPERAND_BATCH_BYTES(sizes, count) operand_sum(sizes, count)

static inline uint64_t operand_sum(const size_t *sizes, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; sizes && i < count; i++)
		sum += sizes[i];
	return sum;
}

#define OPERAND_OF_3D_BATCH(operand) \
	((operand).type == CU_MEMCPY_OPERAND_TYPE_POINTER ? (uint64_t)(operand).op.ptr.ptr : 0)
#define OPERAND_SOURCE_3D_BATCH(list, count) \
	((list) && (count) ? OPERAND_OF_3D_BATCH((list)[0].src) : 0)
#define OPERAND_DESTINATION_3D_BATCH(list, count) \
	((list) && (count) ? OPERAND_OF_3D_BATCH((list)[0].dst) : 0)

#define OPERAND_LAUNCH_STREAM(config) ((config) ? (config)->hStream : NULL)

/* A launch on several devices is shown by its first. */
#define OPERAND_MULTI_LAUNCH_STREAM(list, count)   ((list) && (count) ? (list)[0].hStream : NULL)
#define OPERAND_MULTI_LAUNCH_FUNCTION(list, count) ((list) && (count) ? (list)[0].function : NULL)

#define OPERAND_PITCH(pitch) ((pitch) ? (uint64_t)*(pitch) : 0)

/* The context of a peer copy that is not the current one. */
#define OPERAND_PEER(destination, source) operand_peer(destination, source)
#define OPERAND_PEER_3D(copy) ((copy) ? operand_peer((copy)->dstContext, (copy)->srcContext) : NULL)

static inline CUcontext operand_peer(CUcontext destination, CUcontext source)
{
	CUresult (*get)(CUcontext *) = __atomic_load_n(&driver.cuCtxGetCurrent, __ATOMIC_RELAXED);
	CUcontext current = NULL;

	if (get && get(&current) == CUDA_SUCCESS && current == source)
		return destination;
	return source;
}

/* For state_sync_memops(): the range's address, 0 for the current context, UINT64_MAX where something else was set. */
#define OPERAND_SYNC_MEMOPS(attribute, value, pointer) \
	((attribute) == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && (value) && *(const unsigned int *)(value) ? \
		 (uint64_t)(pointer) : \
		 UINT64_MAX)
#define OPERAND_CONTEXT_SYNC_MEMOPS(flags) ((flags) & CU_CTX_SYNC_MEMOPS ? 0 : UINT64_MAX)

#endif
