// SPDX-License-Identifier: MIT
/*
 * Check, a table of fixed size: keys that are not 0, and for each the index of a row of an array that the owner has beside it. Under check_lock().
 * Nothing is allocated; a full table says so.
 */
#ifndef SLIPSTREAM_CHECK_MAP_H
#define SLIPSTREAM_CHECK_MAP_H

#include <stdint.h>
#include <string.h>

#define CHECK_NONE UINT32_MAX

struct check_map {
	uint32_t size;  /* rows, and heads: a power of two */
	uint32_t used;  /* rows that were ever taken; a hint, too (internal.h) */
	uint32_t spare; /* index + 1 of a row that was given back; 0: none */
	uint64_t *keys;
	uint32_t *heads; /* index + 1, 0 none; by hash */
	uint32_t *next;  /* index + 1, 0 none; by row */
};

/* Defines a map, all zero at first. */
#define CHECK_MAP(name, rows)                                                                      \
	static uint64_t name##_keys[rows];                                                         \
	static uint32_t name##_heads[rows], name##_next[rows];                                     \
	static struct check_map name = {                                                           \
		.size = (rows), .keys = name##_keys, .heads = name##_heads, .next = name##_next}

static inline uint32_t *check_map_head(const struct check_map *map, uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return &map->heads[(key >> 32) & (map->size - 1)];
}

static inline uint32_t check_map_find(const struct check_map *map, uint64_t key)
{
	uint32_t at = *check_map_head(map, key);

	while (at && map->keys[at - 1] != key)
		at = map->next[at - 1];
	return at ? at - 1 : CHECK_NONE;
}

/* A row for a key that is not there; CHECK_NONE: it is full. */
static inline uint32_t check_map_add(struct check_map *map, uint64_t key)
{
	uint32_t *head = check_map_head(map, key);
	uint32_t row;

	if (map->spare) {
		row = map->spare - 1;
		map->spare = map->next[row];
	} else if (map->used < map->size) {
		row = map->used;
		__atomic_store_n(&map->used, row + 1, __ATOMIC_RELAXED);
	} else {
		return CHECK_NONE;
	}
	map->keys[row] = key;
	map->next[row] = *head;
	*head = row + 1;
	return row;
}

static inline void check_map_remove(struct check_map *map, uint64_t key)
{
	uint32_t *link = check_map_head(map, key);
	uint32_t row;

	while (*link && map->keys[*link - 1] != key)
		link = &map->next[*link - 1];
	if (!*link)
		return;
	row = *link - 1;
	*link = map->next[row];
	map->keys[row] = 0;
	map->next[row] = map->spare;
	map->spare = row + 1;
}

static inline void check_map_clear(struct check_map *map)
{
	memset(map->heads, 0, map->size * sizeof(*map->heads));
	__atomic_store_n(&map->used, 0, __ATOMIC_RELAXED);
	map->spare = 0;
}

#endif
