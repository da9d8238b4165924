// SPDX-License-Identifier: MIT
/*
 * Pointer: what can be asked about an address in a block of the pool. Called by the generated wrappers of the getters. The driver answers
 * of itself, but for three things: a block's size is what the program asked for, a recycled block is another buffer than it was, and a
 * freed block is no memory of the driver at all.
 */
#include "call.h"
#include "clock.h"
#include "driver/driver.h"
#include "rewrite/contexts.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "stage/drain.h"
#include "state/state.h"

static bool is_current(uint64_t context)
{
	unsigned long long id = 0;

	return driver.cuCtxGetId && driver.cuCtxGetId(NULL, &id) == CUDA_SUCCESS && id == context;
}

enum pool_state pointer_find(uint64_t address, struct pool_block *ret_block)
{
	enum pool_state state = pool_look(address, ret_block);
	CUdeviceptr base = 0;

	if (state == POOL_NOT_OURS && driver.cuMemGetAddressRange_v2 &&
	    driver.cuMemGetAddressRange_v2(&base, NULL, address) == CUDA_SUCCESS && base != address)
		state = pool_look(base, ret_block);
	/* Of a context that is gone: the address is somebody else's now, or nobody's. */
	if (state != POOL_NOT_OURS && !is_current(ret_block->context) && contexts_sweep())
		return pointer_find(address, ret_block);
	if (state == POOL_LIVE && address - ret_block->address >= ret_block->requested)
		state = POOL_PARKED;
	return state;
}

bool rewrite_host_query(struct call *call, CUresult *ret_result, const void *address)
{
	struct pool_block block;
	enum pool_state state = pointer_find((uintptr_t)address, &block);

	if (state == POOL_NOT_OURS || state == POOL_LIVE)
		return false;
	*ret_result = CUDA_ERROR_INVALID_VALUE;
	return true;
}

/* Does the address lie in a block that the program has freed, or behind what it asked for? */
static bool is_freed(uintptr_t address)
{
	struct pool_block block;
	enum pool_state state = pointer_find(address, &block);

	return state != POOL_NOT_OURS && state != POOL_LIVE;
}

/* Memory that the driver had freed would be mapped no more: as if it began at an address that never is. */
bool rewrite_host_register(struct call *call, CUresult *ret_result, void *address, size_t bytes,
			   unsigned int flags)
{
	uintptr_t first = (uintptr_t)address;

	if (!bytes || !driver.cuMemHostRegister_v2 ||
	    (!is_freed(first) && !is_freed(first + bytes - 1)))
		return false;
	call->entered = clock_ticks();
	*ret_result = driver.cuMemHostRegister_v2(NULL, bytes, flags);
	call->left = clock_ticks();
	return true;
}

/* What is registered is registered until the driver says otherwise, in this very call; freed memory is not. */
bool rewrite_host_unregister(struct call *call, CUresult *ret_result, void *address)
{
	char nothing;

	if (!is_freed((uintptr_t)address))
		return false;
	call->entered = clock_ticks();
	*ret_result = DRAINING(driver.cuMemHostUnregister(&nothing));
	call->left = clock_ticks();
	return true;
}

bool rewrite_address_range(struct call *call, CUresult *ret_result, CUdeviceptr *ret_base,
			   size_t *ret_size, CUdeviceptr address)
{
	struct pool_block block;
	enum pool_state state = pointer_find(address, &block);

	if (state == POOL_NOT_OURS)
		return false;
	if (state != POOL_LIVE) {
		*ret_result = CUDA_ERROR_NOT_FOUND;
		return true;
	}
	*ret_result = driver.cuMemGetAddressRange_v2(ret_base, ret_size, address);
	if (*ret_result == CUDA_SUCCESS && ret_size)
		*ret_size = block.requested;
	return true;
}

static void correct(void *value, CUpointer_attribute attribute, const struct pool_block *block)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)value = block->requested;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		/* Small blocks of device memory lie in a mapping that is not theirs alone. */
		if (*(size_t *)value == block->size)
			*(size_t *)value = block->requested;
		break;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		state_memory_shared(block->address);
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		if (block->buffer_id)
			*(unsigned long long *)value = block->buffer_id;
		break;
	default:
		break;
	}
}

/* Another device may read the block by its tokens: from now on it is as with SYNC_MEMOPS. */
static void see_attribute(CUpointer_attribute attribute, CUdeviceptr address)
{
	if (attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return;
	state_sync_memops(NULL, address ? address : UINT64_MAX);
	rewrite_sync_memops(NULL, NULL, address);
}

bool rewrite_pointer_set(struct call *call, CUresult *ret_result, CUdeviceptr address,
			 uint64_t sync_memops)
{
	return rewrite_device_query(call, ret_result, address) ||
	       rewrite_sync_memops(call, ret_result, sync_memops);
}

bool rewrite_pointer_attribute(struct call *call, CUresult *ret_result, void *ret_value,
			       CUpointer_attribute attribute, CUdeviceptr address)
{
	struct pool_block block;
	enum pool_state state = pointer_find(address, &block);

	see_attribute(attribute, address);
	if (state == POOL_NOT_OURS)
		return false;
	if (state != POOL_LIVE) {
		*ret_result = CUDA_ERROR_INVALID_VALUE;
		return true;
	}
	*ret_result = driver.cuPointerGetAttribute(ret_value, attribute, address);
	if (*ret_result == CUDA_SUCCESS)
		correct(ret_value, attribute, &block);
	return true;
}

bool rewrite_pointer_attributes(struct call *call, CUresult *ret_result, unsigned int count,
				CUpointer_attribute *attributes, void **ret_values,
				CUdeviceptr address)
{
	struct pool_block block;
	enum pool_state state = pointer_find(address, &block);
	char nothing;
	unsigned int i;

	for (i = 0; attributes && i < count; i++)
		see_attribute(attributes[i], address);
	if (state == POOL_NOT_OURS)
		return false;
	/* For memory that is none of its own the driver succeeds, with values of nothing: ours here is none, and stays where it is. */
	if (state != POOL_LIVE)
		address = (uintptr_t)&nothing;
	*ret_result = driver.cuPointerGetAttributes(count, attributes, ret_values, address);
	for (i = 0; state == POOL_LIVE && *ret_result == CUDA_SUCCESS && i < count; i++)
		correct(ret_values[i], attributes[i], &block);
	return true;
}
