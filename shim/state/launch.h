// SPDX-License-Identifier: MIT
/*
 * Launch: the short way of a kernel launch that has nothing to say. Programs launch far more often
 * than they do anything else, and a launch may cost at most 1 % more: 30 ns on an H200, where a
 * clock reading right after a launch costs 40 (it waits for what the launch left unfinished), a
 * locked instruction there about 20, and each cache line that is touched 5 to 10.
 *
 * Most launches are plain: a stream and a function this thread used before, no capture, nothing to
 * join. For these the wrapper makes no struct call; it asks here before the launch and tells here
 * after it. A plain launch that fails or took long still goes through the rooms, afterwards, as a
 * CALL_LATE.
 *
 * Time. Of a plain launch with a short queue only one rule can report anything: a wait that no rule
 * explains, from 1 ms on. So where a thread launches in a row (LAUNCH_TIGHT, each soon after the
 * one before), only every LAUNCH_ROW-th launch reads the clock, and the next call of another kind:
 * if all launches since the last reading took less than that together, each did. If not, it is not
 * known whether a launch or the program took the time: that is counted (NOTE_UNTIMED), and the next
 * launches are timed one by one.
 *
 * Called by the generated wrappers and by state_before(). Any thread; no lock, no allocation.
 */
#ifndef SLIPSTREAM_STATE_LAUNCH_H
#define SLIPSTREAM_STATE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* Launches soon after each other until they count as a row. */
#define LAUNCH_TIGHT 4
/* Launches of a row for one reading of the clock; at 3 us each they take a fifth of what has to be proved. */
#define LAUNCH_ROW 64

struct state_stream;

enum launch_clock {
	LAUNCH_READ_BOTH, /* the clock is read before and after the launch */
	LAUNCH_READ_LEFT, /* after it */
};

struct state_launch {
	struct state_stream *stream;
	uint64_t youngest; /* what the stream's youngest operation becomes */
	enum launch_clock clock;
};

/*
 * Is this launch plain, and one of a row that need not be timed? Then the counter to add one to when
 * the launch has succeeded (only this thread writes it); else NULL, and the wrapper takes the long way,
 * which begins with the next function.
 */
uint64_t *state_launch_untimed(CUstream stream, CUfunction function, bool per_thread);

/* Is this launch plain? Fills *ret_launch if so. `per_thread`: entered under a _ptsz name. */
bool state_launch_is_plain(CUstream stream, CUfunction function, bool per_thread,
			   struct state_launch *ret_launch);

/*
 * The plain launch succeeded. `entered`, `left`: clock ticks, as far as launch->clock says they were
 * read. True: counted, done. False: it took long; the wrapper makes a struct call of it.
 */
bool state_launch_done(const struct state_launch *launch, uint64_t entered, uint64_t left);

/* Another call comes, or the thread's current context may have changed: the row ends here. */
void state_launch_end_row(void);

/*
 * Called by sync once it knows the clock's rate: ticks that a launch which has nothing to join can
 * take without being a finding, whatever its rules say (`quick`), and if no rule of its row has to
 * do with it (`plain`, more). Until then every launch takes the long way.
 */
void state_launch_limits(uint64_t quick, uint64_t plain);

#endif
