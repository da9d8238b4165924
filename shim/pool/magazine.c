// SPDX-License-Identifier: MIT
/*
 * Magazine (magazine.h). Who writes, who reads:
 *	list, owned, reserved	under LOCK_POOL
 *	slots, held, record	who holds the word
 */
#include "pool/magazine.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "pool/internal.h"
#include "uncancelled.h"

#define SLOTS 64 /* a power of two */
/* Blocks in a slot: so that it is two cache lines. */
#define DEPTH 12
/* Larger blocks: fewer, since other threads find them only once they have nothing else. */
#define LARGE       ((uint64_t)1 << 20)
#define LARGE_DEPTH 4
#define HUGE        ((uint64_t)16 << 20)
#define HUGE_DEPTH  2
/* Times that a word is asked for before its owner is given time. */
#define YIELDS 64
/* Descriptors of one bucket that a thread looks at without the lock. */
#define WALK 8
/* Above the pool's own buffer ids (pool.c) each magazine has a part of its own. */
#define BUFFER_ID_SHIFT 40

struct slot {
	uint64_t context, size;
	uint32_t flags;
	uint16_t count;
	uint16_t used; /* since the last look at what is not */
	struct pool_block *block[DEPTH];
};

struct pool_magazine {
	uint32_t word; /* not 0: somebody is at it */
	uint32_t owned;
	uint64_t held, reserved; /* bytes */
	uint64_t buffer_ids;
	struct record_rewrite *record;
	struct pool_magazine *next; /* all ever made */
	struct slot slots[SLOTS] __attribute__((aligned(64)));
	struct record_rewrite nowhere;
};

static struct pool_magazine *magazines;
static uint64_t magazine_count;

static bool try_word(struct pool_magazine *magazine)
{
	/* Acquire: pairs with the release in give_word(); who has the word sees all that was done with it. */
	return !__atomic_exchange_n(&magazine->word, 1, __ATOMIC_ACQUIRE);
}

static void give_word(struct pool_magazine *magazine)
{
	__atomic_store_n(&magazine->word, 0, __ATOMIC_RELEASE);
}

/*
 * Its owner has it for a few instructions, unless it does not run. Yielding alone would keep an owner of lower priority from running for ever
 * where the caller has a real-time one.
 */
static void take_word(struct pool_magazine *magazine)
{
	unsigned int tries = 0;
	int saved = errno;

	while (!try_word(magazine)) {
		if (++tries % YIELDS)
			sched_yield();
		else
			uncancelled_nap(50000);
	}
	errno = saved;
}

static uint32_t depth_of(uint64_t size)
{
	if (size >= HUGE)
		return HUGE_DEPTH;
	return size >= LARGE ? LARGE_DEPTH : DEPTH;
}

/* With the word: one writer. */
#define TELL(magazine, field, number)                                                              \
	__atomic_store_n(&(magazine)->record->field, (magazine)->record->field + (number),         \
			 __ATOMIC_RELAXED)

/*
 * Classes follow each other, eight a doubling; each gets a slot of its own among 64 neighbours, and the ones that are a power of 256 larger
 * are put elsewhere.
 */
static inline uint32_t slot_of_class(uint32_t number, uint32_t flags)
{
	return (number + (number >> 6) * 29 + flags * 21 + (flags >> 31) * 37) & (SLOTS - 1);
}

/* As pool_size() rounds pinned memory, without a limit; *ret_class: its number. */
static inline uint64_t class_of(uint64_t bytes, uint32_t *ret_class)
{
	uint32_t shift = pool_class_shift(bytes);

	bytes = (bytes + (UINT64_C(1) << shift) - 1) >> shift;
	*ret_class = (shift - POOL_SMALL_SHIFT) * 8 + (uint32_t)bytes;
	return bytes << shift;
}

uint32_t magazine_slot(uint64_t size, uint32_t flags)
{
	uint32_t number;

	(void)class_of(size, &number);
	return slot_of_class(number, flags);
}

static inline bool is_of(const struct slot *slot, uint64_t context, uint32_t flags, uint64_t size)
{
	return slot->size == size && slot->context == context && slot->flags == flags;
}

struct pool_block *pool_magazine_take(struct pool_magazine *magazine, uint64_t context,
				      uint32_t flags, uint64_t bytes)
{
	struct pool_block *block = NULL;
	struct slot *slot;
	uint32_t number;
	uint64_t size;

	if (!bytes || bytes >> 48)
		return NULL;
	size = class_of(bytes, &number);
	slot = &magazine->slots[slot_of_class(number, flags)];
	if (!try_word(magazine))
		return NULL;
	if (slot->count && is_of(slot, context, flags, size)) {
		block = slot->block[--slot->count];
		slot->used = 1;
		magazine->held -= size;
		__atomic_store_n(&block->requested, bytes, __ATOMIC_RELAXED);
		__atomic_store_n(&block->buffer_id, ++magazine->buffer_ids, __ATOMIC_RELAXED);
		/* Nobody else may change a cached block's state. */
		pool_set_state(block, POOL_LIVE);
		TELL(magazine, hits, 1);
		TELL(magazine, held_bytes, -size);
		TELL(magazine, live_bytes, size);
	}
	give_word(magazine);
	return block;
}

