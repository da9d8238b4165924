// SPDX-License-Identifier: MIT
/*
 * Known (known.h). Called by the generated wrappers and by staging_memory.c.
 */
#include "rewrite/known.h"

#include <stddef.h>

#define SETS 16
#define WAYS 2

/* A set is one cache line. */
static __thread struct {
	struct {
		struct known_ends ends;
		uint64_t generation; /* 0: empty */
	} way[WAYS];
} sets[SETS] __attribute__((aligned(64), tls_model("initial-exec")));

/* A line of its own: every small copy reads it, and hardly anybody writes. */
static struct {
	uint64_t number;
} __attribute__((aligned(64))) generation;

void known_changed(void)
{
	uint64_t seen;

	/* Pairs with known_asking(): either who asks is seen here, or the driver has done this call's work when it is asked. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	seen = __atomic_load_n(&generation.number, __ATOMIC_RELAXED);
	/* Another one was faster: behind this call's work, too. */
	if (seen & 1)
		__atomic_compare_exchange_n(&generation.number, &seen, seen + 1, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

uint64_t known_asking(void)
{
	return __atomic_or_fetch(&generation.number, 1, __ATOMIC_SEQ_CST);
}

static size_t set_of(const struct known_ends *ends)
{
	return (ends->first >> 6 ^ ends->first >> 12 ^ ends->first >> 16 ^ ends->last >> 20) % SETS;
}

static bool is_same(const struct known_ends *one, const struct known_ends *other)
{
	return one->first == other->first && one->last == other->last &&
	       one->context == other->context;
}

bool known_is_pageable(const struct known_ends *ends)
{
	uint64_t now = __atomic_load_n(&generation.number, __ATOMIC_RELAXED);
	size_t set = set_of(ends), i;

	for (i = 0; i < WAYS; i++)
		if (sets[set].way[i].generation == now && is_same(&sets[set].way[i].ends, ends))
			return now & 1;
	return false;
}

void known_pageable(const struct known_ends *ends, uint64_t asked)
{
	size_t set = set_of(ends), i;

	/* The last one where none is free. */
	for (i = 0; i < WAYS - 1 && sets[set].way[i].generation == asked; i++)
		;
	sets[set].way[i].ends = *ends;
	sets[set].way[i].generation = asked;
}
