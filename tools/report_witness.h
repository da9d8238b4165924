// SPDX-License-Identifier: MIT
/*
 * Report, what the kernel saw: the object "witness" (witness_summary.h) as a section of the text and
 * an object of the JSON, its frames with symbols. Nothing where report->witness is NULL.
 */
#ifndef SLIPSTREAM_TOOLS_REPORT_WITNESS_H
#define SLIPSTREAM_TOOLS_REPORT_WITNESS_H

#include "report.h"

struct lines;

/* Takes the object over; one that is not what it should be is a problem of the report. */
void report_witness_set(struct report *report, json_t *witness);
/* Calls were seen, whatever else is known. */
bool report_witness_has_calls(const struct report *report);
void lines_add_witness(const struct lines *lines, struct report *report);
void report_witness_json(struct report *report, json_t *object);

#endif
