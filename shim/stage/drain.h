// SPDX-License-Identifier: MIT
/*
 * Drain: calls of the driver that wait for a stream or the device in the middle of it, perhaps with locks held that submissions of all threads need
 * (frees, the end of a registration, copies of the driver's own, loading, limits). A large staged copy submits behind a gate that it opens itself: were it held up by such a lock, neither
 * would ever end. So the two keep out of each other's way (stage.h). Used by the wrappers of such calls, and by the rewrites where they
 * make one by themselves.
 */
#ifndef SLIPSTREAM_STAGE_DRAIN_H
#define SLIPSTREAM_STAGE_DRAIN_H

#include <stdint.h>

#include "stage/stage.h"

/* Not 0: copies may be staged. Written once, by the rewrite of copies when it starts; before, no wrapper needs to look at gates. */
extern uint32_t stage_on;

/* The status of a call of the driver that drains. The word is used for nothing else here: chunks are emptied, contexts synchronized, blocks given back. */
#define DRAINING(call_)                                                                            \
	({                                                                                         \
		uint32_t gates_ = __atomic_load_n(&stage_on, __ATOMIC_RELAXED);                    \
		CUresult status_;                                                                  \
                                                                                                   \
		if (gates_)                                                                        \
			stage_drain_begin();                                                       \
		status_ = (call_);                                                                 \
		if (gates_)                                                                        \
			stage_drain_end();                                                         \
		status_;                                                                           \
	})

#endif
