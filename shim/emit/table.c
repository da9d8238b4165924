// SPDX-License-Identifier: MIT
/*
 * Table: insertion and growth of the lock-free-read hash table (table.h). Called by emit and state
 * under their locks.
 */
#include "emit/table.h"

#define TABLE_FIRST 256

static bool is_current(const struct table *table, const struct table_slot *slot)
{
	return !table->current || table->current(slot->value, slot->hash);
}

/*
 * True if a free slot was used up, false if one of a value let go was taken, or the value stands there
 * already: an owner that lets a value go and takes it again under the same key (a handle that comes back,
 * into the entry that it had) finds its old slot alive.
 */
static bool put(const struct table *table, struct table_slots *slots, uint64_t hash, void *value)
{
	struct table_slot *slot, *stale = NULL;
	size_t index = hash;
	bool fresh;

	for (;;) {
		slot = &slots->slot[index++ & slots->mask];
		if (!slot->value)
			break;
		if (slot->value == value && slot->hash == hash)
			return false;
		if (!stale && !is_current(table, slot))
			stale = slot;
	}
	fresh = !stale;
	if (stale)
		slot = stale;
	__atomic_store_n(&slot->hash, hash, __ATOMIC_RELAXED);
	/* Pairs with the acquire load in table_next(). */
	__atomic_store_n(&slot->value, value, __ATOMIC_RELEASE);
	return fresh;
}

static struct table_slots *take_slots(struct table *table, struct arena *arena, size_t count)
{
	struct table_slots *slots = table->spare;
	size_t i;

	table->spare = NULL;
	if (!slots || slots->mask + 1 != count) {
		slots = arena_take(arena, sizeof(*slots) + count * sizeof(slots->slot[0]));
		if (slots)
			slots->mask = count - 1;
		return slots;
	}
	for (i = 0; i < count; i++)
		__atomic_store_n(&slots->slot[i].value, NULL, __ATOMIC_RELAXED);
	return slots;
}

static bool copy_slots(struct table *table, struct arena *arena)
{
	struct table_slots *old = table->slots;
	struct table_slots *slots;
	size_t count = TABLE_FIRST;
	size_t live = 0;
	size_t i;

	if (old) {
		for (i = 0; i <= old->mask; i++)
			live += old->slot[i].value && is_current(table, &old->slot[i]);
		count = old->mask + 1;
		if (live > count / 4)
			count *= 2;
	}
	slots = take_slots(table, arena, count);
	if (!slots)
		return false;
	for (i = 0; old && i <= old->mask; i++)
		if (old->slot[i].value && is_current(table, &old->slot[i]))
			put(table, slots, old->slot[i].hash, old->slot[i].value);
	table->used = live;
	if (old && old->mask == slots->mask)
		table->spare = old;
	/* Pairs with the acquire load in table_next(). */
	__atomic_store_n(&table->slots, slots, __ATOMIC_RELEASE);
	return true;
}

bool table_insert(struct table *table, struct arena *arena, uint64_t hash, void *value)
{
	/* At most half full: probes stay short and always meet a free slot. */
	if (!table->slots || table->used >= (table->slots->mask + 1) / 2)
		if (!copy_slots(table, arena))
			return false;
	if (table->used >= table->bound)
		return false;
	table->used += put(table, table->slots, hash, value);
	return true;
}

void table_clear(struct table *table)
{
	__atomic_store_n(&table->slots, NULL, __ATOMIC_RELEASE);
	table->spare = NULL;
	table->used = 0;
}
