// SPDX-License-Identifier: MIT
/*
 * Staging: which copies go through pinned chunks of ours, and what they wait for first. What the files of it need of each other: staging.c
 * has the hooks, staging_memory.c looks at the two sides, staging_sizes.c knows from which size on it wins. The copy itself is
 * stage.h's.
 */
#ifndef SLIPSTREAM_REWRITE_STAGING_H
#define SLIPSTREAM_REWRITE_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "stage/stage.h"

struct call;

/* A copy that may be staged, with the bytes from the first to the last on either side, gaps between rows included. */
struct staging {
	struct stage_copy copy;
	size_t host_span, device_span;
};

/*
 * staging_operands.c: the copy as the program describes it, but for its context and stream. False: not one between host and device memory, or
 * one whose description the driver is to judge. The addresses are those that the catalogue takes out (call->source, call->destination).
 */
bool staging_describe(const struct call *call, struct staging *ret_staging);
bool staging_describe_2d(const struct call *call, const CUDA_MEMCPY2D *described,
			 struct staging *ret_staging);
bool staging_describe_3d(const struct call *call, const CUDA_MEMCPY3D *described,
			 struct staging *ret_staging);

/* staging_memory.c: why the memory is not what can be staged; NULL: it is. A constant text. */
const char *staging_memory_objection(const struct call *call, const struct staging *staging);
/* Once, after cuInit: why this machine copies better by itself; NULL: it does not. */
const char *staging_machine_objection(void);
/* Can a kernel write pageable memory here? Known after the former. */
bool staging_device_writes_pageable(void);

/* staging.c: once, after cuInit. */
void staging_start(void);

/* staging_sizes.c: once, after cuInit and before staging_start(): looks for sizes that were measured on this machine. */
void staging_sizes_start(void);
/* Is staging known to be faster? `busy`: the call's stream has work. `waits`: the driver's copy would wait for it. */
bool staging_wins(bool to_device, bool async, bool busy, bool waits, uint64_t bytes);
/* The same of a synchronous copy to the device whose source can be read while its stream is waited for: from so many bytes on. */
extern uint64_t staging_read_first_from;
/* It is false for less than so many bytes, but where a wait is left out. Constant once staging begins. */
extern uint64_t staging_least;

#endif
