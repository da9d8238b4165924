// SPDX-License-Identifier: MIT
/*
 * Events: what the rewrites do, for a trace (tracing/events.yaml: real_free, rewritten), and where the driver freed, for the record file
 * (RECORD_REAL_FREE). Called by the rewrites, behind what they tell of, with no lock held: a tracer may block. Other counts are counts.c's,
 * reasons are notes (NOTE_REWRITE).
 */
#ifndef SLIPSTREAM_REWRITE_EVENTS_H
#define SLIPSTREAM_REWRITE_EVENTS_H

#include <stdint.h>

#include "config.h"
#include "emit/emit.h"
#include "emit/usdt.h"

struct call;

/*
 * The driver freed `blocks` of the rewrite's blocks in this call, which took long. `why`: a constant text, as in the note; `bytes`: that the
 * program allocates or frees in it. Takes the stack.
 */
void events_real_free(const struct call *call, enum config_fix rewrite, const char *why,
		      uint32_t blocks, uint64_t bytes);

/*
 * The rewrite's word of SLIPSTREAM_FIX (options.def has them, in the order of the bits), as a string id: what every record and event calls it.
 * Waits for nothing; any thread.
 */
uint32_t events_name(enum config_fix rewrite);

/* What a listener is told of a call that was rewritten. Behind what it tells of. */
void events_listen(const struct call *call, enum config_fix rewrite, uint32_t how, uint64_t bytes);

/* Slow way of events_rewritten(). */
void events_call(const struct call *call, enum config_fix rewrite, uint32_t how, uint64_t bytes);

/* A call was rewritten; `how`: TRACE_REWRITTEN_<how>. Two loads where the trace is not of level full and nobody listens. */
static inline void events_rewritten(const struct call *call, enum config_fix rewrite, uint32_t how,
				    uint64_t bytes)
{
	if (USDT_LISTENS(rewrite))
		events_listen(call, rewrite, how, bytes);
	if (__builtin_expect(emit_traces_full(), 0))
		events_call(call, rewrite, how, bytes);
}

#endif
