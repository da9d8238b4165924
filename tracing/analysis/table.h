// SPDX-License-Identifier: MIT
/*
 * Table: entries of one size, found by a 64-bit key; what the model and the report sum in. An entry
 * stays where it is until it is removed, so pointers to entries may be kept. Memory grows with the
 * number of different keys alone. One thread.
 */
#ifndef SLIPSTREAM_TRACING_TABLE_H
#define SLIPSTREAM_TRACING_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_entry {
	uint64_t key, key2; /* key2: for pairs; 0 otherwise */
	uint64_t mark;      /* for table_sweep() */
	char data[];
};

struct table {
	size_t data_size; /* set before the first use */
	struct table_entry **slots;
	size_t slot_count, count;   /* slots: a power of two, at most half of them used */
	struct table_entry **order; /* by appearance */
	size_t order_capacity;
	char *chunk; /* where entries are cut from */
	size_t chunk_left, chunk_size;
	char **chunks;
	size_t chunk_count, chunk_capacity;
	struct table_entry *free_entries; /* removed ones, by their first pointer in data */
};

void table_done(struct table *table);

void *table_find(const struct table *table, uint64_t key, uint64_t key2);

/* Its data, all 0 if it is new. */
void *table_add(struct table *table, uint64_t key, uint64_t key2, bool *ret_is_new);

static inline struct table_entry *table_entry_of(const void *data)
{
	return (struct table_entry *)((char *)(uintptr_t)data - offsetof(struct table_entry, data));
}

static inline void *table_at(const struct table *table, size_t index)
{
	return table->order[index]->data;
}

/* Removes all entries whose mark is another. Their places are used again. */
void table_sweep(struct table *table, uint64_t mark);

#endif
