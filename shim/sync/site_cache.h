// SPDX-License-Identifier: MIT
/*
 * Native stacks seen before, known again without unwinding and without a lock.
 *
 * Not by a guess: an entry holds the words of the stack that the unwinder went by, and is good if
 * each is as it was (struct unwind_trace). Where the next word lies follows from those before, so a
 * stack that differs is told by the first word that does.
 *
 * Why the words can be read as they are. They are looked at in the unwinder's order, each only
 * after all before it held: then it is where the unwinder would read now, above the wrapper's frame
 * in the stack that this thread runs on, wherever that stack came from (coroutines too). Call frame
 * information that lies can lead out of the stack; such a word was readable when noted, lies within
 * UNWIND_TRACE_MAX above the frame, and only if the stack was replaced since by a lower one with
 * the same words below could it be gone.
 */
#ifndef SLIPSTREAM_SYNC_SITE_CACHE_H
#define SLIPSTREAM_SYNC_SITE_CACHE_H

#include <stdint.h>

#include "sync/unwind.h"

struct record_site;

#define SITE_CACHE_SETS 256 /* a power of two */
#define SITE_CACHE_WAYS 4   /* stacks that differ above the same frame */

/* What else a site depends on. */
struct site_key {
	uint64_t return_address, frame; /* as given to site_take() */
	uint64_t generation;            /* module_generation() */
	uint32_t depth;                 /* frames wanted */
	uint32_t in_python;             /* frames are kept as far as the interpreter only */
	/* The return address is the instruction that a signal interrupted. Of such stacks none is kept. */
	uint64_t is_interrupted;
};

/*
 * Written under the tables' lock, read by any thread without: `version` is odd while it is written
 * and another afterwards. Values are stored with release and loaded with acquire, so that who sees
 * a new one sees the odd version too.
 */
struct site_cache_entry {
	uint32_t version; /* 0 empty */
	uint32_t count;
	uint32_t steps[UNWIND_WORDS_MAX]; /* from below the frame, in words */
	struct site_key key;
	const struct record_site *record;
	uint64_t values[UNWIND_WORDS_MAX];
};

/* Zero is empty. Owned by site.c. */
struct site_cache {
	uint32_t victim; /* next way to give up, of all sets */
	uint8_t last
		[SITE_CACHE_SETS]; /* way that was found last; any thread, without order: a hint where to look first */
	struct site_cache_entry entries[SITE_CACHE_SETS][SITE_CACHE_WAYS];
};

/* A site with the native frames of the calling thread's stack, NULL: not known. */
const struct record_site *site_cache_find(struct site_cache *cache, const struct site_key *key);

/* Under the lock. A trace that is not complete is left out. The record stays where it is. */
void site_cache_add(struct site_cache *cache, const struct site_key *key,
		    const struct unwind_trace *trace, const struct record_site *record);

#endif
