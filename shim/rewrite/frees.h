/* SPDX-License-Identifier: MIT */
/*
 * Frees, internal: what the files of the rewrite `frees` need of each other. frees_held.c keeps, for each context, how many bytes of its
 * device memory the pool holds, and gives them back to the driver; frees_array.c keeps arrays that the program destroyed.
 *
 * Any thread, no lock held. The sums are kept beside the pool's own, a little later: they serve cuMemGetInfo and the choice of what
 * to give back, never a decision whether a block is free.
 */
#ifndef SLIPSTREAM_REWRITE_FREES_H
#define SLIPSTREAM_REWRITE_FREES_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "pool/pool.h"

struct call;

/* Sets the pool's limits by the current context's device, at the first call. NULL, or why nothing may be held (yet): a constant text. */
const char *held_start(void);

/*
 * Is more than half of the memory in use or held, of the devices that it holds memory of together, as far as calls told of it? Then a block whose free would wait
 * for nothing goes to the driver: held, it could be what an allocation of another size misses while a kernel runs, and then nothing can be given back. `more`:
 * bytes that are neither known as the program's nor held at this moment. Cheap.
 */
bool held_is_tight(uint64_t more);

/* The pool holds so many bytes more, or less, of the context; held_more(): which must be current. */
void held_more(uint64_t context, uint64_t bytes);
void held_less(uint64_t context, uint64_t bytes);

/* Bytes that the pool holds of all contexts of the current one's device; `current`: its id. */
uint64_t held_on_current_device(uint64_t current);

/* Is any array held? */
bool held_arrays(void);

/*
 * Frees what is held of this kind and context, which must be current, until at most `keep` bytes of the kind are held at all. Waits for the
 * device: only in calls that drain it anyway, or while it is idle. How many blocks were freed.
 */
uint32_t held_give_back(enum pool_kind kind, uint64_t context, uint64_t keep);
/* The same, as far as GIVE_BACK_NS goes. */
uint32_t held_give_some_back(enum pool_kind kind, uint64_t context, uint64_t keep);

/* Both kinds of device memory, all of it. */
uint32_t held_give_all_back(uint64_t context);
/*
 * Calls `give`, with the context current, for each context of the device (-1: of any) that has had blocks and is still there; the sum of
 * its answers. None of them ends meanwhile. `current`: the id of the current one, 0: none. Where nothing is proven any more (doubt) the current one alone.
 */
uint32_t held_give_back_everywhere(int device, uint64_t current,
				   uint32_t (*give)(uint64_t context));

/* frees.c: all of the context's work has just been waited for: where memory is tight what is held of its device memory goes, if nothing else is at work. */
void device_context_synchronized(const struct call *call);

/* frees_array.c: by the driver. */
CUresult array_destroy(const struct pool_block *block);
/* All of the context's work has just been waited for: what is held of its arrays goes, if nothing else is at work. Not for another context than the current. */
void array_context_synchronized(uint64_t context);

#endif
