// SPDX-License-Identifier: MIT
/*
 * State: what the shim knows of the program's contexts, streams, events, allocations and kernels.
 * Wrappers call in here with the facts of one call; sync reads what was pending. The catalogue
 * names the hooks below (`before:`, `after:`, `result:`); each takes the call first. Every function
 * may be called from any thread, never fails visibly (what cannot be stored is counted in a note),
 * never blocks on the driver, and leaves errno alone.
 */
#ifndef SLIPSTREAM_STATE_STATE_H
#define SLIPSTREAM_STATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "call.h"

/*
 * Every classified call. state_after() must follow state_before() whatever the result: it settles
 * what the hooks began.
 */
/* Resolves context, stream, operands; takes the snapshot of what is pending. */
void state_before(struct call *call);
/* Numbers the submission; advances completion by what the rule proves. */
void state_after(struct call *call, CUresult result);

/* Contexts. A context is known by its id (cuCtxGetId); handles come back with new ids. */
void state_context_created(struct call *call, CUcontext context);
void state_primary_retained(struct call *call, CUcontext context, CUdevice device);
/* As it was created with. */
void state_context_flags(struct call *call, CUcontext context, unsigned int flags);
void state_context_destroying(struct call *call, CUcontext context);
void state_primary_resetting(struct call *call, CUdevice device);
void state_primary_releasing(struct call *call);
/* Result hook. */
void state_primary_released(struct call *call, CUresult result);

/* Streams. Handles 0, 1, 2 are never given to these. */
void state_stream_created(struct call *call, CUstream stream, unsigned int flags);
void state_stream_destroying(struct call *call, CUstream stream);
/* Attributes of call->stream were set. */
void state_stream_attributes(struct call *call);

/*
 * Events. A record is begun before the real call and settled in state_after(): while two threads
 * record one event, or a wait overlaps a record, nobody can know which record the driver saw, so it
 * proves nothing. Rows: `before: event_recording(hEvent)`, `after: event_recorded(hEvent)`.
 */
void state_event_recording(struct call *call, CUevent event);
void state_event_created(struct call *call, CUevent event, unsigned int flags);
void state_event_destroying(struct call *call, CUevent event);
void state_event_recorded(struct call *call, CUevent event);
/* CU_EVENT_RECORD_EXTERNAL: each launch of the graph records it, and the capture is not to be waited into. */
void state_event_recorded_with(struct call *call, CUevent event, unsigned int flags);
void state_event_waited(struct call *call, CUevent event); /* cuStreamWaitEvent */
/* Not a hook. Does this wait make its stream part of a capture, and is no operation then? */
bool state_draws_into_capture(const struct call *call);
/*
 * Something the shim cannot see records this event (graph node, launch attribute, another process):
 * it proves nothing, for good.
 */
/* A variable of a module: it may be managed memory. */
void state_global_asked(struct call *call);
/* Something that others can make the device wait for, without a call of this process. */
void state_outside(struct call *call);
void state_event_foreign(struct call *call, CUevent event);

/* What the host has observed: `result` hooks; only CUDA_SUCCESS proves anything. */
/* Synchronize or query of call->stream. */
void state_stream_observed(struct call *call, CUresult result);
/* Synchronize or query of call->subject. */
void state_event_observed(struct call *call, CUresult result);
/* cuCtxSynchronize. */
void state_context_observed(struct call *call, CUresult result);

/*
 * Memory. Freeing takes the range out before the real call, since its address may be handed out
 * again before that call returns here; `freed` puts it back when the driver refused.
 */
void state_allocated(struct call *call, enum memory_kind kind, uint64_t address, uint64_t bytes);
/* The range with this address is from a pool that the program named: on a device, perhaps. */
void state_unplaced(struct call *call, uint64_t address);
/*
 * Of a size that the call does not say (another process's block): asks the driver for its range, a
 * plain getter.
 */
void state_mapped(struct call *call, enum memory_kind kind, uint64_t address);
void state_freeing(struct call *call, uint64_t address);
void state_freed(struct call *call, CUresult result);
/* The same of pinned memory that a rewrite hands out, or is about to give back to the driver, where no call tells of it. */
void state_pinned_begins(uint64_t address, uint64_t bytes);
void state_pinned_ends(uint64_t address);
/*
 * The same of device memory that a rewrite takes from the program (short.h). Its bytes; 0: it is not known as a block of its own without attributes, or a
 * context has SYNC_MEMOPS, and nothing has happened. Begins again: it was not taken after all.
 */
uint64_t state_device_ends(uint64_t address);
/* Bytes of memory on all devices that the program has, as far as calls told of it: no arrays, nothing of other processes. */
uint64_t state_device_bytes(void);
void state_device_begins(uint64_t address, uint64_t bytes);
void state_host_registered(struct call *call, const void *address, uint64_t bytes);

/* Kernels: names for handles, so that a candidate can be named without asking the driver. */
void state_function_named(struct call *call, CUfunction function, const char *name);
void state_kernel_named(struct call *call, CUkernel kernel, const char *name);
void state_kernel_function(struct call *call, CUfunction function, CUkernel kernel);
/* cuModuleUnload, cuLibraryUnload: function handles named again from now on are new functions. */
void state_module_unloading(struct call *call);

