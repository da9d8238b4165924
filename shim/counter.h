// SPDX-License-Identifier: MIT
/* Counter: a word that one thread counts up and anybody reads. */
#ifndef SLIPSTREAM_COUNTER_H
#define SLIPSTREAM_COUNTER_H

#include <stdint.h>

/* Adds one to a counter that only this thread writes; others may read it at any time. */
static inline void counter_add(uint64_t *counter)
{
#if defined(__x86_64__)
	/* One instruction, so that what a signal handler counts there is not lost. */
	__asm__ volatile("incq %0" : "+m"(*counter) : : "cc");
#else
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
#endif
}

#endif
