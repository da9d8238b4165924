// SPDX-License-Identifier: MIT
/*
 * Internal: what the files of the pool room need of each other. All under LOCK_POOL unless said otherwise.
 *
 * Who changes a block's state, which is part of its tag:
 *	live		any free, with or without the lock: by compare and swap, so of two frees of one block one fails
 *	cached		who holds the magazine's word
 *	parked, ready	under LOCK_POOL
 * What a thread reads of a block without the lock is believed only once it has turned the state itself: a descriptor may be another block's
 * by then, which the address in the tag tells. So all that is read that way is atomic, and descriptors are never unmapped.
 */
#ifndef SLIPSTREAM_POOL_INTERNAL_H
#define SLIPSTREAM_POOL_INTERNAL_H

#include "emit/arena.h"
#include "emit/lock.h"
#include "emit/record.h"
#include "emit/table.h"
#include "pool/magazine.h"
#include "pool/pool.h"

#define POOL_TABLE_SIZE (1U << 14)
#define POOL_DEPOTS     (1U << 10)
/* Above what drivers give; a recycled block must not look like the buffer it was (FORMAT of the attribute: process-unique). */
#define POOL_OWN_BUFFER_IDS (UINT64_C(1) << 63)

/* Size classes. Up to POOL_SMALL_MAX bytes they are 1 << POOL_SMALL_SHIFT apart. */
#define POOL_SMALL_MAX   512
#define POOL_SMALL_SHIFT 6

/* How far apart classes are where `bytes` lies, as a power of two: above the small ones an eighth of the power of two below. */
static inline uint32_t pool_class_shift(uint64_t bytes)
{
	return bytes > POOL_SMALL_MAX ? 60 - (uint32_t)__builtin_clzll(bytes - 1)
				      : POOL_SMALL_SHIFT;
}

/* Blocks of one key that are held. */
struct pool_depot {
	uint64_t context, size;
	uint32_t flags;
	uint32_t parked; /* blocks of it in batches */
	struct pool_block *ready;
	struct pool_depot *chain;
};

extern struct lock pool_lock;
extern struct arena pool_arena;
extern struct pool_block *pool_table[POOL_TABLE_SIZE];
extern struct pool_depot *pool_depots[POOL_DEPOTS];
extern struct pool_block *pool_batches[POOL_BATCHES];
/* Written under the lock, read by anyone. `live` is without what magazines gave out and took back; `held` without what they hold. */
extern struct pool_bytes pool_sums[POOL_KINDS];
extern uint32_t pool_round; /* of pool_old() */

extern uint64_t pool_blocks[POOL_KINDS]; /* of `held` */
extern struct record_held *pool_shown;   /* for who looks at a process that hangs */

#define POOL_ADD(kind, figure, bytes)                                                              \
	__atomic_store_n(&pool_sums[kind].figure, pool_sums[kind].figure + (bytes),                \
			 __ATOMIC_RELAXED)

/* So many bytes and blocks are held more, or less. */
static inline void pool_held_add(enum pool_kind kind, uint64_t bytes, uint64_t blocks)
{
	POOL_ADD(kind, held, bytes);
	pool_blocks[kind] += blocks;
	__atomic_store_n(&pool_shown->kind[kind].bytes, pool_sums[kind].held, __ATOMIC_RELAXED);
	__atomic_store_n(&pool_shown->kind[kind].blocks, pool_blocks[kind], __ATOMIC_RELAXED);
}

static inline struct pool_block **pool_bucket(uint64_t address)
{
	return &pool_table[table_mix(address) % POOL_TABLE_SIZE];
}

static inline enum pool_state pool_state_of(const struct pool_block *block)
{
	/* Acquire: pairs with pool_set_state() and pool_turn(). */
	return (enum pool_state)(__atomic_load_n(&block->tag, __ATOMIC_ACQUIRE) & POOL_TAG_STATE);
}

/* By who alone may change it. Release: pairs with pool_state_of(), pool_turn() and pool_find_unlocked(): who sees the state sees the fields. */
static inline void pool_set_state(struct pool_block *block, enum pool_state state)
{
	__atomic_store_n(&block->tag, block->address | state, __ATOMIC_RELEASE);
}

static inline bool pool_turn(struct pool_block *block, enum pool_state from, enum pool_state to)
{
	uint64_t tag = block->address | from;

	/* Pairs with itself, pool_set_state() and pool_magazine_keep(): who turns it sees what was done by who turned it before. */
	return __atomic_compare_exchange_n(&block->tag, &tag, block->address | to, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Into its depot, whose sums the caller keeps. */
void pool_ready(struct pool_block *block);
/* Parked or ready, and in its list no more: the sums, and its state from now on. */
void pool_held_less(struct pool_block *block, enum pool_state next);
/* Out of the address table; in its list it stays. */
void pool_unlink(struct pool_block *block);
/* May so many more bytes be held? */
bool pool_has_room(enum pool_kind kind, uint64_t size);
void pool_peak(enum pool_kind kind);
/* NULL: none is made, or cannot be. */
struct pool_depot *pool_find_depot(uint64_t context, uint32_t flags, uint64_t size, bool make);

/* magazine.c */
/* All blocks of all magazines into their depots, with the room that they had. */
void magazine_flush_all(void);
/* The same of slots that were not used since the last time. */
void magazine_flush_unused(void);
/* Room that magazines have and do not use. */
void magazine_trim_room(void);
/* The block, which is in a magazine, into its depot; or it was given out at this moment. */
void magazine_give_up(struct pool_block *block);

#endif
