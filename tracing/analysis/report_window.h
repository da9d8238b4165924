// SPDX-License-Identifier: MIT
/* The selection (tools/report_select.h) against events and processes of a trace. */
#ifndef SLIPSTREAM_TRACING_REPORT_WINDOW_H
#define SLIPSTREAM_TRACING_REPORT_WINDOW_H

#include "tracing/analysis/report_consumer.h"

/* The time that is selected, in analysis_event.ns. */
struct report_window {
	bool is_set;
	int64_t begin_ns, end_ns;
};

void report_window_set(struct report_window *window, const struct report_request *request,
		       int64_t first_ns);

/* To be called with every event: the first one sets it. */
static inline void report_window_begin(struct report_window *window,
				       const struct report_request *request, int64_t first_ns)
{
	if (!window->is_set)
		report_window_set(window, request, first_ns);
}

static inline bool report_window_has(const struct report_window *window, int64_t ns)
{
	return ns >= window->begin_ns && ns <= window->end_ns;
}

/* By rank, host and pid. */
bool report_selects(const struct report_select *select, const struct model_process *process);

#endif
