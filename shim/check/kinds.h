// SPDX-License-Identifier: MIT
/*
 * Internal: what a call is, where several rules ask it, in one place for the rules and for guard. By the function alone: whether it succeeded, and on what
 * it worked, is asked elsewhere. No state, any thread.
 */
#ifndef SLIPSTREAM_CHECK_KINDS_H
#define SLIPSTREAM_CHECK_KINDS_H

#include <stdbool.h>

#include "call.h"
#include "catalogue/catalogue.h"

/* Destroys, releases or resets one, or may do so: a detach does at the last use, which nobody counts. */
static inline bool check_ends_context(const struct call *call)
{
	return catalogue_rows[call->function].kind == CATALOGUE_KIND_CONTEXT &&
	       call->stream_form == CALL_STREAM_CONTEXT;
}

static inline bool check_destroys_stream(const struct call *call)
{
	return call->function == FUNCTION_cuStreamDestroy ||
	       call->function == FUNCTION_cuStreamDestroy_v2;
}

static inline bool check_destroys_event(const struct call *call)
{
	return call->function == FUNCTION_cuEventDestroy ||
	       call->function == FUNCTION_cuEventDestroy_v2;
}

/* Gives others, processes or cards, the block of the address in the second argument. */
static inline bool check_exports_block(const struct call *call)
{
	return call->function == FUNCTION_cuIpcGetMemHandle ||
	       call->function == FUNCTION_cuMemGetHandleForAddressRange;
}

static inline bool check_waits_for_stream(const struct call *call)
{
	return call->function == FUNCTION_cuStreamSynchronize ||
	       call->function == FUNCTION_cuStreamSynchronize_ptsz;
}

static inline bool check_queries_stream(const struct call *call)
{
	return call->function == FUNCTION_cuStreamQuery ||
	       call->function == FUNCTION_cuStreamQuery_ptsz;
}

static inline bool check_waits_for_event(const struct call *call)
{
	return call->function == FUNCTION_cuEventSynchronize;
}

static inline bool check_queries_event(const struct call *call)
{
	return call->function == FUNCTION_cuEventQuery;
}

/* Of two events: both are complete where it succeeds. */
static inline bool check_takes_time(const struct call *call)
{
	return call->function == FUNCTION_cuEventElapsedTime ||
	       call->function == FUNCTION_cuEventElapsedTime_v2;
}

#endif
