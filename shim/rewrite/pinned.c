// SPDX-License-Identifier: MIT
/*
 * Pinned: cuMemHostAlloc, cuMemAllocHost and cuMemFreeHost out of the pool (pool.h). Called by the generated wrappers. Relies on
 * settle.c: a block that is given out is used by nobody.
 *
 * A free returns without the wait that the driver's free makes (no document promises it), unless `strict-free` asks for that. Where a
 * rewrite is not safe the driver frees, in this very call: a free by the driver drains the device. Blocks that are held go back to the driver
 * where nobody waits longer for that: in a free that the limit does not let in, in an allocation that the driver has no memory for once
 * nothing is at work (settle_work()), and, if nobody used them for long, a few at a time, a cuCtxSynchronize after which nothing is at work anywhere.
 *
 * What a recycled block holds is what its last user left; the driver's fresh memory is in practice zero, but nothing promises it.
 */
#include "rewrite/pinned.h"
#include "call.h"
#include "catalogue/catalogue.h"
#include "clock.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/busy.h"
#include "emit/emit.h"
#include "emit/usdt.h"
#include "pool/magazine.h"
#include "rewrite/contexts.h"
#include "rewrite/deny.h"
#include "rewrite/events.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "rewrite/short.h"
#include "stage/drain.h"
#include "state/proof.h"
#include "state/state.h"
#include "uncancelled.h"

void pinned_drop(bool (*lives)(uint64_t context))
{
	struct pool_block *list = pool_drop(lives), *block;

	/* State has not heard of an end that nobody saw. */
	state_contexts_gone(lives);
	for (block = list; block; block = block->next)
		if (block->listed && pool_kind(block->flags) == POOL_PINNED)
			state_pinned_ends(block->address);
	pool_spare(list);
}

void pinned_special(uint64_t address)
{
	struct pool_block block;

	if (address && address != UINT64_MAX && pointer_find(address, &block) != POOL_NOT_OURS)
		pool_mark_special(block.address);
}

/* `flags` of a key. */
static CUresult driver_alloc(void **ret_address, size_t bytes, uint32_t flags)
{
	flags &= ~(POOL_NODE_MAX << POOL_NODE_SHIFT);
	return flags & REWRITE_ALLOC_HOST ? driver.cuMemAllocHost_v2(ret_address, bytes)
					  : driver.cuMemHostAlloc(ret_address, bytes, flags);
}

/* Frees a list that the pool gave; how many. Drains the device: only where that has been waited for, or this call drains it anyway. */
static uint32_t free_list(struct pool_block *list)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	const struct pool_block *block;
	uint32_t count = 0;
	bool relaxed;

	if (!list)
		return 0;
	/* A capture elsewhere, should one have begun, is not to notice. */
	relaxed = driver.cuThreadExchangeStreamCaptureMode &&
		  driver.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
	for (block = list; block; block = block->next) {
		count++;
		COUNT(real_frees, 1);
		USDT_POOL(USDT_POOL_GIVEN_BACK, POOL_PINNED, block->size, block->address);
		/* Before: the address may become anybody's memory at once. */
		if (block->listed)
			state_pinned_ends(block->address);
		if (DRAINING(driver.cuMemFreeHost((void *)(uintptr_t)block->address)) !=
		    CUDA_SUCCESS)
			emit_note(NOTE_REWRITE, "the driver did not take a block back");
	}
	if (relaxed)
		driver.cuThreadExchangeStreamCaptureMode(&mode);
	pool_spare(list);
	return count;
}

uint32_t pinned_give_all_back(uint64_t context)
{
	int before = uncancelled_begin();
	uint32_t freed;

	room_giving_begin();
	freed = free_list(pool_give_back(POOL_PINNED, context, 0, true));
	room_giving_end(freed);
	uncancelled_end(before);
	return freed;
}

uint32_t pinned_give_some_back(uint64_t context, uint64_t keep)
{
	uint64_t end = clock_now_ns() + GIVE_BACK_NS;
	int before = uncancelled_begin();
	uint32_t freed = 0, now;

	do {
		room_giving_begin();
		now = free_list(pool_give_some_back(POOL_PINNED, context, keep, GIVE_BACK_ONCE));
		room_giving_end(now);
		freed += now;
	} while (now && clock_now_ns() < end);
	uncancelled_end(before);
	return freed;
}

