// SPDX-License-Identifier: MIT
/*
 * Counters: blocks of call counts, one a live thread, in the record file. Called by entry through
 * emit.h. A block that its thread gave back goes to the next thread and keeps its counts, so a
 * program that starts a million threads has as many blocks as it ever had threads at once.
 *
 * block list	insertions under emit's lock; `taken` too
 * count[]	written by the owning thread alone; read by the tools, in the file
 */
#include <string.h>

#include "catalogue/catalogue.h"
#include "emit/arena.h"
#include "emit/emit.h"
#include "emit/internal.h"
#include "emit/memo.h"

struct counter_block {
	struct counter_block *next;
	struct record_counters *record;
	bool taken;
};

static struct counter_block *blocks;
static struct record_counters *thunks;
static struct arena arena = {.bound = (size_t)4 << 20};

/* Where counts go that the file has no room for. Shared, never read. */
static uint64_t spare[FUNCTION_COUNT + 1];

static struct record_counters *new_record(uint32_t thread, enum record_type type)
{
	struct record_counters *record;

	record = emit_take_locked(sizeof(*record) + sizeof(spare));
	if (!record)
		return NULL;
	record->thread = thread;
	record->functions = FUNCTION_COUNT + 1;
	emit_publish(record, type);
	return record;
}

uint64_t *emit_counters_take(uint32_t thread)
{
	struct counter_block *block;
	uint64_t *count = NULL;

	if (!emit_is_open())
		return NULL;
	if (!emit_lock())
		return NULL;
	for (block = blocks; block && block->taken; block = block->next)
		;
	if (!block) {
		block = arena_take(&arena, sizeof(*block));
		if (block) {
			block->record = new_record(thread, RECORD_COUNTERS);
			block->next = blocks;
			if (block->record)
				blocks = block;
			else
				block = NULL;
		}
	}
	if (block) {
		block->taken = true;
		__atomic_store_n(&block->record->thread, thread, __ATOMIC_RELAXED);
		count = block->record->count;
	}
	emit_unlock();
	if (!count) {
		emit_count_dropped();
		emit_note(NOTE_LOST, "call counts of a thread");
		count = spare;
	}
	return count;
}

void emit_counters_give_back(uint64_t *counters)
{
	struct counter_block *block;

	memo_give_back();
	if (!counters || counters == spare || !emit_lock())
		return;
	for (block = blocks; block; block = block->next)
		if (block->record->count == counters)
			block->taken = false;
	emit_unlock();
}

uint64_t *emit_thunk_counters(void)
{
	struct record_counters *record;

	if (!emit_is_open())
		return NULL;
	record = __atomic_load_n(&thunks, __ATOMIC_ACQUIRE);
	if (record)
		return record->count;
	if (!emit_lock())
		return NULL;
	record = thunks;
	if (!record) {
		record = new_record(0, RECORD_THUNKS);
		/* Pairs with the acquire load above: whoever sees the record sees its fields. */
		__atomic_store_n(&thunks, record, __ATOMIC_RELEASE);
	}
	emit_unlock();
	if (!record) {
		emit_count_dropped();
		emit_note(NOTE_LOST, "call counts of unwrapped functions");
		return spare;
	}
	return record->count;
}

void counters_clear(void)
{
	blocks = NULL;
	__atomic_store_n(&thunks, NULL, __ATOMIC_RELEASE);
	arena_done(&arena);
}
