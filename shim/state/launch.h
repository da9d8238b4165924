// SPDX-License-Identifier: MIT
/*
 * Launch: the short way of a kernel launch that has nothing to say. Programs launch far more often
 * than they do anything else, and a launch may cost at most 1 % more (35 ns on the machine of the
 * measurements, of which two clock readings take 16). Most launches are plain: a stream and a
 * function this thread used before, no capture, nothing to join. For these the wrapper makes no
 * struct call; it asks here before the launch, looks at the clock, and counts the submission here.
 * A plain launch that fails or takes long still goes through the rooms, afterwards, as a CALL_LATE.
 *
 * Called by the generated wrappers alone. Any thread; no lock, no allocation.
 */
#ifndef SLIPSTREAM_STATE_LAUNCH_H
#define SLIPSTREAM_STATE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct state_stream;

struct state_launch {
	struct state_stream *stream;
	uint64_t youngest; /* what the stream's youngest operation becomes */
};

/* Is this launch plain? Fills *ret_launch if so. `per_thread`: entered under a _ptsz name. */
bool state_launch_is_plain(CUstream stream, CUfunction function, bool per_thread,
			   struct state_launch *ret_launch);

/* The plain launch succeeded. */
void state_launch_submitted(const struct state_launch *launch);

#endif
