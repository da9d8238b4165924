// SPDX-License-Identifier: MIT
/*
 * Stream capture.
 *
 * Owns: running captures, the capture mode of each thread, and the error codes 900 to 908: which
 * call is refused while something captures, and whether that invalidates the capture. Called by:
 * stream.c and event.c (submission, records and waits), core.c (calls that are unsafe while
 * capturing). Relies on graph.c for nodes.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static uint64_t next_capture;

static struct sim_capture *find(uint64_t id)
{
	for (struct sim_capture *capture = sim.captures; capture; capture = capture->next)
		if (capture->id == id)
			return capture;
	return NULL;
}

static void set_frontier(struct sim_node ***frontier, unsigned *count,
			 struct sim_node *const *nodes, unsigned wanted)
{
	struct sim_node **copy = malloc((wanted ? wanted : 1) * sizeof(*copy));

	if (!copy)
		abort();
	if (wanted)
		memcpy(copy, nodes, wanted * sizeof(*copy));
	free(*frontier);
	*frontier = copy;
	*count = wanted;
}

static void join(struct sim_capture *capture, struct sim_stream *stream)
{
	struct sim_stream **grown =
		realloc(capture->streams, (capture->stream_count + 1) * sizeof(*capture->streams));

	if (!grown)
		abort();
	capture->streams = grown;
	grown[capture->stream_count++] = stream;
	stream->object.references++;
	stream->capture = capture;
}

static void leave(struct sim_stream *stream)
{
	stream->capture = NULL;
	free(stream->frontier);
	stream->frontier = NULL;
	stream->frontier_count = 0;
	sim_stream_put(stream);
}

static void capture_end(struct sim_capture *capture)
{
	for (unsigned i = 0; i < capture->stream_count; i++)
		leave(capture->streams[i]);
	for (struct sim_capture **link = &sim.captures; *link; link = &(*link)->next) {
		if (*link != capture)
			continue;
		*link = capture->next;
		break;
	}
	free(capture->streams);
	free(capture);
}

void sim_capture_invalidate(struct sim_capture *capture)
{
	if (capture)
		capture->invalid = true;
}

bool sim_capture_blocking(struct sim_context *context)
{
	for (struct sim_capture *capture = sim.captures; capture; capture = capture->next)
		for (unsigned i = 0; i < capture->stream_count; i++)
			if (capture->streams[i]->context == context &&
			    sim_stream_is_blocking(capture->streams[i]))
				return true;
	return false;
}

void sim_capture_invalidate_blocking(struct sim_context *context)
{
	for (struct sim_capture *capture = sim.captures; capture; capture = capture->next)
		for (unsigned i = 0; i < capture->stream_count; i++)
			if (capture->streams[i]->context == context &&
			    sim_stream_is_blocking(capture->streams[i]))
				capture->invalid = true;
}

bool sim_capture_context(struct sim_context *context, bool invalidate)
{
	bool found = false;

	for (struct sim_capture *capture = sim.captures; capture; capture = capture->next) {
		for (unsigned i = 0; i < capture->stream_count; i++) {
			if (capture->streams[i]->context != context)
				continue;
			found = true;
			capture->invalid |= invalidate;
		}
	}
	return found;
}

/*
 * A call that could implicitly use a capturing stream. A thread in relaxed mode may; in
 * thread-local mode only its own captures count; in global mode also those that any other thread
 * began in global mode.
 */
CUresult sim_capture_prohibits(void)
{
	uint64_t thread = sim_thread_number();
	bool prohibited = false;

	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	for (struct sim_capture *capture = sim.captures; capture; capture = capture->next) {
		bool own = capture->thread == thread &&
			   capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
		bool other = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
			     capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;

		if (!own && !other)
			continue;
		capture->invalid = true;
		prohibited = true;
	}
	return prohibited ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

void sim_capture_mark_unsafe(void)
{
	static const char *const names[] = {
		"cuMemAlloc_v2",         "cuMemAllocPitch_v2",    "cuMemFree_v2",
		"cuMemHostAlloc",        "cuMemAllocHost_v2",     "cuMemFreeHost",
		"cuMemHostRegister_v2",  "cuMemHostRegister",     "cuMemHostUnregister",
		"cuMemAllocManaged",     "cuEventQuery",          "cuEventSynchronize",
		"cuCtxSynchronize",      "cuCtxSynchronize_v2",   "cuArrayCreate_v2",
		"cuArray3DCreate_v2",    "cuArrayDestroy",        "cuMemPoolCreate",
		"cuMemPoolDestroy",      "cuMemPoolTrimTo",       "cuMemPoolSetAttribute",
		"cuMemPoolGetAttribute", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle",
	};

	for (unsigned i = 0; i < sim_export_count; i++)
		for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++)
			if (!strcmp(sim_exports[i].name, names[n]))
				sim_exports[i].flags |= SIM_CAPTURE_UNSAFE;
}

