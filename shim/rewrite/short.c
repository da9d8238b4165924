// SPDX-License-Identifier: MIT
/*
 * Short (short.h). Called by the generated wrappers, by pinned.c and at a thread's exit. Relies on pool/magazine.h.
 */
#include "rewrite/short.h"

#include "config.h"
#include "emit/emit.h"
#include "emit/usdt.h"
#include "pool/magazine.h"
#include "rewrite/events.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "rewrite/pinned.h"
#include "state/proof.h"
#include "state/state.h"

/* Records of two threads must not share a cache line. */
#define RECORD_SIZE 320
_Static_assert(sizeof(struct record_rewrite) + 64 <= RECORD_SIZE,
	       "a line between the figures of two");

__thread struct pool_magazine *short_magazine;
uint32_t short_device;

static inline bool is_listened_to(void)
{
	return USDT_LISTENS(pool) || USDT_LISTENS(rewrite);
}

/* For who listens. The block may be anybody's by now: `size` and `bytes` are from before. */
static __attribute__((cold, noinline)) void tell(uint32_t function, bool hit, uint64_t address,
						 uint64_t size, uint64_t bytes)
{
	USDT_POOL(hit ? USDT_POOL_HIT : USDT_POOL_PARKED, POOL_PINNED, size, address);
	USDT_REWRITE(CONFIG_FIX_PINNED, hit ? USDT_REWRITE_HIT : USDT_REWRITE_PARKED, function,
		     bytes);
}

static __attribute__((cold, noinline)) void tell_device(uint32_t function, uint64_t address,
							uint64_t size, uint64_t bytes)
{
	USDT_POOL(USDT_POOL_PARKED, POOL_DEVICE, size, address);
	USDT_REWRITE(CONFIG_FIX_FREES, USDT_REWRITE_PARKED, function, bytes);
}

bool short_host_alloc(uint32_t function, void **ret_address, size_t bytes, unsigned int flags)
{
	struct pool_block *block;
	uint64_t context;

	if (!ret_address || flags & ~PINNED_FLAGS || state_objection())
		return false;
	context = state_current_context();
	if (!context)
		return false;
	block = pool_magazine_take(short_magazine, context, flags | pinned_node(), bytes);
	if (!block)
		return false;
	/* It was freed the long way, or by who had asked for less. */
	if (__builtin_expect(block->listed < bytes, 0)) {
		state_pinned_begins(block->address, block->size);
		__atomic_store_n(&block->listed, block->size, __ATOMIC_RELAXED);
	}
	pinned_clear(block->address, bytes);
	*ret_address = (void *)(uintptr_t)block->address;
	if (is_listened_to())
		tell(function, true, block->address, block->size, bytes);
	return true;
}

/*
 * While something is at work: into the open batch, as the long way does. With relax=order state's range goes, so that memory which the program
 * has freed is none that the host could look into (state/live.c).
 */
static bool park(const struct pool_block *block, uint64_t address, uint64_t context)
{
	uint64_t bytes = __atomic_load_n(&block->requested, __ATOMIC_RELAXED);
	bool ends = config.relax & CONFIG_RELAX_ORDER;

	/* The long way looks into these, and what is freed twice is none of ours. */
	if (__atomic_load_n(&block->special, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&block->tag, __ATOMIC_RELAXED) != (address | POOL_LIVE))
		return false;
	if (ends)
		state_pinned_ends(address);
	if (!(ends ? pool_park(address, context, false) : pool_park_listed(address, context))) {
		if (ends)
			state_pinned_begins(address, bytes);
		return false;
	}
	COUNT(parked, 1);
	COUNT(waits_avoided, 1);
	counts_pinned_bytes();
	return true;
}

