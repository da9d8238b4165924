// SPDX-License-Identifier: MIT
/* Lines of the text report: one place that cuts to the terminal's width and colours, shared by the
 * text writers. */
#ifndef SLIPSTREAM_TOOLS_REPORT_LINES_H
#define SLIPSTREAM_TOOLS_REPORT_LINES_H

#include "report.h"

enum line_look { LINE_PLAIN, LINE_HEADING, LINE_STRONG, LINE_WARNING };

struct lines {
	FILE *out;
	const struct report_style *style;
};

/* One line; foreign text in it must have gone through text_printable(). */
void lines_add(const struct lines *lines, enum line_look look, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The last line of a section that the limit cut; nothing if it did not. */
void lines_add_more(const struct lines *lines, const char *indent, size_t shown, size_t all,
		    const char *what);

/* A call site: Python frames first, then native ones, at most `depth` of each (0: all). */
void lines_add_site(const struct lines *lines, struct report *report, struct report_site *site,
		    const char *indent, size_t depth);

/* Native frames alone, in the same way. */
void lines_add_frames(const struct lines *lines, const struct report_frame *frames, size_t all,
		      const char *indent, size_t depth);

/* "PREFIX5", or "PREFIX5 of alpha" where the processes are of several hosts. The caller frees. */
char *lines_process(const struct report *report, const char *host, uint32_t pid,
		    const char *prefix);

/* Coverage, then one line for each process. */
void lines_add_coverage(const struct lines *lines, const struct report *report);
void lines_add_processes(const struct lines *lines, const struct report *report);

static inline const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

#endif
