// SPDX-License-Identifier: MIT
/* Coverage: what the report may have missed, and whether "nothing found" may be believed. */
#ifndef SLIPSTREAM_TOOLS_COVERAGE_H
#define SLIPSTREAM_TOOLS_COVERAGE_H

struct report;
struct report_function;
struct report_note;

/* Fills report->reasons from everything else in it; called once, by report_finish(). */
void coverage_find_reasons(struct report *report);

/* The name that a harmless table is known by (tables.def), NULL for any other. `text`: of a NOTE_EXPORT_TABLE. */
const char *coverage_table_name(const char *text);

/*
 * The note tells of a function that was handed out without wrapper, but whose calls are counted:
 * that function; else NULL.
 */
const struct report_function *coverage_counted_handout(const struct report *report,
						       const struct report_note *note);

#endif
