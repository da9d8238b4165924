// SPDX-License-Identifier: MIT
/*
 * Held: device memory that the pool holds, by context, and its way back to the driver (frees.h). Called by the other files of `frees` and
 * by room.c.
 *
 * A slot of the table belongs to one context: `id` is claimed by a compare and swap from 0, then `device` and `handle` are stored, the
 * latter last (release); who reads a handle sees the rest. `bytes` is only ever added to and taken from, by anyone. held_drop() gives the
 * slot back when its context ends, in a call that the program must not overlap with others in that context.
 *
 * The driver is asked about other contexts by their handles between state_contexts_begin() and state_asking_end() only: none of them ends
 * meanwhile, since another thread may end one at any time.
 */
#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "call.h"
#include "clock.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "pool/pool.h"
#include "rewrite/events.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "rewrite/pinned.h"
#include "rewrite/rewrite.h"
#include "stage/drain.h"
#include "state/proof.h"
#include "state/state.h"

#define CONTEXTS 64
/* A program that frees memory expects others to find it: an eighth of the device is kept from them at most. A choice. */
#define SHARE 8
/* Arrays are not used again: less of them. */
#define ARRAY_SHARE 32

static struct held {
	uint64_t id;     /* 0: not in use */
	uint64_t handle; /* 0: not to be read yet */
	uint64_t bytes;
	int device;
	uint32_t gone; /* found so; for good */
} table[CONTEXTS];

/* Threads that give back what is held of a context that is not their own: up while no context ends, by state_contexts_begin(). */
static uint32_t visitors;

#define LOAD(pointer) __atomic_load_n(pointer, __ATOMIC_RELAXED)

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
	/* One limit for all devices together: each of them then holds no more than its share, if they are alike. */
	pool_start(POOL_DEVICE, total / SHARE);
	pool_start(POOL_ARRAY, total / ARRAY_SHARE);
	/* Release: pairs with the load above: who sees it sees the limits. */
	__atomic_store_n(&state, KNOWN, __ATOMIC_RELEASE);
	return NULL;
}

static struct held *find(uint64_t id)
{
	for (unsigned int i = 0; i < CONTEXTS; i++)
		if (LOAD(&table[i].id) == id)
			return &table[i];
	return NULL;
}

/* NULL: the table is full; what the context holds is then counted nowhere. */
static struct held *find_or_claim(uint64_t id)
{
	struct held *held = find(id);
	CUcontext handle = NULL;
	uint64_t none;

