// SPDX-License-Identifier: MIT
/*
 * Writer: what a watch saw as a golden trace (tracing/README.md) of the schema's events, and as a summary.
 * Calls come in the order of each processor; they are held until all that ended before them must have
 * come. One thread. What is asked about processes and addresses is asked when a call comes, while its
 * process lives.
 */
#ifndef SLIPSTREAM_BPF_COMMAND_WRITE_H
#define SLIPSTREAM_BPF_COMMAND_WRITE_H

#include <stdbool.h>
#include <stdio.h>

#include "watch.h"

struct witness_summary;
struct writer;

struct writer_options {
	struct watch *watch;
	FILE *file; /* the trace; NULL: none. The caller's */
	const char *host;
	struct witness_summary *summary; /* NULL: none. The caller's */
	uint64_t least_ns;
	bool whole; /* the first process began under the watch */
};

struct writer *writer_new(const struct writer_options *options);
struct writer *writer_free(struct writer *writer);

void writer_call(struct writer *writer, const struct watch_call *call);
void writer_claim(struct writer *writer, const struct watch_claim *claim);

/* Writes all that ended before then (CLOCK_MONOTONIC ns). */
void writer_flush(struct writer *writer, uint64_t before_ns);

/* The rest, the counts, and the end, which is at `now_ns`. */
void writer_finish(struct writer *writer, const struct watch_stats *stats, uint64_t now_ns);

#endif
