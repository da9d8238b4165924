// SPDX-License-Identifier: MIT
/*
 * Frees, queries: what the program can learn of blocks that were freed and are held, and what takes a block out of the cache for good.
 * Called by the generated wrappers. pointer.c answers for addresses and attributes.
 */
#include "call.h"
#include "clock.h"
#include "driver/driver.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "state/state.h"

bool rewrite_memory_info(struct call *call, CUresult *ret_result, size_t *ret_free,
			 size_t *ret_total)
{
	uint64_t held = held_on_current_device(state_context_id(call->context));

	if (!held || !ret_free || !ret_total)
		return false;
	call->entered = clock_ticks();
	*ret_result = driver.cuMemGetInfo_v2(ret_free, ret_total);
	call->left = clock_ticks();
	if (*ret_result == CUDA_SUCCESS)
		*ret_free = *ret_total - *ret_free > held ? *ret_free + held : *ret_total;
	return true;
}

bool rewrite_device_query(struct call *call, CUresult *ret_result, CUdeviceptr address)
{
	struct pool_block block;
	enum pool_state state = pointer_find(address, &block);

	if (state == POOL_NOT_OURS || state == POOL_LIVE)
		return false;
	call->flags |= CALL_REWRITTEN;
	*ret_result = CUDA_ERROR_INVALID_VALUE;
	return true;
}

bool rewrite_device_export(struct call *call, CUresult *ret_result, CUdeviceptr address)
{
	if (rewrite_device_query(call, ret_result, address))
		return true;
	/* Before the driver does it: whoever frees the block from now on gives it to the driver. */
	state_memory_shared(address);
	return false;
}
