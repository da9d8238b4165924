// SPDX-License-Identifier: MIT
/*
 * Sync: decides what a call waited for. Reads the call (operands, pending snapshot, times) and the
 * catalogue's rules, gives emit one finding: rule, blocked time, idle basis, candidates, call site.
 */
#ifndef SLIPSTREAM_SYNC_SYNC_H
#define SLIPSTREAM_SYNC_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct call;

/*
 * Ticks within which a launch that has nothing to join is no finding: the threshold, or 20 us if
 * that is less. 0 until the clock's rate is known. Written by whoever comes first, same value but
 * for the clock's precision; read by every launch.
 */
extern uint64_t sync_quick_ticks __attribute__((visibility("hidden")));

/* Is a launch that took so many ticks no finding, whatever else? */
static inline bool sync_is_short(uint64_t ticks)
{
	return ticks < __atomic_load_n(&sync_quick_ticks, __ATOMIC_RELAXED);
}

/*
 * After the real call, before state learns its effects. Converts the clock ticks, tries the row's
 * rules in order, takes the call site only if there is something to report. Any thread; errno is
 * left alone; no allocation outside the emit arena.
 */
void sync_after(struct call *call, CUresult result);

/*
 * Reads config.calibration; a bad file: one line on stderr, ignored. Does its work once. After
 * config_load(): entry calls it once cuInit succeeded.
 */
void sync_prepare(void);

#endif
