// SPDX-License-Identifier: MIT
/*
 * Lock: the one kind of lock in the shim, and the order in which they are taken.
 *
 * A program may call the driver from a signal handler that interrupted the shim in the middle of a
 * locked region, so no lock is ever waited for by a thread that holds it or a later one: take
 * answers false and the caller drops what it wanted to store (and counts that). The mark in
 * thread-local memory is set before the mutex is locked and cleared after it is unlocked, so a
 * handler can never come between.
 *
 * Used by emit, state, check, guard, legacy, pool and rewrite; each rank says whose it is. Relies on pthread mutexes only: they leave errno alone and do not
 * allocate. A forked child calls lock_reset(), since the owner may have been another thread.
 */
#ifndef SLIPSTREAM_EMIT_LOCK_H
#define SLIPSTREAM_EMIT_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Ranks, taken in rising order. A thread that holds rank n can take n + 1 and above only. */
enum lock_rank {
	LOCK_SUBMISSION =
		0, /* legacy: one a context, held over submissions that do not wait; of several never two at once */
	LOCK_LEGACY,    /* legacy: its table of contexts */
	LOCK_CHECK,     /* check: what it knows of captures, streams, accesses */
	LOCK_GUARD,     /* guard: copies under way, and the protection of their pages */
	LOCK_ATTRIBUTE, /* state: a stream is not destroyed while it is being queried; held
			   over driver calls, too (queries that never wait) */
	LOCK_STATE,  /* state: insertions into the tables of contexts, streams, events, kernels */
	LOCK_MEMORY, /* state: the table of allocations */
	LOCK_POOL,   /* pool: blocks of pinned memory and their lists */
	LOCK_SITE,   /* rewrite: where the driver freed, by call site */
	LOCK_EMIT,   /* emit: room in the record file, interning */
};

struct lock {
	pthread_mutex_t mutex;
	enum lock_rank rank;
};

#define LOCK_INITIALIZER(rank_)                                                                    \
	{                                                                                          \
		.mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (rank_),                               \
	}

/* Ranks held by this thread, one bit each. Written by this thread and its signal handlers only. */
extern __thread uint32_t lock_held __attribute__((tls_model("initial-exec")));

/* False: this thread is already inside (a signal handler), or holds a later rank. */
static inline bool lock_take(struct lock *lock)
{
	if (lock_held >> lock->rank)
		return false;
	lock_held |= 1U << lock->rank;
	/* Pairs with lock_give()'s: this thread's handlers see the mark while the mutex is held. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	pthread_mutex_lock(&lock->mutex);
	return true;
}

/* The same; where it has to wait for another thread, waits(of) is called before. */
static inline bool lock_take_telling(struct lock *lock, void (*waits)(uint32_t of), uint32_t of)
{
	if (lock_held >> lock->rank)
		return false;
	lock_held |= 1U << lock->rank;
	/* As in lock_take(). */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (pthread_mutex_trylock(&lock->mutex)) {
		waits(of);
		pthread_mutex_lock(&lock->mutex);
	}
	return true;
}

static inline void lock_give(struct lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
	/* Pairs with lock_take()'s. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	lock_held &= ~(1U << lock->rank);
}

static inline void lock_reset(struct lock *lock)
{
	lock->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	lock_held &= ~(1U << lock->rank);
}

#endif
