// SPDX-License-Identifier: MIT
/*
 * Frees, arrays: an array that is destroyed while the device works is kept instead, since the driver's destroy waits as cuMemFree
 * does (measured). Called by the generated wrappers. It is never used again: it goes to the driver where that has nothing to wait for (the
 * context is synchronized, or another array made or destroyed, and nothing is at work), or in a call that drains the device anyway: above
 * the limit, and where the driver has no memory. Its handle stands in the pool as an address would, in a kind of its own.
 *
 * Only arrays that were made through here: levels of mipmapped arrays, planes, and what graphics or other APIs own are not the program's to
 * destroy; sparse arrays and those that are mapped later have their memory from elsewhere. A destroyed handle that is destroyed again is
 * refused; what else a program may do with one is its own mistake, and works until the array is gone.
 */
#include "call.h"
#include "clock.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/busy.h"
#include "emit/emit.h"
#include "emit/usdt.h"
#include "rewrite/contexts.h"
#include "rewrite/events.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "stage/drain.h"
#include "state/proof.h"
#include "state/state.h"

/* Its handle names another type, and another function destroys it. */
#define MIPMAPPED 1U

#define FOREIGN_MEMORY (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

/* Bits of an element in formats that have no channels of their own: cuda.h's numbers, since older ones lack some names. */
static const struct {
	uint16_t first, last;
	uint8_t bits;
} packed[] = {
	{0x50, 0x50, 32}, {0x91, 0x92, 4},  {0x93, 0x96, 8},  {0x97, 0x98, 4},  {0x99, 0x9e, 8},
	{0x9f, 0x9f, 24}, {0xa1, 0xa1, 24}, {0xa2, 0xa2, 16}, {0xa3, 0xa4, 32}, {0xa5, 0xa5, 16},
	{0xa6, 0xa9, 32}, {0xb0, 0xb0, 12}, {0xb1, 0xb1, 64}, {0xb2, 0xb2, 24}, {0xb3, 0xb3, 48},
	{0xb4, 0xb4, 24}, {0xb5, 0xb5, 48}, {0xc0, 0xc0, 8},  {0xc1, 0xc1, 16}, {0xc2, 0xc2, 32},
	{0xc3, 0xc3, 16}, {0xc4, 0xc4, 32}, {0xc5, 0xc5, 64}, {0xc6, 0xc6, 8},  {0xc7, 0xc7, 16},
	{0xc8, 0xc8, 32}, {0xc9, 0xc9, 16}, {0xca, 0xca, 32}, {0xcb, 0xcb, 64},
};

static uint64_t bits_of(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	uint64_t channels = shape->NumChannels ? shape->NumChannels : 1;

	switch (shape->Format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 8 * channels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 16 * channels;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 32 * channels;
	default:
		break;
	}
	for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++)
		if ((uint32_t)shape->Format >= packed[i].first &&
		    (uint32_t)shape->Format <= packed[i].last)
			return packed[i].bits;
	/* Rather less: cuMemGetInfo must not promise what is not there. */
	return 8;
}

/* A figure for the limit and for cuMemGetInfo; the driver's own is not known. */
static uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	uint64_t bytes = (bits_of(shape) * shape->Width + 7) / 8;

	bytes = (bytes + 511) & ~UINT64_C(511);
	bytes *= (shape->Height ? shape->Height : 1) * (shape->Depth ? shape->Depth : 1);
	return levels > 1 ? bytes + bytes / 3 : bytes;
}

static bool may_follow(const struct call *call)
{
	return config.fix & CONFIG_FIX_FREES && call->context && !state_objection() &&
	       !held_start();
}

CUresult array_destroy(const struct pool_block *block)
{
	uintptr_t handle = block->address;

	return block->flags & MIPMAPPED ? driver.cuMipmappedArrayDestroy((CUmipmappedArray)handle)
					: driver.cuArrayDestroy((CUarray)handle);
}

static void made(struct call *call, uint64_t handle, uint32_t flags,
		 const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	uint64_t context = state_context_id(call->context);
	uint64_t bytes = bytes_of(shape, levels), size = pool_size(POOL_ARRAY, bytes);

	/* Nothing waits now: what could not go before goes. */
	if (held_arrays() && state_is_idle())
		held_give_some_back(POOL_ARRAY, context, 0);
	if (size && !(shape->Flags & FOREIGN_MEMORY) && !(handle & 15) &&
	    !pool_add(context, POOL_ARRAY_FLAG | flags, bytes, size, handle))
		emit_note(NOTE_REWRITE, "a block could not be stored");
	held_more(context, 0);
}

/* Makes the call again where that helps. */
#define MAKE(call, ret_result, make)                                                               \
	do {                                                                                       \
		struct rewrite_room room_ = {0};                                                   \
                                                                                                   \
		(call)->entered = busy_driver((call)->function, clock_ticks());                    \
		do                                                                                 \
			*(ret_result) = (make);                                                    \
		while (*(ret_result) == CUDA_ERROR_OUT_OF_MEMORY &&                                \
		       rewrite_make_room(call, &room_));                                           \
		(call)->left = clock_ticks();                                                      \
	} while (0)

