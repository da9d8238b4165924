// SPDX-License-Identifier: MIT
/*
 * The part of a process's life that a trace holds, and why the report cannot speak for the rest. Of
 * report_consumer.c only; one thread.
 */
#ifndef SLIPSTREAM_TRACING_REPORT_PART_H
#define SLIPSTREAM_TRACING_REPORT_PART_H

#include "report.h"
#include "tracing/analysis/consumer.h"

/* Of one process, once the trace has been read. `first_wait_ns`: when its first wait began; 0 none. */
struct record_span report_part_span(const struct model *model, uint32_t process,
				    int64_t first_wait_ns);

/* Reasons for doubt, after report_finish(): what is before, between and behind what was recorded. */
void report_part_find_reasons(struct report *report);

#endif
