// SPDX-License-Identifier: MIT
/*
 * Consumer: one analysis of a trace (report, timeline, page, what-if). It sees the events of all
 * processes in order of time, each after the model has taken it in, and writes its result at the
 * end, which also comes when the user interrupts or the trace breaks off: then with what there is.
 *
 * One thread; a consumer never reads the trace itself and never keeps a pointer to an event.
 */
#ifndef SLIPSTREAM_TRACING_CONSUMER_H
#define SLIPSTREAM_TRACING_CONSUMER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tracing/analysis/model.h"
#include "tracing/event.h"

struct analysis_event {
	enum trace_event id;
	uint32_t process; /* number of its model_process */
	uint32_t thread;  /* kernel thread id in its own pid namespace; 0 unknown */
	int64_t ns; /* when it was emitted: its host's CLOCK_MONOTONIC, moved to the common origin */
	const void *payload; /* struct trace_<event>; valid during the call only */
};

/* What is known of the trace as a whole when the consumers finish. */
struct analysis_end {
	int64_t begin_ns, end_ns; /* of the first and last event; 0, 0: none */
	uint64_t events;
	uint64_t discarded;         /* events that the tracer counted as lost */
	uint64_t discarded_packets; /* lost whole, with who knows how many events */
	const char *const
		*notes; /* one line each: what in the trace was not understood, and left out */
	size_t note_count;
	bool interrupted;   /* the user stopped the analysis: what follows was not read */
	const char *broken; /* one line: the trace broke off (damaged, cut); NULL: it did not */
};

/* Each returns 0 or -errno with one line in *reterr_text (the caller frees). */
struct consumer_ops {
	const char *name;
	int (*event)(void *consumer, const struct model *model, const struct analysis_event *event,
		     char **reterr_text);
	int (*finish)(void *consumer, const struct model *model, const struct analysis_end *end,
		      char **reterr_text);
	void (*free)(void *consumer);
};

#endif
