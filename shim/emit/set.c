// SPDX-License-Identifier: MIT
/*
 * Set: lists of candidates that `wait` events name by one number (trace.h). Called by trace.c. Relies
 * on table.h; like intern.c, look-ups take no lock and a miss takes emit's.
 *
 * newest	under emit's lock; release store, acquire load in set_send_all()
 * struct set	constant once it is in the table or on the list
 */
#include <string.h>

#include "emit/arena.h"
#include "emit/emit.h"
#include "emit/internal.h"
#include "emit/table.h"
#include "emit/trace.h"

#define SETS_MAX  (1 << 15)
#define ARENA_MAX ((size_t)16 << 20)

struct set {
	struct set *older;
	uint32_t number, count;
	uint32_t candidate[];
};

static struct table table = {.bound = SETS_MAX};
static struct arena arena = {.bound = ARENA_MAX};
static struct set *newest;

static uint64_t hash_of(const uint32_t *candidates, uint32_t count)
{
	uint64_t hash = count;
	uint32_t i;

	for (i = 0; i < count; i++)
		hash = table_mix(hash ^ candidates[i]);
	return hash;
}

static struct set *find(uint64_t hash, const uint32_t *candidates, uint32_t count)
{
	uint64_t index = hash;
	struct set *set;

	while ((set = table_next(&table, hash, &index)))
		if (set->count == count &&
		    !memcmp(set->candidate, candidates, count * sizeof(candidates[0])))
			return set;
	return NULL;
}

static void send(const struct set *set)
{
	struct trace_def_candidate_set event = {.set = set->number, .count = set->count};

	for (; event.index < set->count; event.index++) {
		event.candidate = set->candidate[event.index];
		trace_send(TRACE_DEF_CANDIDATE_SET, &event);
	}
}

/* Under emit's lock; NULL: no room. */
static struct set *add(uint64_t hash, const uint32_t *candidates, uint32_t count)
{
	struct set *set;

	set = arena_take(&arena, sizeof(*set) + count * sizeof(candidates[0]));
	if (!set)
		return NULL;
	set->number = TRACE_SET | (newest ? (newest->number & ~TRACE_SET) + 1 : 1);
	set->count = count;
	memcpy(set->candidate, candidates, count * sizeof(candidates[0]));
	set->older = newest;
	if (!table_insert(&table, &arena, hash, set))
		return NULL;
	/* Pairs with the acquire load in set_send_all(). */
	__atomic_store_n(&newest, set, __ATOMIC_RELEASE);
	return set;
}

uint32_t set_of(const uint32_t *candidates, uint32_t count)
{
	uint64_t hash = hash_of(candidates, count);
	struct set *set = find(hash, candidates, count);
	bool is_new = false;

	if (set)
		return set->number;
	if (emit_lock()) {
		set = find(hash, candidates, count);
		is_new = !set;
		if (is_new)
			set = add(hash, candidates, count);
		emit_unlock();
	}
	if (!set) {
		emit_note(NOTE_LOST, "candidates of traced waits");
		return 0;
	}
	if (is_new)
		send(set);
	return set->number;
}

void set_send_all(void)
{
	/* Pairs with the release store in add(). */
	const struct set *set = __atomic_load_n(&newest, __ATOMIC_ACQUIRE);

	for (; set; set = set->older)
		send(set);
}

void set_clear(void)
{
	table_clear(&table);
	newest = NULL;
	arena_done(&arena);
}