bool short_host_free(uint32_t function, void *address)
{
	struct pool_block *block = pool_find_unlocked((uintptr_t)address);
	uint64_t context, size = 0, bytes = 0;
	bool done;

	if (!block)
		return false;
	context = state_current_context();
	if (!context)
		return false;
	if (is_listened_to()) {
		size = __atomic_load_n(&block->size, __ATOMIC_RELAXED);
		bytes = __atomic_load_n(&block->requested, __ATOMIC_RELAXED);
	}
	/* Before the block can be anybody's: what was submitted until now is what may use it. */
	switch (state_at_a_glance()) {
	case STATE_IDLE:
		done = pool_magazine_keep(short_magazine, block, (uintptr_t)address, context);
		break;
	case STATE_WORKS:
		done = park(block, (uintptr_t)address, context);
		break;
	default:
		return false;
	}
	if (__builtin_expect(size != 0, 0) && done)
		tell(function, false, (uintptr_t)address, size, bytes);
	return done;
}

/* What must_really_free() and free_objection() look at on the long way; NULL: the block may be somebody else's by now, or is none of these. */
static struct pool_block *plain_device_block(CUdeviceptr address, uint64_t context)
{
	struct pool_block *block = pool_find_unlocked(address);

	if (!block || __atomic_load_n(&block->tag, __ATOMIC_RELAXED) != (address | POOL_LIVE) ||
	    pool_kind(__atomic_load_n(&block->flags, __ATOMIC_RELAXED)) != POOL_DEVICE ||
	    __atomic_load_n(&block->special, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&block->context, __ATOMIC_RELAXED) != context)
		return NULL;
	return block;
}

bool short_device_free(uint32_t function, CUdeviceptr address)
{
	uint64_t context = state_current_context(), size, requested, bytes;
	struct pool_block *block = context ? plain_device_block(address, context) : NULL;
	enum state_glance seen;

	if (!block)
		return false;
	/* Before the block can be anybody's, as above. */
	seen = state_at_a_glance();
	size = __atomic_load_n(&block->size, __ATOMIC_RELAXED);
	requested = __atomic_load_n(&block->requested, __ATOMIC_RELAXED);
	/* Where memory is tight, what waits for nothing goes to the driver. */
	if (seen == STATE_UNCLEAR || (seen == STATE_IDLE && held_is_tight(0)))
		return false;
	/* Out before it is parked: from then on others may take it, and say that it is theirs. */
	bytes = state_device_ends(address);
	if (!bytes)
		return false;
	held_more(context, size);
	if (!pool_park_device(address, context, seen == STATE_IDLE)) {
		held_less(context, size);
		state_device_begins(address, bytes);
		return false;
	}
	COUNT_FREES(parked, 1);
	if (seen == STATE_WORKS)
		COUNT_FREES(waits_avoided, 1);
	counts_device_bytes();
	if (is_listened_to())
		tell_device(function, address, size, requested);
	return true;
}

/* Under LOCK_POOL. */
static struct record_rewrite *new_record(void)
{
	struct record_rewrite *record = emit_reserve(RECORD_SIZE);

	if (!record)
		return NULL;
	record->name = events_name(CONFIG_FIX_PINNED);
	emit_publish(record, RECORD_REWRITE);
	return record;
}

bool short_is_allowed(void)
{
	/* strict-free waits like the driver; a deny list wants each call's stack; a full trace each call. */
	return !(config.relax & CONFIG_STRICT_FREE || config.deny || emit_traces_full());
}

void short_begin(void)
{
	if (short_magazine || !short_is_allowed())
		return;
	short_magazine = pool_magazine_begin(new_record);
}

void short_fill(uint64_t context, uint32_t flags, uint64_t bytes)
{
	if (short_magazine)
		pool_magazine_fill(short_magazine, context, flags, bytes);
}

bool short_keep(const struct pool_block *given)
{
	struct pool_block *block;

	if (!short_magazine)
		return false;
	pool_magazine_prepare(short_magazine, given->context, given->flags, given->size);
	block = pool_find_unlocked(given->address);
	if (!block)
		return false;
	__atomic_store_n(&block->listed, 0, __ATOMIC_RELAXED);
	return pool_magazine_keep(short_magazine, block, given->address, given->context);
}

void short_thread_exit(void)
{
	struct pool_magazine *magazine = short_magazine;

	short_magazine = NULL;
	if (magazine)
		pool_magazine_end(magazine);
}
