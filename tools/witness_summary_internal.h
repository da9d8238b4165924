// SPDX-License-Identifier: MIT
/* What a summary of witnessed calls holds. Of witness_summary.c, which fills it, and witness_summary_json.c only. */
#ifndef SLIPSTREAM_TOOLS_WITNESS_SUMMARY_INTERNAL_H
#define SLIPSTREAM_TOOLS_WITNESS_SUMMARY_INTERNAL_H

#include "witness_summary.h"

/* Calls of one function from one place, in one of the four lists of the summary. */
struct witness_line {
	char *function, *how; /* how: of a claim; else "" */
	uint64_t key;         /* of the stack */
	struct witness_frame *frames;
	size_t frame_count;
	uint64_t calls, call_ns, blocked_ns, blocked_max, off_cpu_ns, driver_ns;
	uint64_t ns[WITNESS_HOWS];
};

/* Calls of one function. */
struct witness_function {
	char *name;
	uint64_t calls, returned, nested, call_ns, blocked_ns, blocked_max, bytes;
	uint64_t ns[WITNESS_HOWS];
	uint64_t streams[WITNESS_STREAM_CLASSES];
	uint64_t direction_calls[WITNESS_DIRECTIONS], direction_bytes[WITNESS_DIRECTIONS];
	uint64_t switches, preemptions, yields, entries;
	uint64_t by[WITNESS_BYS]; /* entries in processes with the preload library */
	uint32_t system_call;
	uint64_t system_calls; /* of that one call which made most */
	bool is_called;        /* it has calls with a record */
};

struct witness_tree {
	void *root;
	void **items;
	size_t count, capacity;
};

struct witness_summary {
	struct witness_tree functions;       /* struct witness_function */
	struct witness_tree sites;           /* struct witness_line: all calls that are shown */
	struct witness_tree escaped, denied; /* struct witness_line */
	struct witness_tree unpreloaded;     /* the same: of processes without the library */
	uint64_t shim_by[WITNESS_BYS], other_entries;
	struct witness_loss loss;
	bool has_loss, has_counts;
	uint64_t claims;
};

/* By function, claim and stack. */
int witness_order_lines(const void *left, const void *right);

#endif
