// SPDX-License-Identifier: MIT
/* The call sites of a report, by content. */
#ifndef SLIPSTREAM_TOOLS_REPORT_SITES_H
#define SLIPSTREAM_TOOLS_REPORT_SITES_H

#include <stdint.h>

struct record_file;
struct report;
struct symbolizer;
struct report_site;

/* The site of this id in this file, newly added if no file had it yet; NULL: none was taken, or it
 * has no frames. */
struct report_site *report_site_of(struct report *report, const struct record_file *file,
				   uint32_t id);

/* The report's, which knows of all its sites; NULL: there is none. */
struct symbolizer *report_symbolizer(struct report *report);

/* Frees what the sites point to. */
void report_sites_done(struct report *report);

#endif
