// SPDX-License-Identifier: MIT
/*
 * Arena: memory of the shim's own, straight from mmap, for tables that live as long as the process.
 *
 * Callers may sit inside the program's malloc or a signal handler, so the heap is out of reach.
 * Nothing is given back one by one: what is taken once is recycled by its owner. Every arena has a
 * bound, so that no program can make the shim grow without end.
 *
 * Not locked: each arena belongs to the owner of one lock, which is held around arena_take().
 */
#ifndef SLIPSTREAM_EMIT_ARENA_H
#define SLIPSTREAM_EMIT_ARENA_H

#include <stddef.h>

struct arena_chunk;

struct arena {
	size_t bound;               /* bytes it may map at most */
	size_t mapped;              /* bytes mapped by now */
	size_t used;                /* bytes used in the newest chunk */
	struct arena_chunk *newest; /* chunks, newest first */
};

/* Zeroed, 64-byte aligned memory; NULL: bound or system limit reached. Leaves errno alone. */
void *arena_take(struct arena *arena, size_t size);

/* Unmaps everything. Only for a forked child and tests: readers must be gone. */
void arena_done(struct arena *arena);

#endif
