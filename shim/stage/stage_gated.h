// SPDX-License-Identifier: MIT
/*
 * Stage gated: a copy of many pieces, between stage.c, which has all it needs, and the ring.
 */
#ifndef SLIPSTREAM_STAGE_STAGE_GATED_H
#define SLIPSTREAM_STAGE_STAGE_GATED_H

#include "stage/stage_ring.h"

enum stage_end {
	STAGE_END_DONE,
	STAGE_END_AGAIN, /* given up: nothing of it is under way any more, the driver is to copy */
	STAGE_END_LOST,  /* the same, but the device may still use the chunks */
};

/* `job` is prepared and has its chunks; `slot` is of copy_threads.h. Returns when the device has done all. */
enum stage_end stage_gated(struct stage_job *job, struct stage_ring *ring, int slot,
			   CUstream stream);

/* Closes the slot and waits until no helper is in the job. */
void stage_job_leave(struct stage_job *job, int slot);

#endif
