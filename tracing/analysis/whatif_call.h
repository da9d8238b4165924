// SPDX-License-Identifier: MIT
/*
 * Call: one call that waited, while it is settled (whatif_call.c, whatif_targets.c).
 */
#ifndef SLIPSTREAM_TRACING_WHATIF_CALL_H
#define SLIPSTREAM_TRACING_WHATIF_CALL_H

#include "tracing/analysis/whatif_graph.h"

/* How a rule waits, as far as it matters here. */
enum manner {
	FOR_TARGETS,
	FOR_EVENT,     /* for one record: what else the streams have does not count */
	FOR_ROOM,      /* in a queue or buffer: nobody knows for which operation */
	FOR_SOMETHING, /* no rule says what */
	FOR_ITSELF     /* its own work */
};

struct host_call {
	int64_t begin, end;
	int64_t own; /* its own cost, as far as it is known */
	struct span blocked;
	struct span removed; /* what goes with the wait */
	int64_t waited; /* for something, at least: of `blocked` the thread may have gone on late */
	int64_t slack;  /* from the end of what it waited for to its return, at most */
	enum manner manner;
	size_t target_count; /* in graph->targets */
	bool own_done;       /* its own operation was complete when it returned */
	bool wide;           /* it waits for what all streams have */
	bool meanwhile; /* others may have handed work over meanwhile, which it waited for too */
	const struct operation *only; /* the one that it was blocked by, if that is certain */
	bool unknown; /* it may have waited for something that the trace does not name */
};

static inline int64_t least_ns(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t most_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* NULL: not known. */
static inline const struct trace_def_rule *call_rule(const struct graph *graph, uint32_t number)
{
	return model_find(graph->model, graph->process, TRACE_DEF_RULE, number);
}

/* The thread's call waits, and is to be settled once its events are all there. */
void call_open(struct graph *graph, struct host_thread *thread);
/* Settles the thread's open call, if it has one: how much sooner the thread goes on. */
void call_settle(struct graph *graph, struct host_thread *thread);
void call_forget(struct open_call *call);

/* whatif_targets.c */
/* Fills graph->targets (references): what the call waited for, other than its own operation. */
void targets_find(struct graph *graph, struct host_call *host, const struct open_call *call);
void targets_add(struct graph *graph, struct host_call *host, struct operation *operation);
/* Those that take no time, left until the others were looked at. */
void targets_complete_instant(struct graph *graph, const struct host_call *host);
/* Can it wait for what other threads hand over? */
bool targets_are_wide(struct graph *graph, const struct open_call *call,
		      const struct host_call *host, uint32_t thread);

#endif
