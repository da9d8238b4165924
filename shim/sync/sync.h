// SPDX-License-Identifier: MIT
/*
 * Sync: decides what a call waited for. Reads the call (operands, pending snapshot, times) and the
 * catalogue's rules, gives emit one finding: rule, blocked time, idle basis, candidates, call site.
 */
#ifndef SLIPSTREAM_SYNC_SYNC_H
#define SLIPSTREAM_SYNC_SYNC_H

#include <stdint.h>

#include <cuda.h>

struct call;
struct state_launch;

/*
 * After the real call, before state learns its effects. Converts the clock ticks, tries the row's
 * rules in order, takes the call site only if there is something to report. Any thread; errno is
 * left alone; no allocation outside the emit arena.
 */
void sync_after(struct call *call, CUresult result);

/* Of a launch: clock ticks, and where it was called from (call.h). */
struct sync_launch {
	uint64_t entered, left;
	const void *return_address, *frame;
};

/* After a short launch that joins (state_launch_joins()), which was done. As sync_after() otherwise. */
void sync_launch_joined(uint32_t function, const struct state_launch *launch,
			const struct sync_launch *at);

/*
 * Reads config.calibration; a bad file: one line on stderr, ignored. Does its work once. After
 * config_load(): entry calls it once cuInit succeeded.
 */
void sync_prepare(void);

#endif
