// SPDX-License-Identifier: MIT
/*
 * Operands of driver calls that lie in structures: what the catalogue's rows name in source:,
 * destination:, bytes:, subject:, peer: and stream:. Used by the generated wrappers only, before
 * the driver has looked at the arguments: each takes a NULL pointer, since it is the driver that
 * refuses it. Macros over inline functions, because cuda.h has two structures of the same fields
 * for each copy (the 32-bit one of the first version, and the present one), and because an older
 * cuda.h lacks some of the types altogether.
 *
 * An array has no address. It gives 0, which state takes for no operand.
 */
#ifndef SLIPSTREAM_ENTRY_OPERANDS_H
#define SLIPSTREAM_ENTRY_OPERANDS_H

#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* An address in no range, for a hook whose call changes nothing. */
#define OPERAND_NOWHERE UINT64_MAX

/* Where an operand of a described copy begins; `offset` bytes into it. */
static inline uint64_t operand_address(CUmemorytype type, const void *host, uint64_t device,
				       uint64_t offset)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		return host ? (uint64_t)(uintptr_t)host + offset : 0;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		return device ? device + offset : 0;
	default:
		return 0;
	}
}

static inline uint64_t operand_sum(const size_t *sizes, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; sizes && i < count; i++)
		sum += sizes[i];
	return sum;
}

/* SYNC_MEMOPS is a boolean of unstated width: its first byte is enough. */
static inline uint64_t operand_sync_memops(CUpointer_attribute attribute, const void *value,
					   uint64_t address)
{
	if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !value ||
	    *(const unsigned char *)value == 0)
		return OPERAND_NOWHERE;
	return address;
}

/* CUDA_MEMCPY2D and CUDA_MEMCPY2D_v1. */
#define OPERAND_SOURCE_2D(copy)                                                                    \
	((copy) ? operand_address((copy)->srcMemoryType, (copy)->srcHost, (copy)->srcDevice,       \
				  (uint64_t)(copy)->srcY * (copy)->srcPitch + (copy)->srcXInBytes) \
		: 0)
#define OPERAND_DESTINATION_2D(copy)                                                               \
	((copy) ? operand_address((copy)->dstMemoryType, (copy)->dstHost, (copy)->dstDevice,       \
				  (uint64_t)(copy)->dstY * (copy)->dstPitch + (copy)->dstXInBytes) \
		: 0)
#define OPERAND_BYTES_2D(copy) ((copy) ? (uint64_t)(copy)->WidthInBytes * (copy)->Height : 0)

/* CUDA_MEMCPY3D, CUDA_MEMCPY3D_v1 and CUDA_MEMCPY3D_PEER. */
#define OPERAND_SOURCE_3D(copy)                                                                    \
	((copy) ? operand_address((copy)->srcMemoryType, (copy)->srcHost, (copy)->srcDevice,       \
				  ((uint64_t)(copy)->srcZ * (copy)->srcHeight + (copy)->srcY) *    \
						  (copy)->srcPitch +                               \
					  (copy)->srcXInBytes)                                     \
		: 0)
#define OPERAND_DESTINATION_3D(copy)                                                               \
	((copy) ? operand_address((copy)->dstMemoryType, (copy)->dstHost, (copy)->dstDevice,       \
				  ((uint64_t)(copy)->dstZ * (copy)->dstHeight + (copy)->dstY) *    \
						  (copy)->dstPitch +                               \
					  (copy)->dstXInBytes)                                     \
		: 0)
#define OPERAND_BYTES_3D(copy)                                                                     \
	((copy) ? (uint64_t)(copy)->WidthInBytes * (copy)->Height * (copy)->Depth : 0)

/* Peer copies: the other context, as its handle. With both given it is the source's; the
 * destination's where that is missing. */
#define OPERAND_PEER_FROM_3D(copy) ((copy) ? (copy)->srcContext : NULL)
#define OPERAND_PEER_TO_3D(copy)   ((copy) ? (copy)->dstContext : NULL)

/* Batches: the first entry stands for all; the bytes are those of all. */
#define OPERAND_BATCH_FIRST(addresses, count)                                                      \
	((addresses) && (count) > 0 ? (uint64_t)(addresses)[0] : 0)
#define OPERAND_BATCH_BYTES(sizes, count) operand_sum((sizes), (count))

/* CUDA_MEMCPY3D_BATCH_OP. */
#define OPERAND_3D_BATCH(operations, count, side)                                                  \
	((operations) && (count) > 0 &&                                                            \
			 (operations)[0].side.type == CU_MEMCPY_OPERAND_TYPE_POINTER               \
		 ? (uint64_t)(operations)[0].side.op.ptr.ptr                                       \
		 : 0)
#define OPERAND_SOURCE_3D_BATCH(operations, count)      OPERAND_3D_BATCH(operations, count, src)
#define OPERAND_DESTINATION_3D_BATCH(operations, count) OPERAND_3D_BATCH(operations, count, dst)

/* cuMemAllocPitch, after success. */
#define OPERAND_PITCH(pitch) ((pitch) ? (uint64_t) * (pitch) : 0)

/* Launches whose stream lies in a structure. */
#define OPERAND_LAUNCH_STREAM(config) ((config) ? (config)->hStream : (CUstream)0)
/* No threads, and no attribute that might do anything without them. */
#define OPERAND_LAUNCH_IS_EMPTY(config)                                                            \
	(!(config) || (!(config)->numAttrs &&                                                      \
		       !((config)->gridDimX && (config)->gridDimY && (config)->gridDimZ &&         \
			 (config)->blockDimX && (config)->blockDimY && (config)->blockDimZ)))
#define OPERAND_MULTI_LAUNCH_STREAM(list, count)                                                   \
	((list) && (count) > 0 ? (list)[0].hStream : (CUstream)0)
#define OPERAND_MULTI_LAUNCH_FUNCTION(list, count)                                                 \
	((list) && (count) > 0 ? (list)[0].function : (CUfunction)0)

/*
 * Events that a launch attribute or a graph node records; 0: none. Macros around the constants, as
 * above.
 */
#define OPERAND_LAUNCH_PROGRAMMATIC_EVENT(config)                                                  \
	operand_launch_event((config), CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, programmaticEvent)
#define OPERAND_LAUNCH_COMPLETION_EVENT(config)                                                    \
	operand_launch_event((config), CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,                \
			     launchCompletionEvent)
#define OPERAND_NODE_EVENT(node)                                                                   \
	((node) && (node)->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? (node)->eventRecord.event     \
								   : (CUevent)0)
#define OPERAND_NODE_IS_HOST(node) ((node) && (node)->type == CU_GRAPH_NODE_TYPE_HOST)
#define operand_launch_event(config, wanted, field)                                                \
	({                                                                                         \
		CUevent event_ = (CUevent)0;                                                       \
                                                                                                   \
		for (unsigned int i_ = 0; (config) && (config)->attrs && i_ < (config)->numAttrs;  \
		     i_++)                                                                         \
			if ((config)->attrs[i_].id == (wanted))                                    \
				event_ = (config)->attrs[i_].value.field.event;                    \
		event_;                                                                            \
	})

/* state_sync_memops() takes the range's address, 0 for the whole context. */
#define OPERAND_SYNC_MEMOPS(attribute, value, pointer)                                             \
	operand_sync_memops((attribute), (value), (pointer))
#define OPERAND_CONTEXT_SYNC_MEMOPS(flags) ((flags)&CU_CTX_SYNC_MEMOPS ? 0 : OPERAND_NOWHERE)

#endif
