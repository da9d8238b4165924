// SPDX-License-Identifier: MIT
/*
 * Selection: the options that `slipstream report` has for traces, parsed the same by the command
 * and by slipstream-analyze, to which it hands a trace over.
 */
#ifndef SLIPSTREAM_TOOLS_REPORT_SELECT_H
#define SLIPSTREAM_TOOLS_REPORT_SELECT_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* A point of the trace, from its first event on. */
struct report_time {
	bool is_set;
	bool is_share;
	int64_t ns;   /* not is_share */
	double share; /* is_share: 0 to 1, of the time from the first event to the last */
};

struct report_select {
	struct report_time begin, end; /* waits that returned in [begin, end] */
	int64_t rank, gpu, pid;        /* -1: all */
	const char *host;              /* NULL: all */

	const char *timeline, *html; /* files to write; NULL: not wanted */
	bool what_if, waits;
	bool records; /* the record files, even of a folder that has a trace */

	const char *trace_option; /* one that needs a trace, as "rank"; NULL: none was given */
};

/* argp with struct report_select as its input. */
extern const struct argp report_select_argp;

void report_select_init(struct report_select *select);

/* "250ms", "1.5s", "10%", "12345" (ns). False: it is none. */
bool report_time_parse(const char *text, struct report_time *ret_time);

/* In words, for the report; NULL: everything is selected. The caller frees. */
char *report_select_words(const struct report_select *select);

#endif
