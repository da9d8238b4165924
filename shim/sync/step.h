// SPDX-License-Identifier: MIT
/*
 * Step: a region of the whole process that begins anew with each call of its marker (step.c); regions of threads lie in it (region.h). Called by sync,
 * nvtx.c and region.c, by any thread.
 */
#ifndef SLIPSTREAM_SYNC_STEP_H
#define SLIPSTREAM_SYNC_STEP_H

#include <stdbool.h>
#include <stdint.h>

struct emit_spent;

/* A new step begins, in the whole process. */
void step_begin(void);
/* Id of the step in the open record file; 0: no step has begun, or it has no record. */
uint32_t step_region_id(void);
/* What region_count() counts, for the step that runs. */
void step_count(const struct emit_spent *spent);

/* Reads SLIPSTREAM_STEP. Called once, before any call goes through sync. */
void step_prepare(void);
extern bool step_functions_any; /* written by step_prepare() only */
bool step_is_function(uint32_t function);

#endif
