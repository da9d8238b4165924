// SPDX-License-Identifier: MIT
/*
 * Table: insertion and growth of the lock-free-read hash table (table.h). Called by emit and state
 * under their locks.
 */
#include "emit/table.h"

#define TABLE_FIRST 256

static void put(struct table_slots *slots, uint64_t hash, void *value)
{
	size_t index = hash;

	while (slots->slot[index & slots->mask].value)
		index++;
	__atomic_store_n(&slots->slot[index & slots->mask].hash, hash, __ATOMIC_RELAXED);
	/* Pairs with the acquire load in table_next(). */
	__atomic_store_n(&slots->slot[index & slots->mask].value, value, __ATOMIC_RELEASE);
}

bool table_insert(struct table *table, struct arena *arena, uint64_t hash, void *value)
{
	struct table_slots *slots = table->slots;
	struct table_slots *larger;
	size_t count, i;

	if (table->used >= table->bound)
		return false;
	/* At most half full: probes stay short and always meet a free slot. */
	if (!slots || table->used >= (slots->mask + 1) / 2) {
		count = slots ? (slots->mask + 1) * 2 : TABLE_FIRST;
		larger = arena_take(arena, sizeof(*larger) + count * sizeof(larger->slot[0]));
		if (!larger)
			return false;
		larger->mask = count - 1;
		for (i = 0; slots && i <= slots->mask; i++)
			if (slots->slot[i].value)
				put(larger, slots->slot[i].hash, slots->slot[i].value);
		/* Pairs with the acquire load in table_next(). */
		__atomic_store_n(&table->slots, larger, __ATOMIC_RELEASE);
		slots = larger;
	}
	put(slots, hash, value);
	table->used++;
	return true;
}

void table_clear(struct table *table)
{
	__atomic_store_n(&table->slots, NULL, __ATOMIC_RELEASE);
	table->used = 0;
}
