// SPDX-License-Identifier: MIT
/*
 * World: a fake driver and short forms of the calls that the tests of state and sync make. Each
 * form walks a struct call through the rooms as a generated wrapper does.
 */
#ifndef SLIPSTREAM_FAKE_WORLD_H
#define SLIPSTREAM_FAKE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "call.h"

/* What the fake driver answers, per thread where it matters. */
extern __thread unsigned long long world_context; /* id of the current context; 0: none */
extern unsigned int world_context_flags;          /* what cuCtxGetFlags says */
extern unsigned int world_queries;                /* calls of cuStreamQuery */
extern CUresult world_query_result;               /* its answer */
extern bool world_legacy_implicated;              /* cuStreamIsCapturing(legacy) is an error */
extern CUstream world_captures;                   /* this stream captures */
extern __thread bool world_relaxed;               /* the thread is in the relaxed capture mode */
extern unsigned int world_unrelaxed_queries;      /* queries outside it */

/* Forgets everything in state and emit, and starts with context 1. A cmocka setup function. */
int world_begin(void **state);

/* Begins a call: all fields set, state_before() not yet called. */
struct call world_call(unsigned int function, CUstream stream);

void world_create_stream(CUstream stream, unsigned int flags);
void world_destroy_stream(CUstream stream);
void world_launch(CUstream stream, uint64_t function);
void world_synchronize(CUstream stream);
void world_create_event(CUevent event);
void world_record(CUevent event, CUstream stream);
void world_event_synchronize(CUevent event);
void world_context_synchronize(void);
void world_wait_event(CUstream stream, CUevent event);

/* Streams with work not known complete, as a free sees them: bit n for the n-th of `streams`. */
unsigned int world_pending(const CUstream *streams, unsigned int count);

#define STREAM(n)   ((CUstream)(uintptr_t)(0x1000 + 0x100 * (n)))
#define EVENT(n)    ((CUevent)(uintptr_t)(0x900000 + 0x40 * (n)))
#define KERNEL(n)   (UINT64_C(0xaa0000) + 0x80 * (n))
#define LEGACY      ((CUstream)0)
#define PER_THREAD_ ((CUstream)2)

#endif