/* Capture. From before the real begin to its end no rewrite is made (state/proof.h). */
void state_capture_beginning(struct call *call);
void state_capture_began(struct call *call, CUresult result);
void state_capture_begun(struct call *call, CUstream stream, CUstreamCaptureMode mode);
void state_capture_ending(struct call *call);
/*
 * `result` hook of cuStreamEndCapture: also ends on the failures after which the stream captures no
 * more. What ends is the capture that went on at the call's entry, and once.
 */
void state_capture_result(struct call *call, CUresult result);

/*
 * SYNC_MEMOPS set on the range with this address; 0: on the current context; UINT64_MAX: the call
 * set something else.
 */
void state_sync_memops(struct call *call, uint64_t address);

/* Not a hook. What the address lies in can be reached from outside (exported, dma-buf, P2P token): its `freed_flags` are then not 0. */
void state_memory_shared(uint64_t address);

/*
 * A call that may put work on the device, begin a capture or free a block went past the rooms, or may do so: from now on nothing is proven
 * (state/proof.h). Also from signal handlers, at any moment.
 */
void state_unseen(void);

/* In a forked child, before anything else here: forget everything, locks included. */
void state_forked(void);

/* The calling thread ends: nobody looks into its counters any more when this returns. Needs no lock, which the thread may be inside. */
void state_thread_ends(void);
/*
 * Behind it, where the thread is inside no call: its per-thread streams may be taken over once they are known
 * complete.
 */
void state_thread_exit(void);

/* With this status, did the call put nothing on its stream, for certain? */
bool state_was_refused(const struct call *call, CUresult result);

/* Do the streams of `pending` lie in this scope (enum catalogue_scope) of the call? */
bool state_in_scope(const struct call *call, const struct state_stream *stream, unsigned int scope);
/* Does any of them, of those that fit? */
bool state_has_pending(const struct call *call, unsigned int scope);
/* How many fit into pending[]. */
static inline uint32_t state_pending_stored(const struct call *call)
{
	return call->pending_count < CALL_PENDING_MAX ? call->pending_count : CALL_PENDING_MAX;
}

/*
 * For calls that no rule explains, after the real call (any.c): streams of any context with work
 * not known complete, at most `most` of them. What another thread submitted meanwhile is among
 * them.
 */
uint32_t state_pending_anywhere(struct call_pending *ret_pending, uint32_t most);

/* For check. */
struct state_range {
	uint64_t address, bytes;
	uint32_t kind; /* enum memory_kind */
};
/* The range of memory that the address lies in. False: none is known. */
bool state_range_of(uint64_t address, struct state_range *ret_range);

/* For emit: what a candidate is called. */
struct emit_candidate;
void state_candidate(const struct call_pending *pending, struct emit_candidate *ret_candidate);
uint64_t state_context_id(const struct state_context *context);
/* Is there no other one, as far as was seen? NULL: false. */
bool state_is_alone(const struct state_context *context);
/* Its device, -1: not known. */
int state_context_device(const struct state_context *context);
/* Of a context in definitions and events, from 1; 0: not written down. */
uint32_t state_context_number(const struct state_context *context);

/* For the legacy room. */
struct legacy_context;
/* How often attributes of its legacy stream were set. */
uint32_t state_legacy_attributes(const struct state_context *context);
struct state_stream *state_legacy_of(const struct state_context *context);
/* NULL: not known. */
struct state_stream *state_stream_of(CUstream handle);
/* The calling thread's, asked of the driver; NULL: none, or not known. */
struct state_context *state_context_current(void);
struct state_context *state_context_of(const struct state_stream *stream);
struct state_context *state_context_by_handle(uint64_t handle);
/* Words that it keeps here; only it reads and writes them. The stream's are 0 for each new stream. */
struct legacy_context **state_legacy_slot(struct state_context *context);
uint64_t *state_legacy_epoch(struct state_stream *stream);
uint32_t *state_legacy_told(struct state_stream *stream);

/* For the trace. */
/* Of a stream in definitions and events, from 1; 0: NULL. */
uint32_t state_stream_number(const struct state_stream *stream);
/* An emit_allocations: blocks above an address that are allocated now. */
struct emit_allocation;
size_t state_open_allocations(uint64_t after, struct emit_allocation *ret_found, size_t most);

/* For guard (shim/guard/). */
/* What an event stands for at this moment, until it is recorded again. `stream` NULL, and known: nothing, it was never recorded. */
struct state_stands_for {
	const struct state_stream *stream;
	uint64_t number;
	bool is_known;
};
struct state_stands_for state_event_stands_for(uint64_t handle);
/* Something unseen, or another process, records or waits for this event, or may; true of events that nobody saw made. */
bool state_event_is_foreign(uint64_t handle);
/* Newest operation of the stream that is known complete. */
uint64_t state_completed(const struct state_stream *stream);
/* Does it take part in legacy order, or may it? */
bool state_may_join(const struct state_stream *stream);
/*
 * The allocation or registration that the address lies in, its kind, MEMORY_NONE: none that was seen, MEMORY_UNKNOWN: nobody could look.
 */
enum memory_kind state_block_at(uint64_t address, uint64_t *ret_start, uint64_t *ret_bytes);

#endif
