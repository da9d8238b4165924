/* SPDX-License-Identifier: MIT */
/*
 * Contexts: those that device memory or arrays of the pool were made in, by their ids, with their handles. A primary context can end without our
 * seeing it, and its handle comes back for the next one: the handle is asked for its id where that matters. Called by the rewrites of
 * pinned and of device memory; frees_held.c keeps in the table what is held of each.
 *
 * Any thread, no lock held.
 */
#ifndef SLIPSTREAM_REWRITE_CONTEXTS_H
#define SLIPSTREAM_REWRITE_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

#define CONTEXTS_MAX 64

/*
 * A slot belongs to one context: `id` is claimed by a compare and swap from 0, then `device` and `handle` are stored, the latter last
 * (release); who reads a handle (acquire) sees the rest. `bytes` is only ever added to and taken from, by anyone. contexts_drop() gives
 * the slot back when its context ends, in a call that the program must not overlap with others in that context.
 */
struct context_slot {
	uint64_t id;     /* 0: not in use */
	uint64_t handle; /* 0: not to be read yet */
	uint64_t bytes;  /* held of its device memory and arrays (frees_held.c) */
	int device;
	uint32_t gone; /* found so; for good */
};

extern struct context_slot contexts_table[CONTEXTS_MAX];

/* NULL: it has none. */
struct context_slot *contexts_find(uint64_t id);
/* The same, of the current context, which gets one; NULL: the table is full. */
struct context_slot *contexts_find_or_claim(uint64_t id);

/* On how many devices have contexts had a slot? At least one. */
unsigned int contexts_devices(void);

/* Is the context still the one that had the id? Between state_contexts_begin() and state_asking_end() only: then none ends meanwhile. */
enum context_place { CONTEXT_THERE, CONTEXT_GONE, CONTEXT_UNKNOWN };
enum context_place contexts_place(const struct context_slot *slot);

/* Forgets what is held of contexts that ended without our seeing it; false: there are none. Their addresses and handles are others' now. */
bool contexts_sweep(void);

/* Calls `give` with the slot's context, which is not the current one, made current meanwhile; its answer. 0: it is not there any more. */
uint32_t contexts_visit(const struct context_slot *slot, uint32_t (*give)(uint64_t context));
/* A context is about to end, which state knows: until no thread is in a context that is not its own. */
void contexts_wait_for_visitors(void);

/*
 * This context is about to end, by the calling thread, which state knows: calls `give` with it made current, if it is in the table and the driver says that it
 * is there. Never another thread's: that may be gone at any moment, and its addresses be others'.
 */
void contexts_visit_ending(uint64_t context, void (*give)(uint64_t context));

/* Contexts ended: their slots, and what was held of them, are gone. */
void contexts_drop(bool (*lives)(uint64_t context));

#endif