struct pool_block *pool_find_unlocked(uint64_t address)
{
	/* Acquire, three times: pairs with link_address() and pool_unlink(), and for tags with pool_set_state(). */
	struct pool_block *block = __atomic_load_n(pool_bucket(address), __ATOMIC_ACQUIRE);
	unsigned int i;

	for (i = 0; block && i < WALK; i++) {
		if ((__atomic_load_n(&block->tag, __ATOMIC_ACQUIRE) & ~POOL_TAG_STATE) == address)
			return block;
		block = __atomic_load_n(&block->chain, __ATOMIC_ACQUIRE);
	}
	return NULL;
}

/* Has the slot place for one more of the block's key? As far as the block's fields are its own. */
static bool has_place(struct slot *slot, const struct pool_block *block, uint64_t context)
{
	uint64_t size = __atomic_load_n(&block->size, __ATOMIC_RELAXED);
	uint32_t flags = __atomic_load_n(&block->flags, __ATOMIC_RELAXED);

	if (__atomic_load_n(&block->context, __ATOMIC_RELAXED) != context ||
	    pool_kind(flags) != POOL_PINNED || __atomic_load_n(&block->special, __ATOMIC_RELAXED))
		return false;
	if (!slot->count) {
		slot->context = context;
		slot->size = size;
		slot->flags = flags;
		return true;
	}
	return slot->count < depth_of(size) && is_of(slot, context, flags, size);
}

