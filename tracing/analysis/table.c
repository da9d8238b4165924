// SPDX-License-Identifier: MIT
/*
 * Table (table.h): open addressing over pointers, linear probing; entries are cut from chunks.
 * Called by the model and the report; out of memory ends the program (tools/memory.h).
 */
#include "tracing/analysis/table.h"

#include "memory.h"

#define CHUNK_FIRST    4096
#define CHUNK_LARGE    (256 * 1024)
#define SLOTS_AT_FIRST 16

static size_t entry_size(const struct table *table)
{
	size_t data = table->data_size < sizeof(void *) ? sizeof(void *) : table->data_size;

	return (sizeof(struct table_entry) + data + 7) & ~(size_t)7;
}

/*
 * Keys are small numbers, addresses or pairs of them: the multiplications spread all bits upwards.
 */
static size_t slot_of(const struct table *table, uint64_t key, uint64_t key2)
{
	uint64_t hash =
		(key ^ (key2 * UINT64_C(0xc2b2ae3d27d4eb4f))) * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(hash ^ hash >> 32) & (table->slot_count - 1);
}

static struct table_entry **place_of(const struct table *table, uint64_t key, uint64_t key2)
{
	size_t at = slot_of(table, key, key2);

	while (table->slots[at] && (table->slots[at]->key != key || table->slots[at]->key2 != key2))
		at = (at + 1) & (table->slot_count - 1);
	return &table->slots[at];
}

static void rebuild(struct table *table, size_t slot_count)
{
	free(table->slots);
	table->slots = memory_new(slot_count * sizeof(*table->slots));
	table->slot_count = slot_count;
	for (size_t i = 0; i < table->count; i++)
		*place_of(table, table->order[i]->key, table->order[i]->key2) = table->order[i];
}

static struct table_entry *entry_new(struct table *table)
{
	size_t size = entry_size(table);
	struct table_entry *entry = table->free_entries;

	if (entry) {
		memcpy(&table->free_entries, entry->data, sizeof(table->free_entries));
		memset(entry, 0, size);
		return entry;
	}
	if (table->chunk_left < size) {
		table->chunk_size = table->chunk_size ? table->chunk_size * 2 : CHUNK_FIRST;
		if (table->chunk_size > CHUNK_LARGE)
			table->chunk_size = CHUNK_LARGE;
		if (table->chunk_size < size)
			table->chunk_size = size;
		table->chunk = memory_new(table->chunk_size);
		table->chunk_left = table->chunk_size;
		table->chunks = memory_grow(table->chunks, table->chunk_count,
					    &table->chunk_capacity, sizeof(table->chunks[0]));
		table->chunks[table->chunk_count++] = table->chunk;
	}
	entry = (struct table_entry *)table->chunk;
	table->chunk += size;
	table->chunk_left -= size;
	return entry;
}

void *table_find(const struct table *table, uint64_t key, uint64_t key2)
{
	struct table_entry *entry = table->count ? *place_of(table, key, key2) : NULL;

	return entry ? entry->data : NULL;
}

void *table_add(struct table *table, uint64_t key, uint64_t key2, bool *ret_is_new)
{
	struct table_entry **place, *entry;

	if ((table->count + 1) * 2 > table->slot_count)
		rebuild(table, table->slot_count ? table->slot_count * 2 : SLOTS_AT_FIRST);
	place = place_of(table, key, key2);
	*ret_is_new = !*place;
	if (*place)
		return (*place)->data;
	entry = entry_new(table);
	entry->key = key;
	entry->key2 = key2;
	*place = entry;
	table->order = memory_grow(table->order, table->count, &table->order_capacity,
				   sizeof(table->order[0]));
	table->order[table->count++] = entry;
	return entry->data;
}

void table_sweep(struct table *table, uint64_t mark)
{
	size_t kept = 0;

	for (size_t i = 0; i < table->count; i++) {
		struct table_entry *entry = table->order[i];

		if (entry->mark == mark) {
			table->order[kept++] = entry;
			continue;
		}
		memcpy(entry->data, &table->free_entries, sizeof(table->free_entries));
		table->free_entries = entry;
	}
	if (kept == table->count)
		return;
	table->count = kept;
	rebuild(table, table->slot_count);
}

void table_done(struct table *table)
{
	for (size_t i = 0; i < table->chunk_count; i++)
		free(table->chunks[i]);
	free(table->chunks);
	free(table->order);
	free(table->slots);
	*table = (struct table){.data_size = table->data_size};
}
