// SPDX-License-Identifier: MIT
/*
 * Threads and processes: everything that entry_count() does not do itself.
 *
 * Owns the thread's block of counters (taken at its first call, given back by a pthread key's
 * destructor), the shared block of calls that come after that, the life of a forked child, and the
 * opening of the record file. Called from wrappers and thunks. Keeps errno; takes no lock.
 *
 * Who writes, who reads: `shared_counters`, `opened`, `passing` by any thread's slow path, relaxed
 * atomics unless said otherwise.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "driver/find.h"
#include "entry/entry.h"
#include "entry/lifetime.h"
#include "entry/thunk.h"
#include "legacy/legacy.h"

__thread struct entry_thread entry_thread = {.generation = ENTRY_NO_GENERATION};

/* A child that is just being set up by one of its threads. */
#define PAGE_CHANGING (UINT64_MAX - 1)

/* Of this process; grows by one a fork. Written by the child's first caller. */
static uint64_t generation = 1;
static uint64_t *shared_counters; /* block with atomic adds, for threads past their exit handlers */
static uint32_t opened;           /* 1: emit is open */
static uint32_t broken;           /* emit cannot be opened: do not try again at every call */
static uint32_t initialised;      /* a cuInit succeeded in this process or an ancestor */
static uint32_t passing;          /* forked after cuInit: calls are counted and pass through */
static uint32_t driver_told;      /* exchange: the driver's path and functions were told to emit */
static pthread_key_t key;
static bool have_key; /* both written by entry_setup() */

static void tell_driver(void)
{
	/* The acquire pairs with the release store in driver_find(): table and path are there. */
	if (__atomic_load_n(&driver_told, __ATOMIC_RELAXED) || !driver_find() ||
	    !__atomic_load_n(&driver_image.found, __ATOMIC_ACQUIRE) ||
	    __atomic_exchange_n(&driver_told, 1, __ATOMIC_RELAXED))
		return;
	emit_driver(driver_image.path, 0);
	for (uint32_t function = 0; function < FUNCTION_COUNT; function++)
		if (__atomic_load_n(&((void **)&driver)[function], __ATOMIC_RELAXED))
			emit_function_in_driver(function);
}

/* The record file is opened at the first counted call: a shell that never uses CUDA leaves none. */
static bool open_emit(void)
{
	if (__atomic_load_n(&opened, __ATOMIC_ACQUIRE))
		return true;
	if (__atomic_load_n(&broken, __ATOMIC_RELAXED))
		return false;
	if (!emit_open()) {
		__atomic_store_n(&broken, 1, __ATOMIC_RELAXED);
		return false;
	}
	/* Notes of other threads from here on go straight to emit; pairs with the acquire loads of
	 * `opened`. */
	__atomic_store_n(&opened, 1, __ATOMIC_RELEASE);
	return true;
}

static void thread_exit(void *data)
{
	struct entry_thread *thread = data;
	struct record_thread *busy = busy_thread;
	uint64_t *counters = thread->counters;
	bool mine =
		thread->generation ==
		__atomic_load_n(__atomic_load_n(&entry_page, __ATOMIC_RELAXED), __ATOMIC_RELAXED);

	thread->generation = ENTRY_NO_GENERATION;
	thread->gone = 1;
	thread->counters = NULL;
	busy_thread = thread->busy = NULL;
	state_launch_forget();
	state_thread_ends();
	if (!mine) /* a block in a file of our parent, if any */
		return;
	if (thread->hold == 0) {
		state_thread_exit();
		short_thread_exit();
	}
	if (counters)
		emit_counters_give_back(counters);
	emit_busy_give_back(busy);
}

void entry_thread_prepare(void)
{
	have_key = pthread_key_create(&key, thread_exit) == 0;
}

/* The calling thread is the first of a forked child to get here, or waits for the one that is. */
static uint64_t start_child(uint64_t *page)
{
	uint64_t word = 0;

	if (!__atomic_compare_exchange_n(page, &word, PAGE_CHANGING, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_ACQUIRE)) {
		while (word == PAGE_CHANGING) {
			sched_yield();
			word = __atomic_load_n(page, __ATOMIC_ACQUIRE);
		}
		return word;
	}
	/* Everything that points into the parent's file is forgotten, before anybody can count. */
	emit_forked();
	state_forked();
	legacy_forked();
	check_forked();
	__atomic_store_n(&shared_counters, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&entry_thunk_counters, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&opened, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&broken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&driver_told, 0, __ATOMIC_RELAXED);
	if (__atomic_load_n(&initialised, __ATOMIC_RELAXED)) {
		__atomic_store_n(&passing, 1, __ATOMIC_RELAXED);
		emit_note(NOTE_PASS_THROUGH, "forked after cuInit");
	}
	word = __atomic_add_fetch(&generation, 1, __ATOMIC_RELAXED);
	/* Pairs with the acquire loads in entry_live() and above: who sees the new generation sees
	 * what was reset. */
	__atomic_store_n(page, word, __ATOMIC_RELEASE);
	return word;
}

/* The process's generation, after making a forked child a process of its own. */
static uint64_t entry_live(void)
{
	uint64_t *page = entry_own_page();
	uint64_t word = __atomic_load_n(page, __ATOMIC_ACQUIRE); /* start_child()'s release */

	if (word == 0 || word == PAGE_CHANGING)
		word = start_child(page);
	return word;
}

