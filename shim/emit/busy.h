// SPDX-License-Identifier: MIT
/*
 * Busy: what each thread of mode fix is inside now, for who looks at a process that hangs (`slipstream dump`). A thread has a record in the record
 * file (record_thread) that it alone writes: plain stores into cache lines of its own, and no clock is read that would not be read anyway.
 * Written by the wrappers around each call but launches of the short way, by the legacy room for its lock, by the engine of staged copies.
 *
 * busy_thread	its own thread, and handlers that interrupt it; NULL: not mode fix, or no room in the file
 *
 * Never fails visibly. A handler's call, and one that the driver makes, comes and goes inside another: each puts back what it found.
 */
#ifndef SLIPSTREAM_EMIT_BUSY_H
#define SLIPSTREAM_EMIT_BUSY_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "emit/record.h"

extern __thread struct record_thread *busy_thread
	__attribute__((visibility("hidden"), tls_model("initial-exec")));

/* A record that no thread has, or a new one; NULL: no room. `thread`: kernel thread id; `ticks`: the clock now, `is_counter`: clock_uses_counter. */
struct record_thread *emit_busy_take(uint32_t thread, uint64_t ticks, bool is_counter);
void emit_busy_give_back(struct record_thread *record);

static inline void busy_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* One call; on the caller's stack. */
struct busy {
	struct record_thread *record; /* NULL: nothing is written */
	uint64_t outer;               /* what stood there before */
};

/* A call begins, in the library. `record`: the thread's. */
static inline struct busy busy_begin(struct record_thread *record, uint32_t function)
{
	struct busy busy = {.record = record};

	if (__builtin_expect(record != NULL, 0)) {
		busy.outer = __atomic_load_n(&record->call, __ATOMIC_RELAXED);
		busy_store(&record->call, RECORD_AT_SINCE(function + 1, 0));
	}
	return busy;
}

/* The driver is about to be called. `ticks`: the clock's reading for that, 0: there is none. Returns it. */
static inline uint64_t busy_reaches(struct record_thread *record, uint32_t function, uint64_t ticks)
{
	/* The last bit: the driver is called, whatever the time. */
	if (__builtin_expect(record != NULL, 0))
		busy_store(&record->call, RECORD_AT_SINCE(function + 1, ticks) | 1);
	return ticks;
}

/* The same for rewrites, which call the driver in the program's place. */
static inline uint64_t busy_driver(uint32_t function, uint64_t ticks)
{
	return busy_reaches(busy_thread, function, ticks);
}

static inline void busy_end(struct busy busy)
{
	if (__builtin_expect(busy.record != NULL, 0))
		busy_store(&busy.record->call, busy.outer);
}

/* The submission lock of the context of this number is waited for, is held, and is given back. */
static inline void busy_lock_waits(uint32_t context)
{
	struct record_thread *record = busy_thread;

	if (record)
		busy_store(&record->lock,
			   RECORD_AT_SINCE(RECORD_LOCK_WAITS | (context & RECORD_LOCK_CONTEXT),
					   clock_ticks()));
}

static inline void busy_lock_holds(uint32_t context)
{
	struct record_thread *record = busy_thread;

	if (record)
		busy_store(&record->lock,
			   RECORD_AT_SINCE(RECORD_LOCK_HOLDS | (context & RECORD_LOCK_CONTEXT), 0));
}

static inline void busy_lock_given(void)
{
	struct record_thread *record = busy_thread;

	if (record)
		busy_store(&record->lock, 0);
}

/* An operation is in flight without the lock: of the call's own context, and, 1 and 2, of those of a peer copy. 0: no more. */
static inline void busy_in_flight(unsigned int which, uint32_t context)
{
	struct record_thread *record = busy_thread;

	if (record)
		busy_store(&record->in_flight[which], context);
}

/* Closed gates are waited for; and no more. */
static inline void busy_drain(bool waits)
{
	struct record_thread *record = busy_thread;

	if (record)
		busy_store(&record->drain, waits ? RECORD_AT_SINCE(1, clock_ticks()) : 0);
}

#endif
