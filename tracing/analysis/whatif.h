// SPDX-License-Identifier: MIT
/*
 * What-if: how much sooner the run would have ended, had the waits of one call site not been. A
 * consumer of a trace of level `full`; its result is plain data that the report and the page show.
 * The model is told in tracing/README.md, "What-if".
 *
 * One thread. Times are ns.
 */
#ifndef SLIPSTREAM_TRACING_WHATIF_H
#define SLIPSTREAM_TRACING_WHATIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tracing/analysis/consumer.h"

struct json_t;

#define WHATIF_SITES_MAX 64

struct whatif_settings {
	unsigned int sites; /* how many sites of a process are replayed; 1 to WHATIF_SITES_MAX */
	int64_t wake_ns; /* longest time from the end of work to the waiting thread going on; and from handing over to begin */
};

/* 20 sites, 50 us. */
extern const struct whatif_settings whatif_defaults;

/* A call site and rule, or (site 0, in `rules`) a rule as a whole. */
struct whatif_row {
	uint32_t process;                      /* number of its model_process */
	uint32_t rule, site, function;         /* as in def_wait; function 0 in `rules` */
	const char *rule_slug, *function_name; /* the program's text, "" unknown; the model's */
	uint32_t wait_class;                   /* enum wait_class; 0 unknown */
	uint64_t count;
	int64_t blocked_ns;
	int64_t low_ns, high_ns; /* the saving */
	int64_t middle_ns;       /* what it is ranked by */
	bool overtaken; /* threads may overtake each other: nothing but all blocked time bounds it */
	bool replayed; /* false: not among the sites replayed; 0 and the blocked time are its bounds */
};

struct whatif_process {
	uint32_t process; /* as in the rows */
	/* Who that is, as in struct model_process. */
	uint32_t pid;
	int32_t rank;
	const char *host;
	int64_t run_ns; /* from its first event to its last */
	uint64_t waits, submissions;
	uint32_t threads;       /* that called the driver */
	int64_t unexplained_ns; /* blocked time for which the graph has no reason: the baseline's error */
	uint64_t
		contradictions; /* operations that cannot have run when they did, had the graph been right */
	const char *why_none; /* one line: no numbers for this process; NULL: there are some */
};

struct whatif_result {
	struct whatif_row *rows; /* by middle of the interval, then blocked time, both falling */
	size_t row_count;
	struct whatif_row *rules; /* same order */
	size_t rule_count;
	struct whatif_process *processes;
	size_t process_count;
	const char *why_none; /* no numbers at all */
};

struct whatif;

/* The consumer; `settings` NULL: the defaults. Freed by the ops, or by whatif_free(). */
struct whatif *whatif_new(const struct whatif_settings *settings);
struct whatif *whatif_free(struct whatif *whatif);
extern const struct consumer_ops whatif_ops;

/* After the consumer finished: lives as long as it and the model. NULL before. */
const struct whatif_result *whatif_result(const struct whatif *whatif);

/*
 * What a site is called, for whatif_text() and whatif_json(): a text that the caller of it frees, "FILE:LINE"
 * or a number. NULL as function: the number.
 */
typedef char *(*whatif_site_name)(void *context, uint32_t process, uint32_t site);

/* The section "What each wait costs the run"; at most `rows` rows, 0: all. */
void whatif_text(FILE *out, const struct whatif_result *result, size_t rows, whatif_site_name name,
		 void *context);

/* The object `what_if` of tools/slipstream.schema.json. */
struct json_t *whatif_json(const struct whatif_result *result, whatif_site_name name,
			   void *context);

#endif
