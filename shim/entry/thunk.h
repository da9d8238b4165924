// SPDX-License-Identifier: MIT
/*
 * Count-and-jump thunks (generated assembly): for exports whose prototype nobody knows. They keep
 * every argument register.
 */
#ifndef SLIPSTREAM_ENTRY_THUNK_H
#define SLIPSTREAM_ENTRY_THUNK_H

#include <stdint.h>

#include <cuda.h>

/* emit's block for them; NULL until the first call of a process. Thunks add to it atomically. */
extern uint64_t *entry_thunk_counters __attribute__((visibility("hidden")));

/* The way of the first call, of a forked child and of a missing function: counts, returns where to
 * jump. Called by the thunks only. */
void *entry_thunk_resolve(uint32_t function) __attribute__((visibility("hidden")));

/* Where a thunk without a driver's function jumps to. */
CUresult entry_thunk_missing(void) __attribute__((visibility("hidden")));

#endif
