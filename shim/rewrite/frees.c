// SPDX-License-Identifier: MIT
/*
 * Frees: cuMemAlloc and cuMemFree of device memory out of the pool (pool.h). Called by the generated wrappers. Relies on settle.c: a block
 * that is given out is used by nobody; on frees_held.c for what is held, and for giving it back.
 *
 * As in pinned.c a free returns without the driver's wait (its text says "may"), unless `strict-free` asks for that; and the driver frees
 * only in a free that may not be parked, in one that the limit does not let in, in an allocation that the driver has no memory for, once
 * nothing is at work (settle_work()), and, while memory is tight (held_is_tight()), in a free or a cuCtxSynchronize that finds nothing at work.
 *
 * Only blocks that cuMemAlloc made through here are in the pool. So memory of asynchronous pools, managed and mapped memory, pitched
 * blocks, and what another process or API owns go to the driver as they are; and a block that something outside this process may reach
 * (frees_query.c) goes to it at its free.
 *
 * What a recycled block holds is what this program left in it. Nothing promises zeros; only memory that the driver takes from another
 * process is wiped.
 */
#include "rewrite/frees.h"
#include "call.h"
#include "clock.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/busy.h"
#include "emit/emit.h"
#include "emit/usdt.h"
#include "rewrite/contexts.h"
#include "rewrite/deny.h"
#include "rewrite/events.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "rewrite/short.h"
#include "stage/drain.h"
#include "state/proof.h"
#include "state/state.h"

/* The driver has the last word: without a block of ours it is asked with the program's own arguments. */
static bool allocate(struct call *call, uint64_t context, CUresult *ret_result,
		     CUdeviceptr *ret_address, size_t bytes)
{
	uint64_t size = pool_size(POOL_DEVICE, bytes);
	struct rewrite_room room = {0};
	CUdeviceptr address = 0;
	CUresult result;

	contexts_sweep();
	call->entered = busy_driver(call->function, clock_ticks());
	do
		result = driver.cuMemAlloc_v2(&address, size);
	while (result == CUDA_ERROR_OUT_OF_MEMORY && rewrite_make_room(call, &room));
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		/* Here, since the wrapper would look for room once more, and wait for it. */
		*ret_result = driver.cuMemAlloc_v2(ret_address, bytes);
		call->left = clock_ticks();
		return true;
	}
	call->left = clock_ticks();
	if (result != CUDA_SUCCESS)
		return false;
	if (!pool_add(context, POOL_DEVICE_FLAG, bytes, size, address))
		emit_note(NOTE_REWRITE, "a block could not be stored");
	held_more(context, 0); /* it has blocks */
	if (!__atomic_load_n(&short_device, __ATOMIC_RELAXED) && short_is_allowed())
		__atomic_store_n(&short_device, 1, __ATOMIC_RELAXED);
	*ret_address = address;
	*ret_result = CUDA_SUCCESS;
	return true;
}

bool rewrite_device_alloc(struct call *call, CUresult *ret_result, CUdeviceptr *ret_address,
			  size_t bytes)
{
	uint64_t context = state_context_id(call->context), address;
	const char *objection = state_objection();
	bool parked, done;

	if (!(config.fix & CONFIG_FIX_FREES) || !ret_address || !bytes || !context)
		return false;
	if (!objection)
		objection = held_start();
	if (!objection && !pool_size(POOL_DEVICE, bytes)) {
		COUNT_FREES(misses, 1);
		objection = "larger than the pool may hold";
	}
	if (!objection && rewrite_denied(call, CONFIG_FIX_FREES))
		objection = "denied at their call sites";
	if (objection) {
		emit_note(NOTE_REWRITE, objection);
		return false;
	}
	address = pool_take(context, POOL_DEVICE_FLAG, bytes, &parked);
	if (!address && parked) {
		settle_batches(context);
		address = pool_take(context, POOL_DEVICE_FLAG, bytes, &parked);
		if (!address)
			COUNT_FREES(unproven, 1);
	}
	if (address) {
		COUNT_FREES(hits, 1);
		held_less(context, pool_size(POOL_DEVICE, bytes));
		call->flags |= CALL_REWRITTEN;
		events_rewritten(call, CONFIG_FIX_FREES, TRACE_REWRITTEN_HIT, bytes);
		USDT_POOL(USDT_POOL_HIT, POOL_DEVICE, pool_size(POOL_DEVICE, bytes), address);
		*ret_address = address;
		*ret_result = CUDA_SUCCESS;
		done = true;
	} else {
		COUNT_FREES(misses, 1);
		done = allocate(call, context, ret_result, ret_address, bytes);
	}
	counts_bytes();
	return done;
}

static const char tight[] = "most of the memory is in use, and nothing is at work";

void device_context_synchronized(const struct call *call)
{
	uint64_t context = state_context_id(call->context);
	struct pool_bytes bytes;
	uint32_t freed;

	pool_bytes(POOL_DEVICE, &bytes);
	/* The driver's free waits for what others have submitted meanwhile: then not now. */
	if (!bytes.held || !held_is_tight(0) || !context || state_current_context() != context ||
	    !state_is_idle())
		return;
	freed = held_give_back(POOL_DEVICE, context, 0);
	if (!freed)
		return;
	emit_note(NOTE_REWRITE, tight);
	events_real_free(call, CONFIG_FIX_FREES, tight, freed, 0);
	counts_bytes();
}

