// SPDX-License-Identifier: MIT
/*
 * What the kernel saw: the events of slipstream-witness, summed for the report
 * (tools/witness_summary.h). Part of the report's consumer.
 */
#ifndef SLIPSTREAM_TRACING_WITNESS_H
#define SLIPSTREAM_TRACING_WITNESS_H

#include "tracing/analysis/consumer.h"

struct report;
struct witness_summary;

/* Of all events of a trace few are of these. */
static inline bool witness_wants(enum trace_event id)
{
	return id == TRACE_WITNESSED || id == TRACE_CLAIMED;
}

/* An event of any kind; others than the witness's are passed over. */
void witness_take(struct witness_summary *summary, const struct model *model,
		  const struct analysis_event *event);

/* The process is one of slipstream-witness's trace. */
bool witness_is_source(const struct model *model, uint32_t process);

/* At the end: the counts of the processes that are selected, and the object of the report. */
void witness_finish(struct witness_summary *summary, const struct model *model,
		    bool (*is_wanted)(void *context, uint32_t process), void *context,
		    struct report *report);

#endif
