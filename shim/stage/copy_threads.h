// SPDX-License-Identifier: MIT
/*
 * Copy threads: helpers that copy memory while their caller talks to the driver. They have no context and call nothing of the driver,
 * take no lock, and know nothing of a job but its function.
 *
 *	slot	one job at a time; a few of them, so that a few callers can be served at once
 *	post	the slot's function may be run, by up to `wanted` helpers at once
 *	kick	helpers that left, having found nothing to do, are to look again
 *	close	no helper comes in any more; those inside may still be
 *	give	the slot is free for others, when all helpers are out; its caller is done with it, and gives it once
 *
 * A helper runs the function until that returns, and may be inside for as long as it likes, so the function's data must be static.
 * Nothing ever depends on a helper coming: a caller must be able to do all of the job alone.
 *
 * Started with the first post, never before, at most COPY_THREADS_MAX and one less than the processors that this process may use. All
 * signals are blocked in them but the synchronous ones. Idle ones look for work a little while, then sleep. A forked child has none,
 * and starts its own. Nothing ends them; they end with the process.
 */
#ifndef SLIPSTREAM_STAGE_COPY_THREADS_H
#define SLIPSTREAM_STAGE_COPY_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#define COPY_SLOTS 4
/* A benchmark is built with more (tests/bench/meson.build). */
#ifndef COPY_THREADS_MAX
#define COPY_THREADS_MAX 8
#endif

/* A free slot's index, or -1. */
int copy_threads_take(void);
void copy_threads_post(int slot, void (*work)(void *data), void *data, unsigned int wanted);
void copy_threads_kick(void);
void copy_threads_close(int slot);
void copy_threads_give(int slot);
/* Helpers inside; after the close it only falls. Acquire: 0 says that all they did is seen. */
unsigned int copy_threads_inside(int slot);

/* Helpers that would be started, 0: none. */
unsigned int copy_threads_possible(void);
/* Helpers that run. */
unsigned int copy_threads_running(void);

/* copy_cpus.c: processors that this process may use: its affinity, and its control groups' quota rounded up. At least 1. */
unsigned int copy_cpus(void);

/* Tests and benchmarks, before the first post: at most this many helpers; `exactly`: whatever processors there are. */
void copy_threads_limit(unsigned int most, bool exactly);

/* One moment of a loop that waits for another thread. */
static inline void copy_pause(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

/* Some 20 us of sleep. Keeps errno; no cancellation point. */
void copy_nap(void);

/* Monotonic nanoseconds. */
uint64_t copy_now(void);

#endif
