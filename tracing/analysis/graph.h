// SPDX-License-Identifier: MIT
/*
 * Graph: the traces that were found, merged by time, into one sink. Built in C from babeltrace2's
 * own CTF reader and muxer; used by slipstream-analyze. Large traces are decoded by several threads
 * (lanes.h). All functions are called by one thread, but graph_interrupt().
 */
#ifndef SLIPSTREAM_TRACING_GRAPH_H
#define SLIPSTREAM_TRACING_GRAPH_H

#include "trace_find.h"
#include "tracing/analysis/sink.h"

struct graph;

/* The span of all traces that can tell it before they are read. */
struct graph_span {
	int64_t begin_ns, end_ns;
	bool is_known; /* of all of them */
};

/*
 * A graph that reads `places` into `sink`, which stays the caller's. A trace that cannot be opened
 * is left out, with one line to `say`. 0, or -ENODATA: none is left, and *reterr_text is as it was; or
 * another -errno with one line in *reterr_text (the caller frees).
 */
int graph_new(const struct trace_places *places, struct sink *sink, void (*say)(const char *line),
	      struct graph **ret_graph, char **reterr_text);
struct graph *graph_free(struct graph *graph);

/* How many traces were left out, or in part. */
size_t graph_failures(const struct graph *graph);
void graph_span(const struct graph *graph, struct graph_span *ret_span);

/* One batch. */
enum sink_status graph_step(struct graph *graph);

/* Ends what reads ahead; before sink_finish() where graph_step() did not come to the end. */
void graph_stop(struct graph *graph);

/* From a signal handler: makes a step that waits for a live trace end soon. */
void graph_interrupt(struct graph *graph);

#endif
