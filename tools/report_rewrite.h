// SPDX-License-Identifier: MIT
/*
 * What the rewrites of mode fix did, all processes together: a section of the text and a part of the JSON. Relies on the record files
 * being open.
 */
#ifndef SLIPSTREAM_TOOLS_REPORT_REWRITE_H
#define SLIPSTREAM_TOOLS_REPORT_REWRITE_H

#include "report.h"
#include "report_lines.h"

/* Sums over the processes of the index-th rewrite (by first appearance) into *ret_sum; its name, NULL: no more. */
const char *report_rewrite_sum(const struct report *report, size_t index,
			       struct record_rewrite *ret_sum);

/* A call site that asked to make a rewrite; known where there is a deny list only. */
struct report_rewrite_use {
	struct report_site *site;
	const char *rewrite;  /* the report's */
	const char *function; /* the same; NULL unknown */
	uint64_t calls, denied;
};

/*
 * Adds those of the files from number `first` on to a list of report_rewrite_use, by first appearance; for report_list_done(). `made`: only
 * sites where not every call was denied. How many are new.
 */
size_t report_rewrite_uses_add(struct report_list *uses, struct report *report, size_t first,
			       bool made);

/* Calls at one site in which the driver freed blocks of a rewrite. */
struct report_real_free {
	struct report_site *site;  /* NULL: none was taken */
	const char *rewrite, *why; /* the report's; never NULL */
	const char *function;      /* the same; NULL unknown */
	uint64_t calls, blocks;
};

/* A list of all, by first appearance, for report_list_done(). */
struct report_list report_real_frees(struct report *report);

/* Nothing where no process had mode fix. */
void lines_add_rewrites(const struct lines *lines, struct report *report);

#endif
