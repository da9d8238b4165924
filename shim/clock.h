// SPDX-License-Identifier: MIT
/*
 * Clock: one cheap reading before and after each driver call, and its conversion to CLOCK_MONOTONIC
 * nanoseconds.
 *
 * A tick is a cycle of the invariant time stamp counter where the processor has one, else a
 * nanosecond. Read by the wrappers (entry) on every timed call; converted by sync for the calls
 * that it reports. Relies on clock_start(), run by the library's constructor; before it, ticks are
 * nanoseconds already.
 */
#ifndef SLIPSTREAM_CLOCK_H
#define SLIPSTREAM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Written once by clock_start(), before any wrapper can run concurrently; constant afterwards. */
extern bool clock_uses_counter __attribute__((visibility("hidden")));

/* Takes the first of the two points that the conversion needs. No delay, no system call beyond
 * clock_gettime. */
void clock_start(void);

/* CLOCK_MONOTONIC of a reading. */
uint64_t clock_ns(uint64_t ticks);

/* Nanoseconds between two readings; 0 if `to` is not after `from`. */
uint64_t clock_duration_ns(uint64_t from, uint64_t to);

/* The same, and CLOCK_MONOTONIC of `to`: both by one look at the rate. */
uint64_t clock_span(uint64_t from, uint64_t to, uint64_t *ret_to_ns);

/* CLOCK_MONOTONIC now, without the counter. */
static inline uint64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* How many ticks `ns` nanoseconds are, as far as the rate is known by now; 0 if it is not. */
uint64_t clock_ticks_in(uint64_t ns);

static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(clock_uses_counter, 1))
		return __builtin_ia32_rdtsc();
#endif
	return clock_now_ns();
}

#endif
