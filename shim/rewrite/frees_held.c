// SPDX-License-Identifier: MIT
/*
 * Held: device memory that the pool holds, by context, and its way back to the driver (frees.h). Called by the other files of `frees` and
 * by room.c. Relies on contexts.h, in whose table the sums stand.
 */
#include <limits.h>

#include "clock.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "emit/usdt.h"
#include "pool/pool.h"
#include "rewrite/contexts.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "stage/drain.h"
#include "state/proof.h"
#include "state/state.h"
#include "uncancelled.h"

/* A program that frees memory expects others to find it: an eighth of the device is kept from them at most. A choice. */
#define SHARE 8
/* And where more than this part is in use, none of what can go back without a wait. A choice. */
#define TIGHT 2
/* Arrays are not used again: less of them. */
#define ARRAY_SHARE 32

#define LOAD(pointer) __atomic_load_n(pointer, __ATOMIC_RELAXED)

static uint64_t total_bytes; /* of the first device; written once, before any block is made */

const char *held_start(void)
{
	enum { NOT_ASKED, SOMEBODY_ASKS, KNOWN, UNKNOWABLE };
	static const char *const why[] = {
		[SOMEBODY_ASKS] = "another thread is asking for the size of the device's memory",
		[UNKNOWABLE] = "the size of the device's memory is not known",
	};
	static uint32_t state;
	uint32_t seen = NOT_ASKED;
	CUdevice device;
	size_t total;

	/* Acquire, here and where the exchange fails: pairs with the release below. */
	if (__builtin_expect(__atomic_load_n(&state, __ATOMIC_ACQUIRE) == KNOWN, 1))
		return NULL;
	if (!__atomic_compare_exchange_n(&state, &seen, SOMEBODY_ASKS, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_ACQUIRE))
		return why[seen];
	if (!driver.cuCtxGetDevice || !driver.cuDeviceTotalMem_v2 ||
	    driver.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
	    driver.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS) {
		__atomic_store_n(&state, UNKNOWABLE, __ATOMIC_RELAXED);
		return why[UNKNOWABLE];
	}
	__atomic_store_n(&total_bytes, total, __ATOMIC_RELAXED);
	/* One limit for all devices together: each of them then holds no more than its share, if they are alike. */
	pool_start(POOL_DEVICE, total / SHARE);
	pool_start(POOL_ARRAY, total / ARRAY_SHARE);
	/* Release: pairs with the load above: who sees it sees the limits. */
	__atomic_store_n(&state, KNOWN, __ATOMIC_RELEASE);
	return NULL;
}

bool held_is_tight(uint64_t more)
{
	struct pool_bytes device, arrays;

	pool_bytes(POOL_DEVICE, &device);
	pool_bytes(POOL_ARRAY, &arrays);
	return more + state_device_bytes() + device.held + arrays.held + arrays.live >
	       LOAD(&total_bytes) / TIGHT * contexts_devices();
}

void held_more(uint64_t context, uint64_t bytes)
{
	struct context_slot *held = contexts_find_or_claim(context);

	if (held)
		__atomic_fetch_add(&held->bytes, bytes, __ATOMIC_RELAXED);
}

void held_less(uint64_t context, uint64_t bytes)
{
	struct context_slot *held = contexts_find(context);
	uint64_t seen, less;

	if (!held)
		return;
	seen = LOAD(&held->bytes);
	do {
		/* Never below: a block that something displaced in the pool was not taken off. */
		less = seen > bytes ? seen - bytes : 0;
	} while (!__atomic_compare_exchange_n(&held->bytes, &seen, less, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
}

uint64_t held_on_current_device(uint64_t current)
{
	uint64_t sum = 0;
	CUdevice device;
	bool others;

	if (!driver.cuCtxGetDevice || driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
		return 0;
	others = state_contexts_begin();
	for (unsigned int i = 0; i < CONTEXTS_MAX; i++)
		if (LOAD(&contexts_table[i].bytes) && contexts_table[i].device == device &&
		    (LOAD(&contexts_table[i].id) == current ||
		     (others && contexts_place(&contexts_table[i]) == CONTEXT_THERE)))
			sum += LOAD(&contexts_table[i].bytes);
	if (others)
		state_asking_end();
	return sum;
}

bool held_arrays(void)
{
	struct pool_bytes bytes;

	pool_bytes(POOL_ARRAY, &bytes);
	return bytes.held != 0;
}

static uint32_t give_back(enum pool_kind kind, uint64_t context, uint64_t keep, unsigned int most)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	const struct pool_block *block;
	struct pool_block *list;
	int before = uncancelled_begin();
	uint32_t count = 0;
	bool relaxed;

	room_giving_begin();
	list = pool_give_some_back(kind, context, keep, most);
	if (!list) {
		room_giving_end(false);
		uncancelled_end(before);
		return 0;
	}
	/* A capture elsewhere, should one have begun, is not to notice. */
	relaxed = driver.cuThreadExchangeStreamCaptureMode &&
		  driver.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
	for (block = list; block; block = block->next) {
		count++;
		COUNT_FREES(real_frees, 1);
		USDT_POOL(USDT_POOL_GIVEN_BACK, kind, block->size, block->address);
		if (DRAINING(kind == POOL_ARRAY
				     ? array_destroy(block)
				     : driver.cuMemFree_v2(block->address)) != CUDA_SUCCESS)
			emit_note(NOTE_REWRITE, "the driver did not take a block back");
		/* Now, since the driver may have waited for long: meanwhile it was free for the program. */
		held_less(context, block->size);
	}
	if (relaxed)
		driver.cuThreadExchangeStreamCaptureMode(&mode);
	room_giving_end(true);
	uncancelled_end(before);
	pool_spare(list);
	return count;
}

uint32_t held_give_back(enum pool_kind kind, uint64_t context, uint64_t keep)
{
	return give_back(kind, context, keep, UINT_MAX);
}

uint32_t held_give_some_back(enum pool_kind kind, uint64_t context, uint64_t keep)
{
	uint64_t end = clock_now_ns() + GIVE_BACK_NS;
	uint32_t freed = 0, now;

	do {
		now = give_back(kind, context, keep, GIVE_BACK_ONCE);
		freed += now;
	} while (now && clock_now_ns() < end);
	return freed;
}

uint32_t held_give_all_back(uint64_t context)
{
	return held_give_back(POOL_DEVICE, context, 0) + held_give_back(POOL_ARRAY, context, 0);
}

uint32_t held_give_back_everywhere(int device, uint64_t current, uint32_t (*give)(uint64_t context))
{
	uint32_t freed = 0;

	for (unsigned int i = 0; i < CONTEXTS_MAX; i++) {
		struct context_slot *held = &contexts_table[i];

		if (!LOAD(&held->id))
			continue;
		/* Acquire: pairs with contexts_find_or_claim(). */
		if (device >= 0 && (!__atomic_load_n(&held->handle, __ATOMIC_ACQUIRE) ||
				    held->device != device || !LOAD(&held->bytes)))
			continue;
		freed += LOAD(&held->id) == current ? give(current) : contexts_visit(held, give);
	}
	/* Of more contexts than the table has room for, this one at least. */
	if (current && !contexts_find(current))
		freed += give(current);
	return freed;
}
