// SPDX-License-Identifier: MIT
/*
 * What SLIPSTREAM_CHECK found, all processes together: a section of the text and a part of the JSON. `slipstream lint` judges the same records.
 * Relies on the record files being open.
 */
#ifndef SLIPSTREAM_TOOLS_REPORT_REMARKS_H
#define SLIPSTREAM_TOOLS_REPORT_REMARKS_H

#include "report.h"
#include "report_lines.h"

/* Calls at one site that broke a rule of class order, together with what was called at another. */
struct report_remark {
	const char *rule, *cause;   /* the report's; never NULL */
	const char *function;       /* the same; NULL unknown */
	const char *other_function; /* the same; NULL: no other call takes part, or unknown */
	struct report_site *site, *other_site; /* NULL: none was taken */
	uint64_t count;
};

/* A remark of this rule is about a call that may wait, and counts while that call is in the driver (shim/check/stuck.c): only lint knows when that says something. */
bool report_remark_is_inside(const char *rule);

/* A list of all but those, by first appearance, for report_list_done(). */
struct report_list report_remarks(struct report *report);

/* Nothing where there is none. */
void lines_add_remarks(const struct lines *lines, struct report *report);

#endif