	for (unsigned int i = 0; !held && i < CONTEXTS; i++) {
		none = 0;
		if (!__atomic_compare_exchange_n(&table[i].id, &none, id, false, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
			continue;
		held = &table[i];
		if (driver.cuCtxGetDevice(&held->device) == CUDA_SUCCESS &&
		    driver.cuCtxGetCurrent && driver.cuCtxGetCurrent(&handle) == CUDA_SUCCESS)
			__atomic_store_n(&held->handle, (uintptr_t)handle, __ATOMIC_RELEASE);
	}
	/* Of two threads that claimed one, both use the first; the other slot stays empty. */
	return held ? find(id) : NULL;
}

void held_more(uint64_t context, uint64_t bytes)
{
	struct held *held = find_or_claim(context);

	if (held)
		__atomic_fetch_add(&held->bytes, bytes, __ATOMIC_RELAXED);
}

void held_less(uint64_t context, uint64_t bytes)
{
	struct held *held = find(context);
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

/*
 * A primary context may end without our seeing it: by its last release, or through a private table of the driver. Its handle stays, and
 * is asked for its id. Not where calls went past the rooms: then the handle may name nothing any more. No context ends meanwhile.
 */
enum place { THERE, GONE, UNKNOWN };

static enum place place_of(const struct held *held)
{
	uint64_t handle = __atomic_load_n(&held->handle, __ATOMIC_ACQUIRE);
	unsigned long long id = 0;

	if (!handle || !driver.cuCtxGetId || state_is_doubted())
		return UNKNOWN;
	switch (driver.cuCtxGetId((CUcontext)(uintptr_t)handle, &id)) {
	case CUDA_SUCCESS:
		return id == LOAD(&held->id) ? THERE : GONE;
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
		return GONE;
	default:
		return UNKNOWN;
	}
}

/* Under the pool's lock. */
static bool is_not_gone(uint64_t id)
{
	const struct held *held = find(id);

	return !held || !LOAD(&held->gone);
}

bool held_sweep(void)
{
	bool found = false;

	if (!state_contexts_begin())
		return false;
	for (unsigned int i = 0; i < CONTEXTS; i++) {
		if (!LOAD(&table[i].id) || place_of(&table[i]) != GONE)
			continue;
		__atomic_store_n(&table[i].gone, 1, __ATOMIC_RELAXED);
		found = true;
	}
	if (found) {
		pinned_drop(is_not_gone);
		held_drop(is_not_gone);
	}
	state_asking_end();
	return found;
}

uint64_t held_on_current_device(uint64_t current)
{
	uint64_t sum = 0;
	CUdevice device;
	bool others;

	if (!driver.cuCtxGetDevice || driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
		return 0;
	others = state_contexts_begin();
	for (unsigned int i = 0; i < CONTEXTS; i++)
		if (LOAD(&table[i].bytes) && table[i].device == device &&
		    (LOAD(&table[i].id) == current || (others && place_of(&table[i]) == THERE)))
			sum += LOAD(&table[i].bytes);
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
	uint32_t count = 0;
	bool relaxed;

	room_giving_begin();
	list = pool_give_some_back(kind, context, keep, most);
	if (!list) {
		room_giving_end(false);
		return 0;
	}
	/* A capture elsewhere, should one have begun, is not to notice. */
	relaxed = driver.cuThreadExchangeStreamCaptureMode &&
		  driver.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
	for (block = list; block; block = block->next) {
		count++;
		COUNT_FREES(real_frees, 1);
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

/* In a context that is not current. */
static uint32_t give_back_elsewhere(const struct held *held, uint32_t (*give)(uint64_t context))
{
	uint64_t id = LOAD(&held->id);
	CUcontext popped;
	uint32_t freed;
	bool pushed;

	if (!driver.cuCtxPushCurrent_v2 || !driver.cuCtxPopCurrent_v2 || !state_contexts_begin())
		return 0;
	pushed = place_of(held) == THERE &&
		 driver.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)LOAD(&held->handle)) ==
			 CUDA_SUCCESS;
	if (pushed)
		__atomic_add_fetch(&visitors, 1, __ATOMIC_SEQ_CST);
	state_asking_end();
	if (!pushed)
		return 0;
	/* Whoever ends it waits for us: its addresses would be another's before they are freed here. */
	freed = give(id);
	driver.cuCtxPopCurrent_v2(&popped);
	__atomic_sub_fetch(&visitors, 1, __ATOMIC_SEQ_CST);
	return freed;
}

void held_wait_for_visitors(void)
{
	int saved = errno;

	while (__atomic_load_n(&visitors, __ATOMIC_SEQ_CST))
		syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 50000}, NULL);
	errno = saved;
}

uint32_t held_give_back_everywhere(int device, uint64_t current, uint32_t (*give)(uint64_t context))
{
	uint32_t freed = 0;

	for (unsigned int i = 0; i < CONTEXTS; i++) {
		struct held *held = &table[i];

		if (!LOAD(&held->id))
			continue;
		/* Acquire: pairs with the store in find_or_claim(). */
		if (device >= 0 && (!__atomic_load_n(&held->handle, __ATOMIC_ACQUIRE) ||
				    held->device != device || !LOAD(&held->bytes)))
			continue;
		freed += LOAD(&held->id) == current ? give(current)
						    : give_back_elsewhere(held, give);
	}
	/* Of more contexts than the table has room for, this one at least. */
	if (current && !find(current))
		freed += give(current);
	return freed;
}

void held_drop(bool (*lives)(uint64_t context))
{
	for (unsigned int i = 0; i < CONTEXTS; i++) {
		struct held *held = &table[i];

		if (!LOAD(&held->id) || lives(LOAD(&held->id)))
			continue;
		__atomic_store_n(&held->handle, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&held->bytes, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&held->gone, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&held->id, 0, __ATOMIC_RELEASE);
	}
}
