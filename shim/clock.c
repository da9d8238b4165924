// SPDX-License-Identifier: MIT
/*
 * Clock: conversion of counter ticks to CLOCK_MONOTONIC nanoseconds.
 *
 * Owns the pair of points (counter, CLOCK_MONOTONIC) that gives the rate. The first point is taken
 * at load, the second whenever a conversion lies so far behind the last one that a new one pays: by
 * an eighth of the two points' distance, REFRESH_NS at most. So there is no start-up delay, and the
 * rate follows the kernel's slewing of CLOCK_MONOTONIC. A point is good to some tens of nanoseconds
 * (the tightest of three reads), so the rate is good to 0.1 % once the points are 0.1 ms apart, and
 * a duration is never off by much more than the two readings' own error, however young the process.
 *
 * Threads: `scale` is written under a try-lock (a loser converts with the old values) and read by
 * all through a sequence counter.
 */
#include "clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define REFRESH_NS UINT64_C(100000000)
#define SHIFT      32

struct point {
	uint64_t ticks, ns;
};

bool clock_uses_counter;

static struct point first; /* written by clock_start() only */

/* Writer: the holder of `refreshing`. Readers: everyone, by the sequence. All fields are relaxed
 * atomics. */
static struct {
	uint32_t sequence; /* odd while written; pairs: release store <-> acquire load in
			      read_scale() */
	uint32_t refreshing;
	uint64_t ticks, ns; /* the newest point */
	uint64_t rate;      /* ns per tick, SHIFT bits of fraction; 0: no second point yet */
} scale;

#define LOAD(field)         __atomic_load_n(&scale.field, __ATOMIC_RELAXED)
#define STORE(field, value) __atomic_store_n(&scale.field, value, __ATOMIC_RELAXED)

static uint64_t multiply(uint64_t ticks, uint64_t rate)
{
	return (uint64_t)(((unsigned __int128)ticks * rate) >> SHIFT);
}

/* The tightest of three readings: a preemption between the two clocks would spoil a single one. */
static struct point take_point(void)
{
	struct point best = {0, 0};
	uint64_t best_width = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		uint64_t before = clock_ticks();
		uint64_t ns = clock_now_ns();
		uint64_t width = clock_ticks() - before;

		if (width < best_width) {
			best_width = width;
			best = (struct point){before + width / 2, ns};
		}
	}
	return best;
}

static bool counter_is_invariant(void)
{
#if defined(__x86_64__)
	unsigned int a, b, c, d;

	if (!__get_cpuid(0x80000007, &a, &b, &c, &d))
		return false;
	return d & (1u << 8);
#else
	return false;
#endif
}

void clock_start(void)
{
	if (clock_uses_counter || !counter_is_invariant())
		return;
	clock_uses_counter = true;
	first = take_point();
}

static void read_scale(struct point *ret_newest, uint64_t *ret_rate)
{
	uint32_t before, after;

	do {
		/* Pairs with the release store of the sequence in refresh(). */
		before = __atomic_load_n(&scale.sequence, __ATOMIC_ACQUIRE);
		ret_newest->ticks = LOAD(ticks);
		ret_newest->ns = LOAD(ns);
		*ret_rate = LOAD(rate);
		/* Keeps the loads above before the second look; pairs with the first store in
		 * refresh(). */
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		after = LOAD(sequence);
	} while (before != after || before & 1);
}

static void refresh(void)
{
	struct point now;
	uint32_t sequence;

	if (__atomic_exchange_n(&scale.refreshing, 1, __ATOMIC_ACQUIRE))
		return;
	now = take_point();
	if (now.ticks > first.ticks && now.ns > first.ns) {
		uint64_t rate = (uint64_t)(((unsigned __int128)(now.ns - first.ns) << SHIFT) /
					   (now.ticks - first.ticks));

		sequence = LOAD(sequence);
		STORE(sequence, sequence + 1);
		/* No field may be seen new while the sequence still looks even: pairs with
		 * read_scale()'s fence. */
		__atomic_thread_fence(__ATOMIC_RELEASE);
		STORE(ticks, now.ticks);
		STORE(ns, now.ns);
		STORE(rate, rate);
		__atomic_store_n(&scale.sequence, sequence + 2, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&scale.refreshing, 0, __ATOMIC_RELEASE);
}

/*
 * Makes sure that `ticks` is not far behind the newest point, so that its rate is the present one.
 */
static void scale_for(uint64_t ticks, struct point *ret_newest, uint64_t *ret_rate)
{
	read_scale(ret_newest, ret_rate);
	if (*ret_rate && (ticks <= ret_newest->ticks ||
			  (ticks - ret_newest->ticks < (ret_newest->ticks - first.ticks) / 8 &&
			   multiply(ticks - ret_newest->ticks, *ret_rate) < REFRESH_NS)))
		return;
	refresh();
	read_scale(ret_newest, ret_rate);
}

uint64_t clock_ns(uint64_t ticks)
{
	struct point newest;
	uint64_t rate;

	if (!clock_uses_counter)
		return ticks;
	scale_for(ticks, &newest, &rate);
	if (!rate)
		return clock_now_ns(); /* another thread is just taking the first second point */
	if (ticks >= newest.ticks)
		return newest.ns + multiply(ticks - newest.ticks, rate);
	return newest.ns - multiply(newest.ticks - ticks, rate);
}

uint64_t clock_duration_ns(uint64_t from, uint64_t to)
{
	struct point newest;
	uint64_t rate;

	if (to <= from)
		return 0;
	if (!clock_uses_counter)
		return to - from;
	scale_for(to, &newest, &rate);
	while (!rate) { /* as in clock_ns(); a handful of instructions away */
		refresh();
		read_scale(&newest, &rate);
	}
	return multiply(to - from, rate);
}

uint64_t clock_span(uint64_t from, uint64_t to, uint64_t *ret_to_ns)
{
	struct point newest;
	uint64_t rate;

	if (clock_uses_counter)
		scale_for(to, &newest, &rate);
	if (!clock_uses_counter || !rate || to < newest.ticks || to <= from) {
		*ret_to_ns = clock_ns(to);
		return clock_duration_ns(from, to);
	}
	*ret_to_ns = newest.ns + multiply(to - newest.ticks, rate);
	return multiply(to - from, rate);
}

uint64_t clock_ticks_in(uint64_t ns)
{
	struct point newest;
	uint64_t rate;

	if (!clock_uses_counter)
		return ns;
	read_scale(&newest, &rate);
	return rate ? (uint64_t)(((unsigned __int128)ns << SHIFT) / rate) : 0;
}
