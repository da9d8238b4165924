// SPDX-License-Identifier: MIT
/*
 * Targets: what a call waited for (whatif_call.h): operations that the host knew complete afterwards, its
 * candidates up to what was handed over before it began, and what would be a candidate, had an earlier
 * wait been missing.
 */
#include "emit/record.h"
#include "memory.h"
#include "tracing/analysis/whatif_call.h"

void targets_add(struct graph *graph, struct host_call *host, struct operation *operation)
{
	if (!operation)
		return;
	for (size_t i = 0; i < host->target_count; i++)
		if (graph->targets[i] == operation)
			return;
	graph->targets = memory_grow(graph->targets, host->target_count, &graph->target_capacity,
				     sizeof(*graph->targets));
	operation->references++;
	graph->targets[host->target_count++] = operation;
}

/*
 * A call for all streams that waits for what takes no time waits for what that is behind. The conclusion from
 * it is drawn first (draw_conclusion), so that what takes no time is as late as that.
 */
static struct operation *before_instant(struct graph *graph, struct host_call *host,
					struct device_stream *stream, struct operation *operation)
{
	while (operation && operation->instant && !operation->resolved) {
		targets_add(graph, host, operation);
		operation = device_before(stream, operation);
	}
	return operation;
}

static void complete_and_add(struct graph *graph, struct host_call *host,
			     struct device_stream *stream, struct operation *operation)
{
	if (host->wide)
		operation = before_instant(graph, host, stream, operation);
	if (!operation)
		return;
	operation->references++;
	device_complete(graph, stream, operation->number, host->end);
	targets_add(graph, host, operation);
	operation_unref(operation);
}

void targets_complete_instant(struct graph *graph, const struct host_call *host)
{
	for (size_t i = 0; i < host->target_count; i++) {
		const struct operation *target = graph->targets[i];

		if (!target->resolved)
			device_complete(graph, device_stream(graph, target->stream), target->number,
					host->end);
	}
}

static bool in_completed(const struct open_call *call, uint32_t stream)
{
	for (size_t i = 0; i < call->completed_count; i++)
		if (call->completed[i].stream == stream)
			return true;
	return false;
}

static struct device_stream *candidate_stream(struct graph *graph,
					      const struct trace_def_candidate *candidate)
{
	if (candidate->stream)
		return device_stream(graph, (uint32_t)candidate->stream);
	for (size_t i = 0; i < graph->streams.count; i++) {
		struct device_stream *stream = table_at(&graph->streams, i);

		if (stream->kind == STREAM_LEGACY && stream->context == candidate->context)
			return stream;
	}
	return NULL;
}

static void add_candidate(struct graph *graph, struct host_call *host, const struct open_call *call,
			  uint32_t id)
{
	const struct trace_def_candidate *candidate =
		model_find(graph->model, graph->process, TRACE_DEF_CANDIDATE, id);
	struct device_stream *stream = candidate ? candidate_stream(graph, candidate) : NULL;

	if (!stream || in_completed(call, stream->number))
		return;
	complete_and_add(graph, host, stream, device_youngest(stream, host->begin, call->own));
}

static void add_candidates(struct graph *graph, struct host_call *host,
			   const struct open_call *call)
{
	const struct trace_def_candidate_set *set;
	size_t count;

	if (!(call->wait.candidates & TRACE_SET)) {
		if (call->wait.candidates)
			add_candidate(graph, host, call, call->wait.candidates);
		return;
	}
	set = model_parts(graph->model, graph->process, TRACE_DEF_CANDIDATE_SET,
			  call->wait.candidates, &count);
	for (size_t i = 0; i < count; i++)
		add_candidate(graph, host, call, set[i].candidate);
}

/* Does a call on `own` wait for this stream too (legacy order)? */
static bool is_legacy_mate(const struct device_stream *own, const struct device_stream *stream)
{
	return own == stream ||
	       (own->kind == STREAM_LEGACY && stream->kind != STREAM_NON_BLOCKING &&
		own->context == stream->context);
}

/*
 * What the host knew complete before is no candidate, but it would be one, had an earlier wait been
 * missing: the call would wait for it then.
 */
static void add_implied(struct graph *graph, struct host_call *host, const struct open_call *call)
{
	struct device_stream *own =
		call->wait.stream ? device_stream(graph, call->wait.stream) : NULL;

	for (size_t i = 0; i < graph->streams.count; i++) {
		struct device_stream *stream = table_at(&graph->streams, i);
		struct operation *operation;

		if ((own && !is_legacy_mate(own, stream)) || in_completed(call, stream->number))
			continue;
		operation = device_youngest(stream, host->begin, call->own);
		if (operation && operation->resolved && operation->done.high <= host->end)
			targets_add(graph, host, operation);
	}
}

/* What its own operation was ordered behind is complete if that one is. */
static void add_edges_of(struct graph *graph, struct host_call *host, const struct operation *own)
{
	for (const struct edge *edge = own->edges; edge; edge = edge->next)
		complete_and_add(graph, host, device_stream(graph, edge->of_stream), edge->of);
}

void targets_find(struct graph *graph, struct host_call *host, const struct open_call *call)
{
	for (size_t i = 0; i < call->completed_count; i++) {
		const struct trace_completed *completed = &call->completed[i];
		struct device_stream *stream = device_stream(graph, completed->stream);
		struct operation *operation;
		bool loose;

		if (call->own && completed->stream == call->own_stream &&
		    completed->number >= call->own->number) {
			host->own_done = true;
			operation = device_before(stream, call->own);
			add_edges_of(graph, host, call->own);
		} else {
			operation = device_find(stream, completed->number, &loose);
			if (loose)
				operation = NULL;
		}
		complete_and_add(graph, host, stream, operation);
	}
	if (host->manner == FOR_EVENT) {
		host->unknown |= call->completed_count == 0;
		return;
	}
	add_candidates(graph, host, call);
	if (host->manner == FOR_TARGETS)
		add_implied(graph, host, call);
}

bool targets_are_wide(struct graph *graph, const struct open_call *call,
		      const struct host_call *host, uint32_t thread)
{
	struct device_stream *stream;

	if (host->manner == FOR_EVENT)
		return false;
	if (call->wait.stream == 0)
		return true;
	stream = device_stream(graph, call->wait.stream);
	return stream->kind == STREAM_LEGACY || device_is_shared(stream, thread);
}
