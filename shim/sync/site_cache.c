// SPDX-License-Identifier: MIT
/*
 * Sites of stacks seen before (site_cache.h). Called by site.c.
 */
#include "sync/site_cache.h"

#include <stdbool.h>
#include <stddef.h>

static uint64_t set_of(const struct site_key *key)
{
	uint64_t hash = (key->return_address ^ key->frame << 20) * UINT64_C(0x9e3779b97f4a7c15);

	return hash >> 32 & (SITE_CACHE_SETS - 1);
}

/* A word of the stack, not as an object of the program: no sanitizer's business. */
static inline uint64_t word_at(uint64_t address)
{
	uint64_t value;

	__asm__ volatile("mov (%1), %0" : "=r"(value) : "r"(address));
	return value;
}

#define LOAD(field)         __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define STORE(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELEASE)

/* Paired with the stores of site_cache_add(). */
static bool is_same(const struct site_cache_entry *entry, const struct site_key *key)
{
	return LOAD(entry->key.frame) == key->frame &&
	       LOAD(entry->key.return_address) == key->return_address &&
	       LOAD(entry->key.generation) == key->generation &&
	       LOAD(entry->key.depth) == key->depth && LOAD(entry->key.in_python) == key->in_python;
}

static const struct record_site *find_in(const struct site_cache_entry *entry,
					 const struct site_key *key)
{
	uint32_t version = LOAD(entry->version), count, i;
	uint64_t value, step, from = key->frame - 8;
	const struct record_site *record;

	if (!version || version & 1 || !is_same(entry, key))
		return NULL;
	count = LOAD(entry->count);
	record = LOAD(entry->record);
	for (i = 0; i < count; i++) {
		step = LOAD(entry->steps[i]);
		value = LOAD(entry->values[i]);
		/* Another stack's words must not be looked for in this one. */
		if (__atomic_load_n(&entry->version, __ATOMIC_RELAXED) != version ||
		    word_at(from + 8 * step) != value)
			return NULL;
	}
	return __atomic_load_n(&entry->version, __ATOMIC_RELAXED) == version ? record : NULL;
}

const struct record_site *site_cache_find(struct site_cache *cache, const struct site_key *key)
{
	uint64_t set = set_of(key);
	uint32_t first = __atomic_load_n(&cache->last[set], __ATOMIC_RELAXED), way, tried;
	const struct record_site *record;

	for (tried = 0; tried < SITE_CACHE_WAYS; tried++) {
		way = (first + tried) & (SITE_CACHE_WAYS - 1);
		record = find_in(&cache->entries[set][way], key);
		if (!record)
			continue;
		if (tried)
			__atomic_store_n(&cache->last[set], (uint8_t)way, __ATOMIC_RELAXED);
		return record;
	}
	return NULL;
}

void site_cache_add(struct site_cache *cache, const struct site_key *key,
		    const struct unwind_trace *trace, const struct record_site *record)
{
	struct site_cache_entry *entry =
		&cache->entries[set_of(key)][cache->victim++ & (SITE_CACHE_WAYS - 1)];
	uint32_t version = entry->version | 1, i;

	if (!record || !trace->complete)
		return;
	/* Ordered before the values by their release, after the last ones by its own. */
	STORE(entry->version, version);
	STORE(entry->record, record);
	STORE(entry->count, trace->count);
	STORE(entry->key.return_address, key->return_address);
	STORE(entry->key.frame, key->frame);
	STORE(entry->key.generation, key->generation);
	STORE(entry->key.depth, key->depth);
	STORE(entry->key.in_python, key->in_python);
	for (i = 0; i < trace->count; i++) {
		STORE(entry->steps[i], (uint32_t)((trace->words[i].address - key->frame + 8) / 8));
		STORE(entry->values[i], trace->words[i].value);
	}
	STORE(entry->version, version + 1);
}
