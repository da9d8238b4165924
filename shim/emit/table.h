// SPDX-License-Identifier: MIT
/*
 * Table: hash to pointer, read without a lock, written under one. Entries are never moved or
 * removed while readers live; a table doubles by publishing a copy, and the old one stays in the
 * arena (all old ones together are smaller than the newest).
 *
 * slots		written by the inserter under its lock, read by anyone; release store in
 *			table_insert(), acquire load in table_find()
 * slot.value		same pair; NULL: free, ends a probe
 * slot.hash		written before slot.value, so whoever sees the value sees the hash
 *
 * An owner that lets values go (streams, events) gives `current`: slots of values that no longer
 * have the slot's hash are taken again, and left out of the copy. Such values must never be
 * unmapped, and a reader must compare the value's own key: a slot may change under it. Where the
 * copy need not be larger, two blocks of memory take turns, so that handles that come and go for
 * ever use no more memory; a reader that sleeps through a whole turn misses, and looks again under
 * the lock.
 */
#ifndef SLIPSTREAM_EMIT_TABLE_H
#define SLIPSTREAM_EMIT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emit/arena.h"

struct table_slot {
	uint64_t hash;
	void *value;
};

struct table_slots {
	size_t mask; /* slots less one; a power of two of them */
	struct table_slot slot[];
};

struct table {
	struct table_slots *slots;
	struct table_slots *spare; /* as large as `slots`, or NULL; under the owner's lock */
	size_t used;               /* slots taken; under the owner's lock */
	size_t bound;              /* slots taken at most */
	/* Does the value still live under this hash? NULL: values are for ever. */
	bool (*current)(const void *value, uint64_t hash);
};

static inline uint64_t table_mix(uint64_t value)
{
	value *= UINT64_C(0x9e3779b97f4a7c15);
	return value ^ (value >> 32);
}

/*
 * Goes through the values of a hash: `*index` is the state, start it with the hash. NULL: no more.
 */
static inline void *table_next(const struct table *table, uint64_t hash, uint64_t *index)
{
	const struct table_slots *slots = __atomic_load_n(&table->slots, __ATOMIC_ACQUIRE);
	const struct table_slot *slot;
	void *value;

	if (!slots)
		return NULL;
	for (;;) {
		slot = &slots->slot[(*index)++ & slots->mask];
		value = __atomic_load_n(&slot->value, __ATOMIC_ACQUIRE);
		if (!value)
			return NULL;
		if (__atomic_load_n(&slot->hash, __ATOMIC_RELAXED) == hash)
			return value;
	}
}

/* What is at the place-th slot, NULL: nothing. False: there is no such slot. For walks; inserts meanwhile may be missed. */
static inline bool table_at(const struct table *table, size_t place, void **ret_value)
{
	const struct table_slots *slots = __atomic_load_n(&table->slots, __ATOMIC_ACQUIRE);

	if (!slots || place > slots->mask)
		return false;
	*ret_value = __atomic_load_n(&slots->slot[place].value, __ATOMIC_ACQUIRE);
	return true;
}

/* Under the owner's lock. False: bound or memory reached. */
bool table_insert(struct table *table, struct arena *arena, uint64_t hash, void *value);

/* Forgets everything; the memory is the arena's. */
void table_clear(struct table *table);

#endif
