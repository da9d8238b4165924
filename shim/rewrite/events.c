// SPDX-License-Identifier: MIT
/*
 * Events of the rewrites (events.h). Relies on emit.h, which sends them, and on sync/site.h.
 */
#include "rewrite/events.h"

#include <string.h>

#include "call.h"
#include "state/state.h"
#include "state/stream.h"
#include "sync/site.h"

/* The word of SLIPSTREAM_FIX, as a string id. */
static uint32_t name_of(enum config_fix rewrite)
{
	const char *word = config_fix_words();
	uint32_t number;

	for (number = (uint32_t)__builtin_ctz(rewrite); number; number--)
		word += strcspn(word, "|") + 1;
	return emit_string(word, strcspn(word, "|"));
}

void events_real_free(const struct call *call, enum config_fix rewrite, const char *why,
		      uint32_t blocks, uint64_t bytes)
{
	struct trace_real_free event;

	if (!blocks || !emit_records(TRACE_REAL_FREE))
		return;
	event.name = name_of(rewrite);
	event.why = emit_string(why, strlen(why));
	event.function = call->function;
	event.site = site_take(call->return_address, call->frame);
	event.blocks = blocks;
	event.bytes = bytes;
	emit_trace(TRACE_REAL_FREE, &event);
}

void events_call(const struct call *call, enum config_fix rewrite, uint32_t how, uint64_t bytes)
{
	struct trace_rewritten event;

	if (!emit_records(TRACE_REWRITTEN))
		return;
	event.name = name_of(rewrite);
	event.how = how;
	event.function = call->function;
	event.stream = call->stream ? state_stream_number(call->stream) : 0;
	event.bytes = bytes;
	emit_trace(TRACE_REWRITTEN, &event);
}