/* NULL: the block may be parked. */
static const char *must_really_free(struct call *call, const struct pool_block *block)
{
	/* State knows what was done with it; where it does not, anything may have been. */
	if (!call->freed_bytes)
		return "a block that state does not know";
	if (call->flags & CALL_SYNC_MEMOPS)
		return "a block with attributes of its own";
	return free_objection(call, block, CONFIG_FIX_FREES);
}

static void really_free(struct call *call, CUresult *ret_result, CUdeviceptr address)
{
	struct pool_block block;

	/* Out before the driver frees it, since the address may come back at once. Another thread was faster: a double free. */
	if (!pool_remove(address, &block)) {
		*ret_result = CUDA_ERROR_INVALID_VALUE;
		return;
	}
	COUNT_FREES(real_frees, 1);
	USDT_POOL(USDT_POOL_FREED, POOL_DEVICE, block.size, block.address);
	if (!call->entered)
		call->entered = busy_driver(call->function, clock_ticks());
	*ret_result = DRAINING(driver.cuMemFree_v2(address));
	call->left = clock_ticks();
	if (*ret_result != CUDA_SUCCESS)
		pool_put_back(&block);
}

/* True: it is a block of ours; *ret_freed: and was freed before. */
static bool look(const struct call *call, CUdeviceptr address, struct pool_block *ret_block,
		 bool *ret_freed)
{
	enum pool_state state = pool_look(address, ret_block);

	if (state != POOL_NOT_OURS && ret_block->context != state_context_id(call->context) &&
	    contexts_sweep())
		state = pool_look(address, ret_block);
	/* Pinned memory is nothing that these calls free: the driver says so. */
	if (state == POOL_NOT_OURS || pool_kind(ret_block->flags) != POOL_DEVICE)
		return false;
	*ret_freed = state != POOL_LIVE;
	return true;
}

bool rewrite_device_free(struct call *call, CUresult *ret_result, CUdeviceptr address)
{
	struct pool_block block;
	struct pool_bytes bytes;
	uint32_t freed;
	const char *why;
	bool again, idle;

	if (!look(call, address, &block, &again)) {
		if (!room_is_to_leave())
			return false;
		call->entered = busy_driver(call->function, clock_ticks());
		*ret_result = DRAINING(driver.cuMemFree_v2(address));
		call->left = clock_ticks();
		room_leave(call, *ret_result);
		return true;
	}
	if (again) {
		/* There may be more wrong than that. The driver says so, asked with an address that it never gave. */
		call->entered = busy_driver(call->function, clock_ticks());
		*ret_result = DRAINING(driver.cuMemFree_v2((uintptr_t)&block));
		call->left = clock_ticks();
		return true;
	}
	why = must_really_free(call, &block);
	idle = !why && state_is_idle();
	if (idle && held_is_tight(block.size))
		why = tight;
	/* Before it is parked: from then on others may take it. */
	if (!why)
		held_more(block.context, block.size);
	if (!why && pool_park(address, block.context, idle)) {
		COUNT_FREES(parked, 1);
		if (config.relax & CONFIG_STRICT_FREE) {
			COUNT_FREES(waits_made, call->pending_count != 0);
		} else {
			COUNT_FREES(waits_avoided, call->pending_count != 0);
			call->flags |= CALL_REWRITTEN;
		}
		*ret_result = CUDA_SUCCESS;
		events_rewritten(call, CONFIG_FIX_FREES, TRACE_REWRITTEN_PARKED, block.requested);
		USDT_POOL(USDT_POOL_PARKED, POOL_DEVICE, block.size, block.address);
		counts_bytes();
		return true;
	}
	if (!why)
		held_less(block.context, block.size);
	really_free(call, ret_result, address);
	freed = *ret_result == CUDA_SUCCESS;
	if (!why && *ret_result == CUDA_SUCCESS) {
		/* The limit: this call has drained the device, so others may go too. */
		why = "a free above the limit";
		pool_bytes(POOL_DEVICE, &bytes);
		freed += held_give_some_back(POOL_DEVICE, block.context, bytes.limit / 2);
	} else if (why == tight && *ret_result == CUDA_SUCCESS) {
		freed += held_give_back(POOL_DEVICE, block.context, 0);
	}
	if (why) {
		emit_note(NOTE_REWRITE, why);
		events_real_free(call, CONFIG_FIX_FREES, why, freed, block.requested);
	}
	room_leave(call, *ret_result);
	counts_bytes();
	return true;
}

/*
 * cuMemFreeAsync of a block from cuMemAlloc: NVIDIA's guide allows it, its header does not say; the driver decides. If it takes the block,
 * the block is no longer ours.
 */
bool rewrite_device_free_async(struct call *call, CUresult *ret_result, CUdeviceptr address)
{
	struct pool_block block;
	bool again;

	if (!look(call, address, &block, &again))
		return false;
	/* As for rewrite_device_free(). */
	if (again || !pool_remove(address, &block)) {
		again = true;
		address = (uintptr_t)&block;
	}
	call->entered = busy_driver(call->function, clock_ticks());
	*ret_result = call->flags & CALL_PER_THREAD
			      ? driver.cuMemFreeAsync_ptsz(address, call->stream_handle)
			      : driver.cuMemFreeAsync(address, call->stream_handle);
	call->left = clock_ticks();
	if (*ret_result == CUDA_SUCCESS) {
		COUNT_FREES(real_frees, 1);
		USDT_POOL(USDT_POOL_FREED, POOL_DEVICE, block.size, block.address);
	} else if (!again) {
		pool_put_back(&block);
	}
	counts_bytes();
	return true;
}
