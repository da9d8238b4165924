// SPDX-License-Identifier: MIT
/*
 * Give back: held blocks that leave the pool (pool.h). Called by the rewrites, which free them by the driver where it still has them. What
 * threads hold in their magazines goes into the depots first, so nothing that is held is out of reach.
 */
#include <limits.h>

#include "pool/internal.h"

/* Which held blocks are moved out: those of a kind and context; or where `lives` is given, of contexts that do not live. */
struct which {
	enum pool_kind kind;
	uint64_t context;
	bool (*lives)(uint64_t context);
	uint64_t keep;
	unsigned int most; /* so many more */
};

static bool stays(const struct which *which, const struct pool_block *block)
{
	if (which->lives)
		return which->lives(block->context);
	return block->context != which->context || pool_kind(block->flags) != which->kind;
}

static void move_one(struct pool_block **link, struct pool_block **to)
{
	struct pool_block *block = *link;

	*link = block->next;
	pool_unlink(block);
	pool_held_less(block, POOL_NOT_OURS);
	block->next = *to;
	*to = block;
}

/* Moves blocks of a list to *to. */
static void move(struct pool_block **link, struct which *which, struct pool_block **to)
{
	struct pool_block *block;

	while ((block = *link)) {
		if (!which->lives && (pool_sums[which->kind].held <= which->keep || !which->most))
			return;
		if (stays(which, block)) {
			link = &block->next;
			continue;
		}
		move_one(link, to);
		which->most--;
	}
}

static void move_all(struct which *which, bool parked, struct pool_block **to)
{
	struct pool_depot *depot;
	unsigned int i;

	for (i = 0; i < POOL_DEPOTS; i++)
		for (depot = pool_depots[i]; depot; depot = depot->chain)
			move(&depot->ready, which, to);
	for (i = POOL_BATCHES; parked && i-- > 0;)
		move(&pool_batches[i], which, to);
}

static struct pool_block *take_out(enum pool_kind kind, uint64_t context, uint64_t keep,
				   bool parked, unsigned int most)
{
	struct which which = {.kind = kind, .context = context, .keep = keep, .most = most};
	struct pool_block *list = NULL;

	if (!lock_take(&pool_lock))
		return NULL;
	if (kind == POOL_PINNED)
		magazine_flush_all();
	move_all(&which, parked, &list);
	lock_give(&pool_lock);
	return list;
}

struct pool_block *pool_give_back(enum pool_kind kind, uint64_t context, uint64_t keep, bool parked)
{
	return take_out(kind, context, keep, parked, UINT_MAX);
}

struct pool_block *pool_give_some_back(enum pool_kind kind, uint64_t context, uint64_t keep,
				       unsigned int most)
{
	return take_out(kind, context, keep, true, most);
}

struct pool_block *pool_drop(bool (*lives)(uint64_t context))
{
	struct which which = {.lives = lives, .most = UINT_MAX};
	struct pool_block *block, *list = NULL, **link;
	unsigned int i;

	if (!lock_take(&pool_lock))
		return NULL;
	magazine_flush_all();
	move_all(&which, true, &list);
	for (i = 0; i < POOL_TABLE_SIZE; i++) {
		for (link = &pool_table[i]; (block = *link);) {
			/* Freed at this very moment: it stays in its magazine, and nobody can ask for it. */
			if (lives(block->context) || !pool_turn(block, POOL_LIVE, POOL_NOT_OURS)) {
				link = &block->chain;
				continue;
			}
			POOL_ADD(pool_kind(block->flags), live, -block->size);
			pool_unlink(block);
			block->next = list;
			list = block;
		}
	}
	lock_give(&pool_lock);
	return list;
}

/* The ready block of the kind and context that was not used for longest, and for more than `rounds`. NULL: none. */
static struct pool_block **oldest(enum pool_kind kind, uint64_t context, uint32_t rounds)
{
	struct pool_block **found = NULL, **link;
	struct pool_depot *depot;
	unsigned int i;

	for (i = 0; i < POOL_DEPOTS; i++) {
		for (depot = pool_depots[i]; depot; depot = depot->chain) {
			if (depot->context != context || pool_kind(depot->flags) != kind)
				continue;
			for (link = &depot->ready; *link; link = &(*link)->next) {
				if (pool_round - (*link)->round <= rounds)
					continue;
				rounds = pool_round - (*link)->round;
				found = link;
			}
		}
	}
	return found;
}

struct pool_block *pool_old(enum pool_kind kind, uint64_t context, uint32_t rounds,
			    unsigned int most)
{
	struct pool_block *list = NULL, **link;

	if (!lock_take(&pool_lock))
		return NULL;
	pool_round++;
	magazine_flush_unused();
	while (most-- && (link = oldest(kind, context, rounds)))
		move_one(link, &list);
	lock_give(&pool_lock);
	return list;
}