void sim_capture_drop_stream(struct sim_stream *stream)
{
	struct sim_capture *capture = stream->capture;

	if (!capture)
		return;
	capture->invalid = true;
	if (capture->origin == stream) {
		struct sim_graph *graph = capture->to_graph ? NULL : capture->graph;

		capture_end(capture);
		if (graph)
			sim_graph_free(graph);
		return;
	}
	for (unsigned i = 0; i < capture->stream_count; i++) {
		if (capture->streams[i] != stream)
			continue;
		capture->streams[i] = capture->streams[--capture->stream_count];
		break;
	}
	leave(stream);
}

CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work)
{
	struct sim_capture *capture = stream->capture;
	struct sim_node *node;

	if (capture->invalid) {
		sim_work_clear(work);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	node = sim_node_new(capture->graph, stream->frontier, stream->frontier_count, work);
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	set_frontier(&stream->frontier, &stream->frontier_count, &node, 1);
	return CUDA_SUCCESS;
}

/* ---- events ---- */

bool sim_event_captured(struct sim_event *event)
{
	return event->capture_id && find(event->capture_id);
}

void sim_event_invalidate(struct sim_event *event)
{
	sim_capture_invalidate(find(event->capture_id));
}

void sim_event_uncapture(struct sim_event *event)
{
	event->capture_id = 0;
	free(event->frontier);
	event->frontier = NULL;
	event->frontier_count = 0;
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event, bool external)
{
	struct sim_capture *capture = stream->capture;
	struct sim_work work = {.kind = SIM_EVENT_RECORD, .event = event};

	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (external)
		return sim_capture_add(stream, &work);
	event->capture_id = capture->id;
	set_frontier(&event->frontier, &event->frontier_count, stream->frontier,
		     stream->frontier_count);
	return CUDA_SUCCESS;
}

static void add_dependencies(struct sim_stream *stream, struct sim_node *const *nodes,
			     unsigned count)
{
	struct sim_node **all = malloc((stream->frontier_count + count + 1) * sizeof(*all));
	unsigned total = stream->frontier_count;

	if (!all)
		abort();
	if (total)
		memcpy(all, stream->frontier, total * sizeof(*all));
	for (unsigned i = 0; i < count; i++) {
		bool have = false;

		for (unsigned n = 0; n < total; n++)
			have |= all[n] == nodes[i];
		if (!have)
			all[total++] = nodes[i];
	}
	free(stream->frontier);
	stream->frontier = all;
	stream->frontier_count = total;
}

/* At least one of the stream and the event is in a capture. */
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, bool external)
{
	struct sim_capture *from = find(event->capture_id);
	struct sim_work work = {.kind = SIM_EVENT_WAIT, .event = event};

	if (stream->capture && stream->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->capture && external)
		return sim_capture_add(stream, &work);
	if (!from) {
		/* Never recorded: no dependency to cross the boundary. */
		if (stream->capture && !event->capture_id && !event->record)
			return CUDA_SUCCESS;
		sim_capture_invalidate(stream->capture);
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (from->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->capture && stream->capture != from) {
		from->invalid = stream->capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (stream->kind == SIM_LEGACY) {
		from->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!stream->capture)
		join(from, stream);
	add_dependencies(stream, event->frontier, event->frontier_count);
	return CUDA_SUCCESS;
}

/* ---- calls ---- */

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, struct sim_graph *graph)
{
	struct sim_stream *stream;
	struct sim_capture *capture;
	CUresult result = sim_stream_resolve(handle, &stream);

	if (result)
		return result;
	if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->kind == SIM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->graph = graph ? graph : sim_graph_new();
	if (!capture->graph) {
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	capture->to_graph = graph;
	if (!graph)
		capture->graph->owned = true;
	capture->id = ++next_capture;
	capture->mode = mode;
	capture->thread = sim_thread_number();
	capture->origin = stream;
	capture->next = sim.captures;
	sim.captures = capture;
	join(capture, stream);
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	return begin(hStream, mode, NULL);
}

CUresult impl_cuStreamBeginCapture(CUstream hStream)
{
	return begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL);
}

static bool nodes_of(struct sim_graph *graph, const CUgraphNode *nodes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct sim_node *node = sim_object_check(nodes[i], SIM_NODE);

		if (!node || node->graph != graph)
			return false;
	}
	return true;
}

CUresult impl_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
					  const CUgraphNode *dependencies,
					  const CUgraphEdgeData *dependencyData,
					  size_t numDependencies, CUstreamCaptureMode mode)
{
	struct sim_graph *graph = sim_object_check(hGraph, SIM_GRAPH);
	struct sim_stream *stream;
	CUresult result;

	if (!graph || (numDependencies && !dependencies) ||
	    !nodes_of(graph, dependencies, numDependencies))
		return CUDA_ERROR_INVALID_VALUE;
	result = begin(hStream, mode, graph);
	if (!result)
		result = sim_stream_resolve(hStream, &stream);
	if (!result)
		set_frontier(&stream->frontier, &stream->frontier_count,
			     (struct sim_node **)dependencies, numDependencies);
	return result;
}

