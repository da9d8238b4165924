// SPDX-License-Identifier: MIT
/*
 * Report of a trace: what a trace says beyond the record files of the same run. Where the calls
 * were made (thread, stream, rank, host, GPU), how much of the trace there was, and what a further
 * analysis has to add. Filled by the analysis of traces; shown by the report's writers, which do
 * nothing where report->trace is NULL.
 */
#ifndef SLIPSTREAM_TOOLS_REPORT_TRACE_H
#define SLIPSTREAM_TOOLS_REPORT_TRACE_H

#include "report.h"

struct lines;

/* Calls of one kind at one place. Texts are raw, and belong to whoever fills the report. */
struct report_cell {
	const char *host; /* "" unknown */
	int32_t rank;     /* -1 none */
	uint32_t process; /* number in the trace: pids are of one host, and used again */
	uint32_t pid;
	uint32_t thread; /* kernel's number; cells by thread only */
	uint32_t stream; /* number in its process, 0 unknown; cells by stream only */
	uint32_t stream_kind;
	uint64_t context;
	int32_t device; /* ordinal, -1 unknown */

	const char *rule, *function;
	uint32_t class; /* enum wait_class */
	bool own_cost, allowed;
	uint64_t count, blocked_ns, blocked_max;
};

/* Of another analysis: a section of the text and an object of the JSON. */
struct report_extra {
	const char *key;
	void (*text)(void *context, FILE *out, size_t limit);
	json_t *(*json)(void *context);
	void *context;
};

struct report_trace {
	struct report_cell *streams, *threads; /* the same calls, by place; in any order */
	size_t stream_count, thread_count;
	size_t process_count;
	uint64_t events, discarded, discarded_packets;
	int64_t duration_ns;       /* from the first event to the last */
	bool interrupted;          /* read in part only */
	char *broken;              /* one line: why it could not be read further; NULL: it was */
	char *selection;           /* what was selected, in words; NULL: all */
	struct report_extra extra; /* key NULL: none */
};

/* Frees what it owns: the arrays, `broken` and `selection`. NULL does nothing. */
void report_trace_free(struct report_trace *trace);

/*
 * "rank 3, alpha, process 100" as far as it is known: rank -1 and host "" are not. Printable; the
 * caller frees.
 */
char *report_trace_process(int32_t rank, const char *host, uint32_t pid);

/* It does not hold the whole life of each process, up to its end or a snapshot's. */
bool report_trace_is_part(const struct report *report);
/* The counts of calls are those of the last dump of each process, and that is whole. True without a trace. */
bool report_trace_has_counts(const struct report *report);
/* It says of each process when that started. True without a trace. */
bool report_trace_has_starts(const struct report *report);
/* One line for each process of which the trace holds a part. */
void report_trace_add_parts(const struct lines *lines, const struct report *report);
/* The same as an object of the process's; NULL: not of a trace. */
json_t *report_trace_span_json(const struct report_process *process);

/* Reasons why a clean verdict would not hold, before report_finish()'s own. */
void report_trace_find_reasons(struct report *report);

/*
 * The ranking of the style's key, of the calls that are like `part` in class, own cost and scope.
 */
void report_trace_add_section(const struct lines *lines, struct report *report,
			      const struct report_cell *part);
void report_trace_add_ranks(const struct lines *lines, const struct report *report);
void report_trace_add_extra(const struct lines *lines, const struct report *report);
void report_trace_json(const struct report *report, json_t *object);

#endif
