// SPDX-License-Identifier: MIT
/* The event of robust_emitter.c: named as the provider's, with two of its fields. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER slipstream

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "robust_emitter_events.h"

#if !defined(SLIPSTREAM_TESTS_ROBUST_EMITTER_EVENTS_H) ||                                          \
	defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SLIPSTREAM_TESTS_ROBUST_EMITTER_EVENTS_H

#include <lttng/tracepoint.h>

#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(slipstream, wait,
			   LTTNG_UST_TP_ARGS(uint32_t, wait, uint64_t, blocked_ns),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, wait, wait)
						       lttng_ust_field_integer(uint64_t, blocked_ns,
									       blocked_ns)))

#endif

#include <lttng/tracepoint-event.h>
