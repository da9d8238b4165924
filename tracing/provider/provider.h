// SPDX-License-Identifier: MIT
/*
 * Provider: what `libslipstream-lttng.so` offers to the preload library, which opens it with dlopen()
 * and never closes it. The one symbol is `slipstream_trace_provider`; nothing of LTTng appears here.
 *
 * Every function may be called from any thread, with no lock of the shim held, and does not block on a
 * session daemon once the library is loaded. A channel that was made with a blocking timeout makes an
 * emitter block, since its user asked for that. errno may change.
 */
#ifndef SLIPSTREAM_TRACING_PROVIDER_H
#define SLIPSTREAM_TRACING_PROVIDER_H

#include <stdbool.h>
#include <stdint.h>

#include "tracing/event.h"

#define TRACE_PROVIDER_SYMBOL "slipstream_trace_provider"
#define TRACE_PROVIDER_MAGIC  UINT64_C(0x32565250504c5353)

struct trace_emitter {
	/* 0 while no session records this event, so that a program without one pays for a load and a branch; else ask. */
	const int *state;
	bool (*is_enabled)(void);        /* does any session record this event? */
	void (*emit)(const void *event); /* struct trace_<event>; only where is_enabled() said so */
};

struct trace_provider {
	uint64_t magic;       /* TRACE_PROVIDER_MAGIC; changes with this structure */
	uint32_t event_count; /* TRACE_EVENT_COUNT of the provider's build */
	uint32_t schema;      /* TRACE_SCHEMA: provider and library must be of one build */
	const struct trace_emitter *emitters; /* by enum trace_event */

	/*
	 * The process that the tracer works for: the one that loaded it, or a child whose fork it
	 * was told of. In any other process events would bear the wrong process id.
	 */
	uint32_t (*process)(void);
	/* Has `end` called among the exit handlers, at the last moment at which events arrive. */
	void (*at_end)(void (*end)(void));
};

#endif
