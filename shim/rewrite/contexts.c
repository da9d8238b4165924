// SPDX-License-Identifier: MIT
/*
 * Contexts (contexts.h). Relies on state/proof.h: the driver is asked about other contexts by their handles between state_contexts_begin() and
 * state_asking_end() only, since another thread may end one at any time.
 */
#include "rewrite/contexts.h"

#include <errno.h>

#include "driver/driver.h"
#include "rewrite/pinned.h"
#include "state/proof.h"
#include "uncancelled.h"

struct context_slot contexts_table[CONTEXTS_MAX];

/* A bit for each device that a context had a slot on; never cleared. */
static uint64_t devices;

/* Threads in a context that is not their own: up while no context ends, by state_contexts_begin(). */
static uint32_t visitors;

#define LOAD(pointer) __atomic_load_n(pointer, __ATOMIC_RELAXED)

struct context_slot *contexts_find(uint64_t id)
{
	for (unsigned int i = 0; i < CONTEXTS_MAX; i++)
		if (LOAD(&contexts_table[i].id) == id)
			return &contexts_table[i];
	return NULL;
}

struct context_slot *contexts_find_or_claim(uint64_t id)
{
	struct context_slot *slot = contexts_find(id);
	CUcontext handle = NULL;
	uint64_t none;

	for (unsigned int i = 0; !slot && i < CONTEXTS_MAX; i++) {
		none = 0;
		/* Acquire: pairs with contexts_drop(): what it cleared is cleared before anything is stored here. */
		if (!__atomic_compare_exchange_n(&contexts_table[i].id, &none, id, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		slot = &contexts_table[i];
		if (driver.cuCtxGetDevice(&slot->device) != CUDA_SUCCESS)
			continue;
		__atomic_fetch_or(&devices, UINT64_C(1) << (slot->device & 63), __ATOMIC_RELAXED);
		if (driver.cuCtxGetCurrent && driver.cuCtxGetCurrent(&handle) == CUDA_SUCCESS)
			/* Release: pairs with whoever reads a handle, contexts_place() above all. */
			__atomic_store_n(&slot->handle, (uintptr_t)handle, __ATOMIC_RELEASE);
	}
	/* Of two threads that claimed one, both use the first; the other slot stays empty. */
	return slot ? contexts_find(id) : NULL;
}

unsigned int contexts_devices(void)
{
	unsigned int count = (unsigned int)__builtin_popcountll(LOAD(&devices));

	return count ? count : 1;
}

/*
 * A primary context may end without our seeing it: by its last release, or through a private table of the driver. Its handle stays, and
 * is asked for its id. Not where calls went past the rooms: then the handle may name nothing any more. No context ends meanwhile.
 */
enum context_place contexts_place(const struct context_slot *slot)
{
	/* Acquire: pairs with contexts_find_or_claim(). */
	uint64_t handle = __atomic_load_n(&slot->handle, __ATOMIC_ACQUIRE);
	unsigned long long id = 0;

	if (!handle || !driver.cuCtxGetId || state_is_doubted())
		return CONTEXT_UNKNOWN;
	switch (driver.cuCtxGetId((CUcontext)(uintptr_t)handle, &id)) {
	case CUDA_SUCCESS:
		return id == LOAD(&slot->id) ? CONTEXT_THERE : CONTEXT_GONE;
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
		return CONTEXT_GONE;
	default:
		return CONTEXT_UNKNOWN;
	}
}

/* Under the pool's lock. */
static bool is_not_gone(uint64_t id)
{
	const struct context_slot *slot = contexts_find(id);

	return !slot || !LOAD(&slot->gone);
}

bool contexts_sweep(void)
{
	bool found = false;

	if (!state_contexts_begin())
		return false;
	for (unsigned int i = 0; i < CONTEXTS_MAX; i++) {
		if (!LOAD(&contexts_table[i].id) ||
		    contexts_place(&contexts_table[i]) != CONTEXT_GONE)
			continue;
		__atomic_store_n(&contexts_table[i].gone, 1, __ATOMIC_RELAXED);
		found = true;
	}
	if (found) {
		pinned_drop(is_not_gone);
		contexts_drop(is_not_gone);
	}
	state_asking_end();
	return found;
}

uint32_t contexts_visit(const struct context_slot *slot, uint32_t (*give)(uint64_t context))
{
	uint64_t id = LOAD(&slot->id);
	CUcontext popped;
	uint32_t freed;
	bool pushed;
	int before;

	if (!driver.cuCtxPushCurrent_v2 || !driver.cuCtxPopCurrent_v2 || !state_contexts_begin())
		return 0;
	before = uncancelled_begin();
	pushed = contexts_place(slot) == CONTEXT_THERE &&
		 driver.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)LOAD(&slot->handle)) ==
			 CUDA_SUCCESS;
	/* Pairs with contexts_wait_for_visitors(), which runs when state_contexts_begin() lets nobody in any more. */
	if (pushed)
		__atomic_add_fetch(&visitors, 1, __ATOMIC_SEQ_CST);
	state_asking_end();
	if (!pushed) {
		uncancelled_end(before);
		return 0;
	}
	/* Whoever ends the context waits for us: its addresses would be another's before they are freed here. */
	freed = give(id);
	driver.cuCtxPopCurrent_v2(&popped);
	__atomic_sub_fetch(&visitors, 1, __ATOMIC_SEQ_CST);
	uncancelled_end(before);
	return freed;
}

void contexts_wait_for_visitors(void)
{
	int saved = errno;

	while (__atomic_load_n(&visitors, __ATOMIC_SEQ_CST))
		uncancelled_nap(50000);
	errno = saved;
}

void contexts_visit_ending(uint64_t context, void (*give)(uint64_t context))
{
	struct context_slot *slot = contexts_find(context);
	CUcontext popped;

	if (!slot || !driver.cuCtxPushCurrent_v2 || !driver.cuCtxPopCurrent_v2 ||
	    contexts_place(slot) != CONTEXT_THERE ||
	    driver.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)LOAD(&slot->handle)) != CUDA_SUCCESS)
		return;
	give(context);
	driver.cuCtxPopCurrent_v2(&popped);
}

void contexts_drop(bool (*lives)(uint64_t context))
{
	for (unsigned int i = 0; i < CONTEXTS_MAX; i++) {
		struct context_slot *slot = &contexts_table[i];

		if (!LOAD(&slot->id) || lives(LOAD(&slot->id)))
			continue;
		__atomic_store_n(&slot->handle, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&slot->bytes, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&slot->gone, 0, __ATOMIC_RELAXED);
		/* Release: pairs with contexts_find_or_claim(). */
		__atomic_store_n(&slot->id, 0, __ATOMIC_RELEASE);
	}
}
