// SPDX-License-Identifier: MIT
/*
 * State: what the shim knows of the program's contexts, streams, events, allocations and kernels. Wrappers call in here with the facts of
 * one call; sync reads what was pending. The catalogue names the hooks below (`before:`, `after:`, `result:`); each takes the call
 * first. Every function may be called from any thread, never fails visibly (what cannot be stored is counted in a note), never blocks
 * on the driver, and leaves errno alone.
 */
#ifndef SLIPSTREAM_STATE_STATE_H
#define SLIPSTREAM_STATE_STATE_H

#include <cuda.h>

#include "call.h"

/* Every classified call. */
void state_before(struct call *call);                 /* resolve context, stream, operands, pending snapshot */
void state_after(struct call *call, CUresult result); /* number the submission; advance completion by what the rule proves */

/* Contexts. A context is known by its id (cuCtxGetId); handles come back with new ids. */
void state_context_created(struct call *call, CUcontext context);
void state_context_destroying(struct call *call, CUcontext context);
void state_primary_resetting(struct call *call, CUdevice device);

/* Streams. Handles 0, 1, 2 are never given to these. */
void state_stream_created(struct call *call, CUstream stream, unsigned int flags);
void state_stream_destroying(struct call *call, CUstream stream);

/* Events. */
void state_event_created(struct call *call, CUevent event, unsigned int flags);
void state_event_destroying(struct call *call, CUevent event);
void state_event_recorded(struct call *call, CUevent event);
void state_event_waited(struct call *call, CUevent event); /* cuStreamWaitEvent */

/* What the host has observed: `result` hooks; only CUDA_SUCCESS proves anything. */
void state_stream_observed(struct call *call, CUresult result);  /* synchronize or query of call->stream */
void state_event_observed(struct call *call, CUresult result);   /* synchronize or query of call->subject */
void state_context_observed(struct call *call, CUresult result); /* cuCtxSynchronize */

/* Memory. Freeing takes the range out before the real call, since its address may be handed out again before that
 * call returns here; `freed` puts it back when the driver refused. */
void state_allocated(struct call *call, enum memory_kind kind, uint64_t address, uint64_t bytes);
void state_freeing(struct call *call, uint64_t address);
void state_freed(struct call *call, CUresult result);
void state_host_registered(struct call *call, const void *address, uint64_t bytes);

/* Kernels: names for handles, so that a candidate can be named without asking the driver. */
void state_function_named(struct call *call, CUfunction function, const char *name);
void state_kernel_named(struct call *call, CUkernel kernel, const char *name);
void state_kernel_function(struct call *call, CUfunction function, CUkernel kernel);

/* Capture. */
void state_capture_begun(struct call *call, CUstream stream, CUstreamCaptureMode mode);
void state_capture_ended(struct call *call, CUstream stream);

/* SYNC_MEMOPS set on a range or a context. */
void state_sync_memops(struct call *call, uint64_t address);

#endif
