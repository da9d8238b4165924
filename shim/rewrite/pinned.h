// SPDX-License-Identifier: MIT
/*
 * Pinned, internal: what the short way and the long way of pinned memory share. Any thread, in the rooms, no lock held.
 */
#ifndef SLIPSTREAM_REWRITE_PINNED_H
#define SLIPSTREAM_REWRITE_PINNED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cuda.h>

#include "config.h"
#include "pool/pool.h"
#include "rewrite/rewrite.h"

/* Not write-combined memory: its device address is another one, under which a block would not be found. */
#define PINNED_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | REWRITE_ALLOC_HOST)

/* node.c: the node of memory that this thread's new pinned memory lies on, as bits of a key. Cheap: asked anew once in a while. */
extern bool node_many; /* written by node_start(), before any rewrite */
void node_start(void);
uint32_t node_ask(void);

static inline uint32_t pinned_node(void)
{
	return __builtin_expect(node_many, 0) ? node_ask() << POOL_NODE_SHIFT : 0;
}

/* Contexts ended: what the pool has of them is gone, of every kind. */
void pinned_drop(bool (*lives)(uint64_t context));

/* As held_give_all_back(), of pinned memory. */
uint32_t pinned_give_all_back(uint64_t context);
/* As held_give_some_back(). */
uint32_t pinned_give_some_back(uint64_t context, uint64_t keep);

/* The block that this address lies in is about to get attributes of its own: its free goes the long way. 0, UINT64_MAX: none. */
void pinned_special(uint64_t address);

/* SLIPSTREAM_ZERO: what its last user left in a recycled block is gone. */
static inline void pinned_clear(uint64_t address, uint64_t bytes)
{
	if (__builtin_expect(config.zero == CONFIG_ZERO_FULL, 0))
		memset((void *)(uintptr_t)address, 0, bytes);
}

#endif