static void mark_ancestors(struct sim_node *node, bool *seen)
{
	if (seen[node->index])
		return;
	seen[node->index] = true;
	for (unsigned i = 0; i < node->dependency_count; i++)
		mark_ancestors(node->dependencies[i], seen);
}

/* All that other streams captured must lead into what the origin holds. */
static bool joined(struct sim_capture *capture)
{
	bool *seen = calloc(capture->graph->node_count + 1, sizeof(*seen));
	bool all = true;

	if (!seen)
		abort();
	for (unsigned i = 0; i < capture->origin->frontier_count; i++)
		mark_ancestors(capture->origin->frontier[i], seen);
	for (unsigned s = 0; s < capture->stream_count; s++)
		for (unsigned i = 0; i < capture->streams[s]->frontier_count; i++)
			all &= seen[capture->streams[s]->frontier[i]->index];
	free(seen);
	return all;
}

CUresult impl_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct sim_stream *stream;
	struct sim_capture *capture;
	struct sim_graph *graph;
	CUresult result = sim_stream_resolve(hStream, &stream);
	bool to_graph;

	if (result)
		return result;
	if (!phGraph)
		return CUDA_ERROR_INVALID_VALUE;
	capture = stream->capture;
	if (!capture) {
		if (stream->kind == SIM_LEGACY && sim_capture_blocking(stream->context))
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		return CUDA_ERROR_ILLEGAL_STATE;
	}
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    capture->thread != sim_thread_number())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (stream != capture->origin) {
		capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->invalid)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!joined(capture))
		result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	graph = capture->graph;
	to_graph = capture->to_graph;
	capture_end(capture);
	*phGraph = NULL;
	if (result) {
		if (!to_graph)
			sim_graph_free(graph);
		return result;
	}
	graph->owned = false;
	*phGraph = (CUgraph)graph;
	return CUDA_SUCCESS;
}

/* Answers about a stream; for legacy while a blocking stream captures: 906, and the capture stays
 * valid. */
static CUresult asked(CUstream handle, struct sim_stream **ret_stream)
{
	CUresult result = sim_stream_resolve(handle, ret_stream);

	if (!result && (*ret_stream)->kind == SIM_LEGACY &&
	    sim_capture_blocking((*ret_stream)->context))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	return result;
}

static CUstreamCaptureStatus status_of(const struct sim_stream *stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					: CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult impl_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct sim_stream *stream;
	CUresult result = asked(hStream, &stream);

	if (result)
		return result;
	if (!captureStatus)
		return CUDA_ERROR_INVALID_VALUE;
	*captureStatus = status_of(stream);
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
					cuuint64_t *id_out, CUgraph *graph_out,
					const CUgraphNode **dependencies_out,
					const CUgraphEdgeData **edgeData_out,
					size_t *numDependencies_out)
{
	struct sim_stream *stream;
	CUresult result = asked(hStream, &stream);

	if (result)
		return result;
	if (!captureStatus_out)
		return CUDA_ERROR_INVALID_VALUE;
	*captureStatus_out = status_of(stream);
	if (*captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id_out)
		*id_out = stream->capture->id;
	if (graph_out)
		*graph_out = (CUgraph)stream->capture->graph;
	if (dependencies_out)
		*dependencies_out = (const CUgraphNode *)stream->frontier;
	if (edgeData_out)
		*edgeData_out = NULL;
	if (numDependencies_out)
		*numDependencies_out = stream->frontier_count;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
					cuuint64_t *id_out, CUgraph *graph_out,
					const CUgraphNode **dependencies_out,
					size_t *numDependencies_out)
{
	return impl_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
					      dependencies_out, NULL, numDependencies_out);
}

CUresult impl_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
				     cuuint64_t *id_out)
{
	return impl_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL,
					      NULL);
}

CUresult impl_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
						   const CUgraphEdgeData *dependencyData,
						   size_t numDependencies, unsigned int flags)
{
	struct sim_stream *stream;
	CUresult result = asked(hStream, &stream);

	if (result)
		return result;
	if (!stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (stream->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if ((numDependencies && !dependencies) ||
	    !nodes_of(stream->capture->graph, dependencies, numDependencies))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		set_frontier(&stream->frontier, &stream->frontier_count,
			     (struct sim_node **)dependencies, numDependencies);
	else
		add_dependencies(stream, (struct sim_node **)dependencies, numDependencies);
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
						size_t numDependencies, unsigned int flags)
{
	return impl_cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL,
							 numDependencies, flags);
}

CUresult impl_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old = thread_mode;

	if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}
