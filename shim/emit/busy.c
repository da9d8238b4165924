// SPDX-License-Identifier: MIT
/*
 * Busy (busy.h): the records of threads. Like blocks of counters, a record whose thread has ended goes to the next one, so that there are as many as
 * there ever were threads at once. Called by entry at a thread's first call and at its end.
 *
 * list	insertions and `taken` under emit's lock
 */
#include "emit/busy.h"

#include "emit/arena.h"
#include "emit/emit.h"
#include "emit/internal.h"

struct busy_block {
	struct busy_block *next;
	struct record_thread *record;
	bool taken;
};

__thread struct record_thread *busy_thread;

static struct busy_block *blocks;
static bool has_clock;
static struct arena arena = {.bound = (size_t)1 << 20};

/* Under emit's lock: a moment in both clocks. */
static bool tell_clock(uint64_t ticks, bool is_counter)
{
	struct record_clock *record;

	if (has_clock)
		return true;
	record = emit_take_locked(sizeof(*record));
	if (!record)
		return false;
	record->ticks = ticks;
	record->ns = clock_now_ns();
	record->is_counter = is_counter;
	emit_publish(record, RECORD_CLOCK);
	has_clock = true;
	return true;
}

static struct busy_block *make(void)
{
	struct busy_block *block;

	block = arena_take(&arena, sizeof(*block));
	if (!block)
		return NULL;
	block->record = emit_take_locked(sizeof(*block->record));
	if (!block->record)
		return NULL;
	emit_publish(block->record, RECORD_THREAD);
	block->next = blocks;
	blocks = block;
	return block;
}

struct record_thread *emit_busy_take(uint32_t thread, uint64_t ticks, bool is_counter)
{
	struct record_thread *record = NULL;
	struct busy_block *block;

	if (!emit_is_open() || !emit_lock())
		return NULL;
	for (block = blocks; block && block->taken; block = block->next)
		;
	if (!block && tell_clock(ticks, is_counter))
		block = make();
	if (block) {
		block->taken = true;
		record = block->record;
		__atomic_store_n(&record->thread, thread, __ATOMIC_RELAXED);
	}
	emit_unlock();
	if (!record)
		emit_note(NOTE_LOST, "what a thread is inside of");
	return record;
}

void emit_busy_give_back(struct record_thread *record)
{
	struct busy_block *block;

	if (!record)
		return;
	/* Nothing of the thread stays, wherever it ended. */
	busy_store(&record->call, 0);
	busy_store(&record->lock, 0);
	busy_store(&record->drain, 0);
	busy_store(&record->in_flight[0], 0);
	busy_store(&record->in_flight[1], 0);
	busy_store(&record->in_flight[2], 0);
	__atomic_store_n(&record->thread, 0, __ATOMIC_RELAXED);
	if (!emit_lock())
		return;
	for (block = blocks; block; block = block->next)
		if (block->record == record)
			block->taken = false;
	emit_unlock();
}

void busy_clear(void)
{
	blocks = NULL;
	has_clock = false;
	busy_thread = NULL;
	arena_done(&arena);
}
