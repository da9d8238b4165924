// SPDX-License-Identifier: MIT
/*
 * Held waits: waits in the order of the trace, kept until the definitions they need have come. A
 * session that started late has them with the next dump, at most a second later: a wait is given
 * out, with what is known then, once its definitions are complete, two seconds have passed, or 4096
 * waits are held. Nothing overtakes. One thread.
 */
#ifndef SLIPSTREAM_TRACING_HELD_WAITS_H
#define SLIPSTREAM_TRACING_HELD_WAITS_H

#include "tracing/analysis/consumer.h"

#define HELD_WAITS_MAX 4096
#define HELD_WAITS_NS  INT64_C(2000000000)

struct held_wait {
	struct analysis_event event; /* payload NULL */
	struct trace_wait wait;
};

struct held_waits {
	struct held_wait *ring; /* HELD_WAITS_MAX; NULL before the first */
	size_t first, count;
};

void held_waits_done(struct held_waits *held);

/* The caller takes out first (held_waits_next()) until there is room. */
static inline bool held_waits_full(const struct held_waits *held)
{
	return held->count == HELD_WAITS_MAX;
}
void held_waits_add(struct held_waits *held, const struct analysis_event *event);

/*
 * The next one that need not be held any longer; NULL: none. `now_ns`: time of the trace so far;
 * INT64_MAX: it has ended. Valid until the next call.
 */
const struct held_wait *held_waits_next(struct held_waits *held, const struct model *model,
					int64_t now_ns);

#endif