/* The driver has the last word: without a block of ours it is asked with the program's own arguments. */
static bool allocate(struct call *call, uint64_t context, CUresult *ret_result, void **ret_address,
		     size_t bytes, uint32_t flags)
{
	uint64_t size = pool_size(POOL_PINNED, bytes);
	struct rewrite_room room = {0};
	void *address = NULL;
	CUresult result;

	/* So that the end of the context is noticed, of others too, whose blocks count as held. */
	if (driver.cuCtxGetDevice)
		held_more(context, 0);
	(void)contexts_sweep();
	call->entered = busy_driver(call->function, clock_ticks());
	do
		result = driver_alloc(&address, size, flags);
	while (result == CUDA_ERROR_OUT_OF_MEMORY && rewrite_make_room(call, &room));
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		/* Here, since the wrapper would look for room once more, and wait for it. */
		*ret_result = driver_alloc(ret_address, bytes, flags);
		call->left = clock_ticks();
		return true;
	}
	call->left = clock_ticks();
	if (result != CUDA_SUCCESS)
		return false;
	if (!pool_add(context, flags, bytes, size, (uintptr_t)address))
		emit_note(NOTE_REWRITE, "a block could not be stored");
	*ret_address = address;
	*ret_result = CUDA_SUCCESS;
	return true;
}

/* A block of the key, from wherever one is held; 0: none. The driver takes a thousand times as long as all of this. */
static uint64_t take(uint64_t context, uint32_t flags, uint64_t bytes)
{
	uint64_t address;
	bool parked;

	address = pool_take(context, flags, bytes, &parked);
	if (!address && pool_collect(context, flags, bytes))
		address = pool_take(context, flags, bytes, &parked);
	if (address || !parked)
		return address;
	settle_batches(context);
	address = pool_take(context, flags, bytes, &parked);
	if (!address)
		COUNT(unproven, 1);
	return address;
}

bool rewrite_host_alloc(struct call *call, CUresult *ret_result, void **ret_address, size_t bytes,
			unsigned int flags)
{
	uint64_t context = state_context_id(call->context);
	const char *objection = state_objection();
	uint64_t address;
	bool done;

	if (!(config.fix & CONFIG_FIX_PINNED) || !ret_address || !bytes || !context ||
	    flags & ~PINNED_FLAGS)
		return false;
	if (!objection && !pool_size(POOL_PINNED, bytes)) {
		COUNT(misses, 1);
		objection = "larger than the pool may hold";
	}
	if (!objection && rewrite_denied(call, CONFIG_FIX_PINNED))
		objection = "denied at their call sites";
	if (objection) {
		emit_note(NOTE_REWRITE, objection);
		return false;
	}
	short_begin();
	flags |= pinned_node();
	address = take(context, flags, bytes);
	if (address) {
		COUNT(hits, 1);
		call->flags |= CALL_REWRITTEN;
		pinned_clear(address, bytes);
		short_fill(context, flags, bytes);
		events_rewritten(call, CONFIG_FIX_PINNED, TRACE_REWRITTEN_HIT, bytes);
		USDT_POOL(USDT_POOL_HIT, POOL_PINNED, pool_size(POOL_PINNED, bytes), address);
		*ret_address = (void *)(uintptr_t)address;
		*ret_result = CUDA_SUCCESS;
		done = true;
	} else {
		COUNT(misses, 1);
		done = allocate(call, context, ret_result, ret_address, bytes, flags);
	}
	counts_bytes();
	return done;
}

/* The wait of the driver's free, as far as this context goes. False: the driver must free, to wait for more, or to tell its error. */
static bool wait_like_the_driver(struct call *call)
{
	uint32_t i;

	if (call->pending_count > CALL_PENDING_MAX || !driver.cuCtxSynchronize)
		return false;
	for (i = 0; i < call->pending_count; i++)
		if (!state_in_scope(call, call->pending[i].stream, CATALOGUE_SCOPE_CONTEXT))
			return false;
	call->entered = busy_driver(call->function, clock_ticks());
	if (driver.cuCtxSynchronize() != CUDA_SUCCESS)
		return false;
	call->left = clock_ticks();
	state_context_observed(call, CUDA_SUCCESS);
	return true;
}

const char *free_objection(struct call *call, const struct pool_block *block,
			   enum config_fix rewrite)
{
	const char *objection = state_objection();

	if (objection)
		return objection;
	if (!call->context)
		return "a free without a current context";
	if (state_context_id(call->context) != block->context)
		return "a free in another context";
	if (call->freed_bytes && call->freed_flags)
		return "a block with attributes of its own";
	if (rewrite_denied(call, rewrite))
		return "denied at their call sites";
	if (config.relax & CONFIG_STRICT_FREE && !wait_like_the_driver(call))
		return "strict-free: the driver must wait";
	return NULL;
}

static void really_free(struct call *call, CUresult *ret_result, void *address)
{
	struct pool_block block;

	/* Out before the driver frees it, since the address may come back at once. Another thread was faster: a double free. */
	if (!pool_remove((uintptr_t)address, &block)) {
		*ret_result = CUDA_ERROR_INVALID_VALUE;
		return;
	}
	COUNT(real_frees, 1);
	USDT_POOL(USDT_POOL_FREED, POOL_PINNED, block.size, block.address);
	if (!call->entered)
		call->entered = busy_driver(call->function, clock_ticks());
	*ret_result = DRAINING(driver.cuMemFreeHost(address));
	call->left = clock_ticks();
	if (*ret_result != CUDA_SUCCESS)
		pool_put_back(&block);
}

