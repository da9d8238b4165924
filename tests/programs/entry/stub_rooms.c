// SPDX-License-Identifier: MIT
/* Stand-ins for the rooms state and sync, for a build without them. Not part of the shim. */
#include "entry/entry.h"

void state_before(struct call *call)
{
}

void state_after(struct call *call, CUresult result)
{
}

void state_context_created(struct call *call, CUcontext context)
{
}

void state_context_destroying(struct call *call, CUcontext context)
{
}

void state_primary_resetting(struct call *call, CUdevice device)
{
}

void state_stream_created(struct call *call, CUstream stream, unsigned int flags)
{
}

void state_stream_destroying(struct call *call, CUstream stream)
{
}

void state_event_recording(struct call *call, CUevent event)
{
}

void state_event_created(struct call *call, CUevent event, unsigned int flags)
{
}

void state_event_destroying(struct call *call, CUevent event)
{
}

void state_event_recorded(struct call *call, CUevent event)
{
}

void state_event_waited(struct call *call, CUevent event)
{
}

void state_event_foreign(struct call *call, CUevent event)
{
}

void state_stream_observed(struct call *call, CUresult result)
{
}

void state_event_observed(struct call *call, CUresult result)
{
}

void state_context_observed(struct call *call, CUresult result)
{
}

void state_allocated(struct call *call, enum memory_kind kind, uint64_t address, uint64_t bytes)
{
}

void state_freeing(struct call *call, uint64_t address)
{
}

void state_freed(struct call *call, CUresult result)
{
}

void state_host_registered(struct call *call, const void *address, uint64_t bytes)
{
}

void state_function_named(struct call *call, CUfunction function, const char *name)
{
}

void state_kernel_named(struct call *call, CUkernel kernel, const char *name)
{
}

void state_kernel_function(struct call *call, CUfunction function, CUkernel kernel)
{
}

void state_module_unloading(struct call *call)
{
}

void state_capture_begun(struct call *call, CUstream stream, CUstreamCaptureMode mode)
{
}

void state_capture_ended(struct call *call, CUstream stream)
{
}

void state_capture_result(struct call *call, CUresult result)
{
}

void state_sync_memops(struct call *call, uint64_t address)
{
}

void state_forked(void)
{
}

void state_thread_exit(void)
{
}

void state_candidate(const struct call_pending *pending, struct emit_candidate *ret_candidate)
{
}

void sync_after(struct call *call, CUresult result)
{
}

uint32_t state_stream_kind(const struct state_stream *stream)
{
	return STREAM_UNKNOWN;
}