/* Counts into the block that all threads without one of their own share. */
static void count_shared(uint32_t function)
{
	uint64_t *counters = __atomic_load_n(&shared_counters, __ATOMIC_ACQUIRE);

	if (!counters) {
		uint64_t *expected = NULL;

		if (!open_emit())
			return;
		counters = emit_counters_take((uint32_t)getpid());
		if (!counters)
			return;
		/* Its release pairs with the acquires of whoever finds the block, here and above. */
		if (!__atomic_compare_exchange_n(&shared_counters, &expected, counters, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			emit_counters_give_back(counters);
			counters = expected;
		}
	}
	__atomic_fetch_add(&counters[function], 1, __ATOMIC_RELAXED);
}

static bool start(struct entry_thread *thread, uint32_t function)
{
	uint64_t live = entry_live();

	if (thread->gone || !have_key || !open_emit()) {
		tell_driver();
		count_shared(function);
		return false;
	}
	if (thread->generation != live) {
		uint64_t *counters = emit_counters_take((uint32_t)gettid());

		if (!counters || pthread_setspecific(key, thread) != 0) {
			if (counters)
				emit_counters_give_back(counters);
			emit_note(NOTE_PASS_THROUGH, "no counters for a thread");
			count_shared(function);
			return false;
		}
		thread->counters = counters;
		thread->hold = __atomic_load_n(&passing, __ATOMIC_RELAXED);
		if (config.mode == CONFIG_FIX)
			busy_thread = emit_busy_take((uint32_t)gettid(), clock_ticks(),
						     clock_uses_counter);
		thread->busy = busy_thread;
		/* A signal handler that finds the generation finds the block. */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		thread->generation = live;
	}
	tell_driver();
	__atomic_store_n(&thread->counters[function], thread->counters[function] + 1,
			 __ATOMIC_RELAXED);
	return thread->hold == 0;
}

/*
 * Calls of a signal handler that interrupted its thread's set-up, where nothing may be locked or
 * opened. Counted when the set-up is done. Written by handlers, read by the thread they
 * interrupted, or by another one: relaxed atomic adds and exchanges.
 */
static uint32_t deferred[FUNCTION_COUNT];
static uint32_t deferred_any;

static void defer(uint32_t function)
{
	__atomic_fetch_add(&deferred[function], 1, __ATOMIC_RELAXED);
	/* Pairs with the acquire exchange in count_deferred(): who sees it sees the count. */
	__atomic_store_n(&deferred_any, 1, __ATOMIC_RELEASE);
}

static void count_deferred(void)
{
	if (!__atomic_load_n(&deferred_any, __ATOMIC_RELAXED) ||
	    !__atomic_exchange_n(&deferred_any, 0, __ATOMIC_ACQUIRE))
		return;
	for (uint32_t function = 0; function < FUNCTION_COUNT; function++) {
		uint32_t times = __atomic_exchange_n(&deferred[function], 0, __ATOMIC_RELAXED);

		while (times--)
			count_shared(function);
	}
}

bool entry_slow(uint32_t function)
{
	struct entry_thread *thread = &entry_thread;
	int saved = errno;
	bool rooms = false;

	if (!thread->starting) {
		thread->starting = 1;
		if (entry_setup())
			rooms = start(thread, function);
		else
			driver_find();
		if (!entry_off)
			count_deferred();
		thread->starting = 0;
	} else if (!entry_off) {
		defer(function);
	}
	errno = saved;
	return rooms;
}

void entry_initialised(void)
{
	__atomic_store_n(&initialised, 1, __ATOMIC_RELAXED);
}

CUresult entry_missing(uint32_t function)
{
	int saved = errno;
	bool found = driver_find();

	if (!entry_off)
		emit_note(NOTE_MISSING_SYMBOL, function_names[function]);
	errno = saved;
	return found ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_STUB_LIBRARY;
}

void *entry_thunk_resolve(uint32_t function)
{
	int saved = errno;
	void *target;

	if (entry_thread.starting) {
		defer(function);
	} else if (entry_setup()) {
		entry_thread.starting = 1;
		entry_live();
		/* Nobody knows what it puts on which stream. */
		state_unseen();
		legacy_retreat();
		if (open_emit()) {
			uint64_t *counters = emit_thunk_counters();

			tell_driver();
			if (counters) {
				__atomic_fetch_add(&counters[function], 1, __ATOMIC_RELAXED);
				/* Pairs with the thunks' plain load: a pointer, and nothing behind
				 * it but zeros. */
				__atomic_store_n(&entry_thunk_counters, counters, __ATOMIC_RELEASE);
			}
		}
		entry_thread.starting = 0;
	}
	driver_find();
	target = __atomic_load_n(&((void **)&driver)[function], __ATOMIC_RELAXED);
	if (!target) {
		if (!entry_off)
			emit_note(NOTE_MISSING_SYMBOL, function_names[function]);
		target = (void *)entry_thunk_missing;
	}
	errno = saved;
	return target;
}

CUresult entry_thunk_missing(void)
{
	return driver_find() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_STUB_LIBRARY;
}

void entry_finish(void)
{
	/*
	 * A forked child that never called anything would end its parent's record: its page says 0.
	 */
	if (entry_off || !__atomic_load_n(&opened, __ATOMIC_RELAXED) ||
	    __atomic_load_n(entry_own_page(), __ATOMIC_ACQUIRE) !=
		    __atomic_load_n(&generation, __ATOMIC_RELAXED))
		return;
	count_deferred();
	if (entry_thread.hold == 0)
		check_ends();
	emit_finish();
}
