// SPDX-License-Identifier: MIT
/*
 * Magazine: ready blocks of pinned memory that one thread keeps for itself, so that a pair of allocation and free costs no shared cache line.
 * Called by the short way of the rewrites (rewrite/short.c) and by the pool.
 *
 * A magazine has a slot for each key that its thread uses; two keys of one slot drive each other out. Its word is taken by its thread for
 * each block, with one exchange that nobody else contends for, and by whoever needs all blocks at once: out of memory, a limit, a context
 * that ends, an allocation that found nothing elsewhere. So nothing that a thread keeps is out of reach, and the owner never waits for
 * more than such a look. Who holds the word takes no lock; under LOCK_POOL it may be taken.
 *
 * Room. A magazine may hold as many bytes as it has reserved of the limit, under LOCK_POOL; what it does not use it gives up when
 * others need it.
 *
 * Figures of the owner's hits and frees go into its record (record_rewrite), one a magazine: nobody else writes there without the word.
 *
 * A magazine's thread: its own only, in the rooms, where a signal handler's calls go past. At its exit the magazine goes to the next one.
 */
#ifndef SLIPSTREAM_POOL_MAGAZINE_H
#define SLIPSTREAM_POOL_MAGAZINE_H

#include <stdbool.h>
#include <stdint.h>

#include "emit/record.h"
#include "pool/pool.h"

struct pool_magazine;

/* A magazine that is nobody's, or a new one with a new record (make_record() under LOCK_POOL; NULL: its figures are lost). NULL: no memory. */
struct pool_magazine *pool_magazine_begin(struct record_rewrite *(*make_record)(void));
/* The thread ends: its blocks go into the depots. Nothing is freed. */
void pool_magazine_end(struct pool_magazine *magazine);

/*
 * The short way: no lock. A block of the key, live from now on; NULL: none at hand, or somebody else is looking at the magazine. The caller
 * sees to what state knows of it (`listed`).
 */
struct pool_block *pool_magazine_take(struct pool_magazine *magazine, uint64_t context,
				      uint32_t flags, uint64_t bytes);
/* Whatever block begins at the address, without the lock; NULL: none was found. Its fields may be another's at any moment. */
struct pool_block *pool_find_unlocked(uint64_t address);
/* Keeps a live block of the context that nobody can be using. False: no slot or room, or not live any more: nothing has happened. */
bool pool_magazine_keep(struct pool_magazine *magazine, struct pool_block *block, uint64_t address,
			uint64_t context);

/* The long way: makes room for another block of this size and key, if it can. Its slot is freed of other keys and half of what fills it. */
void pool_magazine_prepare(struct pool_magazine *magazine, uint64_t context, uint32_t flags,
			   uint64_t size);
/* A few more ready blocks of the key out of the depot. */
void pool_magazine_fill(struct pool_magazine *magazine, uint64_t context, uint32_t flags,
			uint64_t bytes);
/* A block of the key that any thread keeps goes into the depot, for pool_take(). */
bool pool_collect(uint64_t context, uint32_t flags, uint64_t bytes);

/* Which slot a key has; of a class size. */
uint32_t magazine_slot(uint64_t size, uint32_t flags);

#endif
