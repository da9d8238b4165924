// SPDX-License-Identifier: MIT
/*
 * What the rewrites of mode fix did, all processes together: a section of the text and a part of the JSON. Relies on the record files
 * being open.
 */
#ifndef SLIPSTREAM_TOOLS_REPORT_REWRITE_H
#define SLIPSTREAM_TOOLS_REPORT_REWRITE_H

#include "report.h"
#include "report_lines.h"

/* The figures of a record_rewrite, in the order of the report: FIGURE(name). */
#define REWRITE_FIGURES(FIGURE)                                                                    \
	FIGURE(hits)                                                                               \
	FIGURE(misses)                                                                             \
	FIGURE(unproven)                                                                           \
	FIGURE(parked)                                                                             \
	FIGURE(waits_avoided)                                                                      \
	FIGURE(waits_made)                                                                         \
	FIGURE(real_frees)                                                                         \
	FIGURE(purges)                                                                             \
	FIGURE(events)                                                                             \
	FIGURE(queries)                                                                            \
	FIGURE(held_bytes)                                                                         \
	FIGURE(peak_bytes)                                                                         \
	FIGURE(live_bytes)                                                                         \
	FIGURE(limit_bytes)

/* Sums over the processes of the index-th rewrite (by first appearance) into *ret_sum; its name, NULL: no more. */
const char *report_rewrite_sum(const struct report *report, size_t index,
			       struct record_rewrite *ret_sum);

/* Nothing where no process had mode fix. */
void lines_add_rewrites(const struct lines *lines, const struct report *report);

#endif