/* As pool_look(); a block of a context that is gone is none. */
static enum pool_state look(const struct call *call, const void *address,
			    struct pool_block *ret_block)
{
	enum pool_state state = pool_look((uintptr_t)address, ret_block);

	if (state != POOL_NOT_OURS && ret_block->context != state_context_id(call->context) &&
	    contexts_sweep())
		state = pool_look((uintptr_t)address, ret_block);
	return state;
}

/* `block`: as it was before it was parked. */
static void tell_parked(const struct call *call, const struct pool_block *block)
{
	events_rewritten(call, CONFIG_FIX_PINNED, TRACE_REWRITTEN_PARKED, block->requested);
	USDT_POOL(USDT_POOL_PARKED, POOL_PINNED, block->size, block->address);
}

bool rewrite_host_free(struct call *call, CUresult *ret_result, void *address)
{
	struct pool_block block;
	struct pool_bytes bytes;
	uint32_t freed;
	const char *why;
	bool ready;

	switch (look(call, address, &block)) {
	case POOL_NOT_OURS:
		if (!room_is_to_leave())
			return false;
		call->entered = busy_driver(call->function, clock_ticks());
		*ret_result = DRAINING(driver.cuMemFreeHost(address));
		call->left = clock_ticks();
		room_leave(call, *ret_result);
		return true;
	case POOL_LIVE:
		if (pool_kind(block.flags) != POOL_PINNED)
			return false; /* the driver says what is wrong */
		break;
	default:
		/* Freed before; there may be more wrong than that. The driver says so, asked with an address that it never gave. */
		call->entered = busy_driver(call->function, clock_ticks());
		*ret_result = DRAINING(driver.cuMemFreeHost(&block));
		call->left = clock_ticks();
		return true;
	}
	why = free_objection(call, &block, CONFIG_FIX_PINNED);
	ready = !why && state_is_idle();
	if (ready && short_keep(&block)) {
		COUNT(waits_avoided, call->pending_count != 0);
		call->flags |= CALL_REWRITTEN;
		*ret_result = CUDA_SUCCESS;
		tell_parked(call, &block);
		return true;
	}
	if (!why && pool_park((uintptr_t)address, block.context, ready)) {
		COUNT(parked, 1);
		if (config.relax & CONFIG_STRICT_FREE) {
			COUNT(waits_made, call->pending_count != 0);
		} else {
			COUNT(waits_avoided, call->pending_count != 0);
			call->flags |= CALL_REWRITTEN;
		}
		*ret_result = CUDA_SUCCESS;
		tell_parked(call, &block);
		counts_pinned_bytes();
		return true;
	}
	really_free(call, ret_result, address);
	freed = *ret_result == CUDA_SUCCESS;
	if (!why && *ret_result == CUDA_SUCCESS) {
		/* The limit: this call has drained the device, so others may go too. */
		why = "a free above the limit";
		pool_bytes(POOL_PINNED, &bytes);
		freed += pinned_give_some_back(block.context, bytes.limit / 2);
	}
	if (why) {
		emit_note(NOTE_REWRITE, why);
		events_real_free(call, CONFIG_FIX_PINNED, why, freed, block.requested);
	}
	room_leave(call, *ret_result);
	counts_bytes();
	return true;
}

/* Rounds of the pool's ages in SLIPSTREAM_POOL_AGE, each at least as long as its part; and blocks that one call frees (0.4 ms each). */
#define AGE_ROUNDS 4
#define AGE_BLOCKS 2

void rewrite_context_synchronized(struct call *call)
{
	static const char why[] = "a block was not used for long";
	static uint64_t
		last; /* when the round began, clock ticks; who changes it begins the next */
	uint64_t begun = __atomic_load_n(&last, __ATOMIC_RELAXED);
	uint64_t context = state_context_id(call->context);
	struct pool_block *list;
	uint32_t freed, unfinished;

	array_context_synchronized(context);
	/* What has been freed until now waits for nothing that comes later. */
	settle_known();
	device_context_synchronized(call);
	if (room_is_to_leave() && state_is_alone(call->context) &&
	    state_unfinished(&(struct state_mark){0}, 1, &unfinished) && !unfinished)
		room_leave(call, CUDA_SUCCESS);
	if (!config.pool_age_ns || !(config.fix & CONFIG_FIX_PINNED) ||
	    (begun && clock_duration_ns(begun, call->left) < config.pool_age_ns / AGE_ROUNDS) ||
	    !__atomic_compare_exchange_n(&last, &begun, call->left, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	/* The driver's free waits for what others have submitted meanwhile: then not now. */
	if (!begun || !context || state_current_context() != context || !state_is_idle())
		return;
	list = pool_old(POOL_PINNED, context, AGE_ROUNDS, AGE_BLOCKS);
	if (!list)
		return;
	freed = free_list(list);
	emit_note(NOTE_REWRITE, why);
	events_real_free(call, CONFIG_FIX_PINNED, why, freed, 0);
	counts_bytes();
}