bool pool_magazine_keep(struct pool_magazine *magazine, struct pool_block *block, uint64_t address,
			uint64_t context)
{
	uint64_t tag = address | POOL_LIVE;
	struct slot *slot =
		&magazine->slots[__atomic_load_n(&block->slot, __ATOMIC_RELAXED) & (SLOTS - 1)];
	bool kept = false;

	if (!try_word(magazine))
		return false;
	/* The exchange pairs as pool_turn()'s does. */
	if (has_place(slot, block, context) &&
	    magazine->held + slot->size <= __atomic_load_n(&magazine->reserved, __ATOMIC_RELAXED) &&
	    __atomic_compare_exchange_n(&block->tag, &tag, address | POOL_CACHED, false,
					__ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
		/* Its fields are its own from here on; were they before? Else the long way has a look. */
		if (slot == &magazine->slots[block->slot] && block->size == slot->size &&
		    block->flags == slot->flags && block->context == context && !block->special) {
			slot->block[slot->count++] = block;
			slot->used = 1;
			magazine->held += slot->size;
			TELL(magazine, parked, 1);
			TELL(magazine, held_bytes, slot->size);
			TELL(magazine, live_bytes, -slot->size);
			kept = true;
		} else {
			pool_set_state(block, POOL_LIVE);
		}
	}
	give_word(magazine);
	return kept;
}

/* ---- below: under LOCK_POOL ---- */

static void reserve(struct pool_magazine *magazine, uint64_t bytes)
{
	__atomic_store_n(&magazine->reserved, magazine->reserved + bytes, __ATOMIC_RELAXED);
	POOL_ADD(POOL_PINNED, reserved, bytes);
}

/* With the word. The block becomes one of its depot, and takes its room along. */
static void give_one(struct pool_magazine *magazine, struct slot *slot, uint32_t place)
{
	struct pool_block *block = slot->block[place];

	slot->count--;
	memmove(&slot->block[place], &slot->block[place + 1],
		(slot->count - place) * sizeof(slot->block[0]));
	magazine->held -= block->size;
	TELL(magazine, held_bytes, -block->size);
	reserve(magazine, -block->size);
	pool_held_add(POOL_PINNED, block->size, 1);
	pool_set_state(block, POOL_READY);
	pool_ready(block);
}

/* With the word. The oldest first. */
static void give_down_to(struct pool_magazine *magazine, struct slot *slot, uint32_t keep)
{
	while (slot->count > keep)
		give_one(magazine, slot, 0);
}

static void flush(struct pool_magazine *magazine)
{
	uint32_t i;

	take_word(magazine);
	for (i = 0; i < SLOTS; i++)
		give_down_to(magazine, &magazine->slots[i], 0);
	reserve(magazine, -magazine->reserved);
	give_word(magazine);
}

void magazine_flush_all(void)
{
	struct pool_magazine *magazine;

	for (magazine = magazines; magazine; magazine = magazine->next)
		flush(magazine);
}

void magazine_flush_unused(void)
{
	struct pool_magazine *magazine;
	struct slot *slot;
	uint32_t i;

	for (magazine = magazines; magazine; magazine = magazine->next) {
		take_word(magazine);
		for (i = 0; i < SLOTS; i++) {
			slot = &magazine->slots[i];
			if (!slot->used)
				give_down_to(magazine, slot, 0);
			slot->used = 0;
		}
		give_word(magazine);
	}
}

void magazine_trim_room(void)
{
	struct pool_magazine *magazine;

	for (magazine = magazines; magazine; magazine = magazine->next) {
		take_word(magazine);
		reserve(magazine, magazine->held - magazine->reserved);
		give_word(magazine);
	}
}

void magazine_give_up(struct pool_block *block)
{
	struct pool_magazine *magazine;
	struct slot *slot;
	uint32_t i;

	for (magazine = magazines; magazine; magazine = magazine->next) {
		take_word(magazine);
		slot = &magazine->slots[block->slot];
		for (i = slot->count; i-- > 0;)
			if (slot->block[i] == block)
				give_one(magazine, slot, i);
		give_word(magazine);
	}
}

/* A block of the key out of any magazine into its depot; false: none has one. */
static bool find_one(uint64_t context, uint32_t flags, uint64_t size)
{
	uint32_t number = magazine_slot(size, flags);
	struct pool_magazine *magazine;
	bool found = false;
	struct slot *slot;

	for (magazine = magazines; magazine && !found; magazine = magazine->next) {
		slot = &magazine->slots[number];
		take_word(magazine);
		found = slot->count && is_of(slot, context, flags, size);
		if (found)
			give_one(magazine, slot, 0);
		give_word(magazine);
	}
	return found;
}

bool pool_collect(uint64_t context, uint32_t flags, uint64_t bytes)
{
	uint64_t size = pool_size(pool_kind(flags), bytes);
	bool found;

	if (!size || !lock_take(&pool_lock))
		return false;
	found = find_one(context, flags, size);
	lock_give(&pool_lock);
	return found;
}

void pool_magazine_prepare(struct pool_magazine *magazine, uint64_t context, uint32_t flags,
			   uint64_t size)
{
	struct slot *slot = &magazine->slots[magazine_slot(size, flags)];
	uint32_t depth = depth_of(size);

	if (!lock_take(&pool_lock))
		return;
	take_word(magazine);
	if (slot->count && !is_of(slot, context, flags, size))
		give_down_to(magazine, slot, 0);
	else if (slot->count >= depth)
		give_down_to(magazine, slot, depth / 2);
	if (magazine->held + size > magazine->reserved && pool_has_room(POOL_PINNED, size)) {
		reserve(magazine, magazine->held + size - magazine->reserved);
		pool_peak(POOL_PINNED);
	}
	give_word(magazine);
	lock_give(&pool_lock);
}

void pool_magazine_fill(struct pool_magazine *magazine, uint64_t context, uint32_t flags,
			uint64_t bytes)
{
	uint64_t size = pool_size(POOL_PINNED, bytes);
	struct slot *slot = &magazine->slots[magazine_slot(size, flags)];
	struct pool_depot *depot;
	struct pool_block *block;

	if (!size || !lock_take(&pool_lock))
		return;
	depot = pool_find_depot(context, flags, size, false);
	take_word(magazine);
	if (slot->count && !is_of(slot, context, flags, size))
		depot = NULL;
	while (depot && (block = depot->ready) && slot->count < depth_of(size) / 2) {
		depot->ready = block->next;
		slot->context = context;
		slot->size = size;
		slot->flags = flags;
		slot->block[slot->count++] = block;
		slot->used = 1;
		/* Its room comes along. */
		pool_held_less(block, POOL_CACHED);
		magazine->held += size;
		TELL(magazine, held_bytes, size);
		reserve(magazine, size);
	}
	give_word(magazine);
	lock_give(&pool_lock);
}

struct pool_magazine *pool_magazine_begin(struct record_rewrite *(*make_record)(void))
{
	struct pool_magazine *magazine;

	if (!lock_take(&pool_lock))
		return NULL;
	for (magazine = magazines; magazine && magazine->owned; magazine = magazine->next)
		;
	if (!magazine) {
		magazine = arena_take(&pool_arena, sizeof(*magazine));
		if (magazine) {
			magazine->record = make_record();
			if (!magazine->record)
				magazine->record = &magazine->nowhere;
			magazine->buffer_ids = POOL_OWN_BUFFER_IDS | ++magazine_count
									     << BUFFER_ID_SHIFT;
			magazine->next = magazines;
			magazines = magazine;
		}
	}
	if (magazine)
		magazine->owned = 1;
	lock_give(&pool_lock);
	return magazine;
}

void pool_magazine_end(struct pool_magazine *magazine)
{
	if (!lock_take(&pool_lock))
		return;
	flush(magazine);
	magazine->owned = 0;
	lock_give(&pool_lock);
}