bool rewrite_array_create(struct call *call, CUresult *ret_result, CUarray *ret_array,
			  const CUDA_ARRAY_DESCRIPTOR *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR wide;

	if (!may_follow(call) || !ret_array || !shape)
		return false;
	wide = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = shape->Width,
		.Height = shape->Height,
		.Format = shape->Format,
		.NumChannels = shape->NumChannels,
	};
	MAKE(call, ret_result, driver.cuArrayCreate_v2(ret_array, shape));
	if (*ret_result == CUDA_SUCCESS)
		made(call, (uintptr_t)*ret_array, 0, &wide, 1);
	return true;
}

bool rewrite_array_create_3d(struct call *call, CUresult *ret_result, CUarray *ret_array,
			     const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	if (!may_follow(call) || !ret_array || !shape)
		return false;
	MAKE(call, ret_result, driver.cuArray3DCreate_v2(ret_array, shape));
	if (*ret_result == CUDA_SUCCESS)
		made(call, (uintptr_t)*ret_array, 0, shape, 1);
	return true;
}

bool rewrite_array_create_mipmapped(struct call *call, CUresult *ret_result,
				    CUmipmappedArray *ret_array,
				    const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	if (!may_follow(call) || !ret_array || !shape)
		return false;
	MAKE(call, ret_result, driver.cuMipmappedArrayCreate(ret_array, shape, levels));
	if (*ret_result == CUDA_SUCCESS)
		made(call, (uintptr_t)*ret_array, MIPMAPPED, shape, levels);
	return true;
}

static void really_destroy(struct call *call, CUresult *ret_result, uint64_t handle)
{
	struct pool_block block;

	if (!pool_remove(handle, &block)) {
		*ret_result = CUDA_ERROR_INVALID_HANDLE;
		return;
	}
	COUNT_FREES(real_frees, 1);
	USDT_POOL(USDT_POOL_FREED, POOL_ARRAY, block.size, block.address);
	if (!call->entered)
		call->entered = busy_driver(call->function, clock_ticks());
	*ret_result = DRAINING(array_destroy(&block));
	call->left = clock_ticks();
	if (*ret_result != CUDA_SUCCESS)
		pool_put_back(&block);
}

void array_context_synchronized(uint64_t context)
{
	if (held_arrays() && context && state_current_context() == context && state_is_idle() &&
	    held_give_some_back(POOL_ARRAY, context, 0))
		counts_bytes();
}

static bool destroy_or_keep(struct call *call, CUresult *ret_result, uint64_t handle,
			    uint32_t flags)
{
	enum pool_state state;
	struct pool_block block;
	struct pool_bytes bytes;
	uint32_t freed = 1;
	const char *why;
	bool idle;

	state = pool_look(handle, &block);
	if (state != POOL_NOT_OURS && block.context != state_context_id(call->context) &&
	    contexts_sweep())
		state = pool_look(handle, &block);
	switch (state) {
	case POOL_NOT_OURS:
		return false;
	case POOL_LIVE:
		if (block.flags != (POOL_ARRAY_FLAG | flags))
			return false; /* the driver says what is wrong */
		break;
	default: /* destroyed before */
		call->flags |= CALL_REWRITTEN;
		*ret_result = CUDA_ERROR_INVALID_HANDLE;
		return true;
	}
	why = free_objection(call, &block, CONFIG_FIX_FREES);
	idle = !why && state_is_idle();
	if (!why && !idle)
		held_more(block.context, block.size);
	if (!why && !idle && pool_park(handle, block.context, false)) {
		COUNT_FREES(parked, 1);
		COUNT_FREES(waits_avoided, call->pending_count != 0);
		call->flags |= CALL_REWRITTEN;
		*ret_result = CUDA_SUCCESS;
		events_rewritten(call, CONFIG_FIX_FREES, TRACE_REWRITTEN_PARKED, block.requested);
		USDT_POOL(USDT_POOL_PARKED, POOL_ARRAY, block.size, block.address);
		counts_bytes();
		return true;
	}
	if (!why && !idle)
		held_less(block.context, block.size);
	really_destroy(call, ret_result, handle);
	if (!why && *ret_result == CUDA_SUCCESS) {
		/* This call has drained the device, if there was anything to drain. */
		pool_bytes(POOL_ARRAY, &bytes);
		freed += held_give_some_back(POOL_ARRAY, block.context, idle ? 0 : bytes.limit / 2);
		why = idle ? NULL : "a free above the limit";
	}
	if (why) {
		emit_note(NOTE_REWRITE, why);
		events_real_free(call, CONFIG_FIX_FREES, why,
				 *ret_result == CUDA_SUCCESS ? freed : 0, block.requested);
	}
	room_leave(call, *ret_result);
	counts_bytes();
	return true;
}

bool rewrite_array_destroy(struct call *call, CUresult *ret_result, CUarray array)
{
	return destroy_or_keep(call, ret_result, (uintptr_t)array, 0);
}

bool rewrite_array_destroy_mipmapped(struct call *call, CUresult *ret_result,
				     CUmipmappedArray array)
{
	return destroy_or_keep(call, ret_result, (uintptr_t)array, MIPMAPPED);
}
