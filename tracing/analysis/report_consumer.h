// SPDX-License-Identifier: MIT
/*
 * The report of a trace, as a consumer: sums the waits, and at the end builds for each process the
 * record file that it would have left (report_image.h), so that the report of tools/ does the rest.
 */
#ifndef SLIPSTREAM_TRACING_REPORT_CONSUMER_H
#define SLIPSTREAM_TRACING_REPORT_CONSUMER_H

#include "report_select.h"
#include "report_trace.h"
#include "tracing/analysis/sink.h"

/* Everything in it stays the caller's and must live until the consumer finished. */
struct report_request {
	struct report_output *output;
	const struct report_select *select;
	int64_t range_begin_ns, range_end_ns; /* of the trace, for shares; 0, 0: not known */
	struct report_extra extra; /* of a consumer that was added before; key NULL: none */
};

/*
 * The consumer. Its finish fails with -ENODATA and one line where the trace has no event of
 * slipstream's, or no process that is selected.
 */
struct consumer report_consumer_new(const struct report_request *request);

/*
 * The finished report that such a consumer would write, for others that say the same, its reasons for doubt above all. Never
 * fails: without a process it is empty and says so. Looks into consumer and model as long as it lives; the caller ends it by
 * report_free().
 */
struct report *report_consumer_build(const struct consumer *consumer, const struct model *model,
				     const struct analysis_end *end);

#endif
