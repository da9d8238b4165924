// SPDX-License-Identifier: MIT
/*
 * Check, what an operation means to those who are not seen (lane.h): the host may hear of it without a call of the driver, from a host function, or because
 * it looks at memory that the operation writes; or the operation waits for something that anybody may do. Called by the engine with no lock held.
 *
 * What merely may be so counts as so: an edge that is missed would be a race that is none.
 */
#include "check/access.h"
#include "check/internal.h"
#include "check/lane.h"
#include "check/memory_kinds.h"

#include <string.h>

#include "state/state.h"

/* The host may look at what a kernel writes there, and the kernel at what the host writes. */
static bool is_host_word(uint64_t word)
{
	struct state_range range;

	return word && state_range_of(word, &range) && check_is_common(range.kind);
}

/* A flag of the device, which kernels of other streams may write while this one looks at it. */
static bool is_flag_word(uint64_t word)
{
	struct state_range range;

	return word && state_range_of(word, &range) &&
	       range.address + range.bytes - word <= FLAG_BYTES;
}

static enum lane_meeting of_kernel(const struct call *call, const uint64_t *arguments)
{
	if (parameters_may_hold(call, arguments, is_host_word))
		return MEETING_HOST;
	return parameters_may_hold(call, arguments, is_flag_word) ? MEETING_UNKNOWN : MEETING_NONE;
}

/* A few bytes that the host may look at until they come. */
static enum lane_meeting of_copy(const struct call *call)
{
	return call->bytes <= FLAG_BYTES && check_is_common(call->destination_kind) ? MEETING_HEARD
										    : MEETING_NONE;
}

static bool only_waits(const struct call *call)
{
	const char *name = function_names[call->function];

	return strstr(name, "WaitValue") || strstr(name, "WaitExternal");
}

enum lane_meeting meeting_of(const struct call *call, const uint64_t *arguments)
{
	uint8_t kind = catalogue_rows[call->function].kind;

	switch (call->operation) {
	case OPERATION_KERNEL:
		return of_kernel(call, arguments);
	case OPERATION_COPY:
	case OPERATION_MEMSET:
		return of_copy(call);
	case OPERATION_HOST_FUNCTION:
	case OPERATION_GRAPH: /* has nodes of all kinds */
		return MEETING_HOST;
	case OPERATION_MEMORY_OP: /* a value that anybody writes, or waits for */
		return only_waits(call) ? MEETING_UNKNOWN : MEETING_HOST;
	case OPERATION_OTHER:
		if (kind != CATALOGUE_KIND_EXTERNAL && kind != CATALOGUE_KIND_GRAPHICS)
			return MEETING_NONE;
		return only_waits(call) ? MEETING_UNKNOWN : MEETING_HOST;
	default:
		return MEETING_NONE;
	}
}
