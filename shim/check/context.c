// SPDX-License-Identifier: MIT
/*
 * Check, S07, its half about contexts: work is put on a stream of a context that is not the thread's current one. The driver takes copies and memsets
 * there. Of operands on several devices see the engine.
 */
#include "check/internal.h"

#include "state/state.h"

/* Waits, values, frees and host functions may well come from outside; graphs bring their own contexts. */
static bool is_work(const struct call *call)
{
	return call->operation == OPERATION_KERNEL || call->operation == OPERATION_COPY ||
	       call->operation == OPERATION_MEMSET;
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	const struct state_context *current;

	(void)arguments;
	/* A peer copy has two contexts. */
	if (result != CUDA_SUCCESS || !is_work(call) || !call->stream ||
	    call_is_own_handle(call->stream_handle) || call->flags & CALL_TWO_CONTEXTS)
		return;
	current = state_context_current();
	if (current && call->context && current != call->context)
		check_remark(call, RULE_FOREIGN_CONTEXT, NULL);
}

const struct check_rule check_context_rule = {.after = after};
