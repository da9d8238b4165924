// SPDX-License-Identifier: MIT
/*
 * Device: streams and their operations in the graph (whatif_graph.h). An operation is kept open until the
 * host was seen to know it complete; then its interval of completion is narrowest, and how much sooner it
 * comes in each lane is worked out, operations it depends on first.
 *
 * A trace is hostile: numbers come twice, late or never, edges in circles. Nothing is believed that would need
 * more than a bounded depth or a second visit; what does not fit counts as a contradiction.
 */
#include "emit/record.h"
#include "memory.h"
#include "tracing/analysis/whatif_graph.h"

#define DEPTH_MAX 500
static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void operation_unref(struct operation *operation)
{
	struct edge *edge, *next;

	if (!operation || --operation->references)
		return;
	for (edge = operation->edges; edge; edge = next) {
		next = edge->next;
		operation_unref(edge->of);
		free(edge);
	}
	shift_unref(operation->even);
	shift_unref(operation->odd);
	free(operation);
}

static struct operation *operation_new(uint64_t number, struct span sent, struct shift *even,
				       struct shift *odd)
{
	struct operation *operation = memory_new(sizeof(*operation));

	operation->references = 1;
	operation->thread = UINT32_MAX;
	operation->number = number;
	operation->sent = sent;
	operation->even = shift_ref(even);
	operation->odd = shift_ref(odd);
	operation->done = (struct span){sent.low, WHATIF_FAR};
	return operation;
}

static void describe(const struct graph *graph, struct device_stream *stream)
{
	const struct trace_def_stream *definition =
		model_find(graph->model, graph->process, TRACE_DEF_STREAM, stream->number);

	if (definition) {
		stream->kind = definition->kind;
		stream->context = definition->context;
	}
}

struct device_stream *device_stream(struct graph *graph, uint32_t number)
{
	struct device_stream *stream = graph->last_stream;
	bool is_new;

	if (stream && stream->number == number)
		return stream;
	stream = table_add(&graph->streams, number, 0, &is_new);
	stream->number = number;
	if (!stream->kind)
		describe(graph, stream);
	graph->last_stream = stream;
	return stream;
}

static struct operation *youngest_resolved(const struct device_stream *stream)
{
	return stream->ring[0];
}

static void push_resolved(struct device_stream *stream, struct operation *operation)
{
	operation_unref(stream->ring[WHATIF_RING - 1]);
	memmove(&stream->ring[1], &stream->ring[0], sizeof(stream->ring) - sizeof(stream->ring[0]));
	stream->ring[0] = operation;
}

/* Index of the first open one whose number is at least this. */
static size_t open_from(const struct device_stream *stream, uint64_t number)
{
	size_t low = stream->first, high = stream->end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (stream->open[middle]->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct operation *device_find(struct device_stream *stream, uint64_t number, bool *ret_loose)
{
	struct operation *best = NULL;
	size_t index;

	*ret_loose = false;
	if (!youngest_resolved(stream) || number > youngest_resolved(stream)->number) {
		index = open_from(stream, number + 1);
		/* A number that is missing stands for the one before it. */
		return index > stream->first ? stream->open[index - 1] : youngest_resolved(stream);
	}
	for (int i = 0; i < WHATIF_RING && stream->ring[i]; i++) {
		if (stream->ring[i]->number < number)
			break;
		best = stream->ring[i];
	}
	*ret_loose = best && best->number != number;
	return best;
}

struct operation *device_youngest(struct device_stream *stream, int64_t ns,
				  const struct operation *but)
{
	for (size_t i = stream->end; i-- > stream->first;)
		if (stream->open[i] != but && stream->open[i]->sent.low < ns)
			return stream->open[i];
	return youngest_resolved(stream);
}

static bool is_others(const struct operation *operation, uint32_t thread)
{
	return operation->thread != thread && operation->thread != UINT32_MAX;
}

bool device_is_shared(const struct device_stream *stream, uint32_t thread)
{
	for (size_t i = stream->first; i < stream->end; i++)
		if (is_others(stream->open[i], thread))
			return true;
	for (int i = 0; i < WHATIF_RING && stream->ring[i]; i++)
		if (is_others(stream->ring[i], thread))
			return true;
	return false;
}

struct operation *device_before(struct device_stream *stream, const struct operation *operation)
{
	size_t index = open_from(stream, operation->number);

	return index > stream->first ? stream->open[index - 1] : youngest_resolved(stream);
}

static void attach(struct operation *operation, struct edge *edge)
{
	edge->next = operation->edges;
	operation->edges = edge;
}

static void take_waiting(struct device_stream *stream, struct operation *operation)
{
	struct edge **link = &stream->waiting;

	while (*link) {
		struct edge *edge = *link;

		if (edge->number > operation->number) {
			link = &edge->next;
			continue;
		}
		*link = edge->next;
		attach(operation, edge);
	}
}

/* What ran before the first operation seen is not known: nothing of it was removed, so it stays. */
static void begin_stream(struct graph *graph, struct device_stream *stream, uint64_t number)
{
	struct span never = {0, 0};
	struct operation *operation = operation_new(number - 1, never, graph->zero, graph->zero);

	operation->resolved = true;
	operation->done = (struct span){0, number > 1 ? WHATIF_FAR : 0};
	stream->ring[0] = operation;
}

static void resolve(struct graph *graph, struct device_stream *stream, uint64_t number, int64_t ns);

struct operation *device_submit(struct graph *graph, struct device_stream *stream, uint64_t number,
				struct span sent, const struct host_thread *thread)
{
	struct operation *operation;
	size_t index;

	graph->submissions++;
	if (number == 0 ||
	    (youngest_resolved(stream) && number <= youngest_resolved(stream)->number)) {
		graph->contradictions += number > 0;
		return NULL;
	}
	if (!youngest_resolved(stream))
		begin_stream(graph, stream, number);
	index = open_from(stream, number);
	if (index < stream->end && stream->open[index]->number == number) {
		graph->contradictions++;
		return NULL;
	}
	if (stream->end - stream->first >= WHATIF_OPEN) {
		uint64_t oldest = stream->open[stream->first + WHATIF_OPEN / 2]->number;

		if (oldest < number)
			resolve(graph, stream, oldest, WHATIF_FAR);
		index = open_from(stream, number);
	}
	if (stream->first > 0 && stream->end == stream->capacity) {
		memmove(stream->open, stream->open + stream->first,
			(stream->end - stream->first) * sizeof(*stream->open));
		index -= stream->first;
		stream->end -= stream->first;
		stream->first = 0;
	}
	stream->open =
		memory_grow(stream->open, stream->end, &stream->capacity, sizeof(*stream->open));
	memmove(&stream->open[index + 1], &stream->open[index],
		(stream->end - index) * sizeof(*stream->open));
	stream->end++;
	operation = operation_new(number, sent, thread->shift, graph->shift);
	operation->thread = thread->index;
	operation->stream = stream->number;
	stream->open[index] = operation;
	take_waiting(stream, operation);
	return operation;
}

void device_edge(struct graph *graph, uint32_t stream_number, uint64_t number, uint32_t of_stream,
		 uint64_t of_number, bool join)
{
	struct device_stream *of = device_stream(graph, of_stream);
	struct device_stream *stream = device_stream(graph, stream_number);
	struct operation *operation;
	struct edge *edge;
	bool loose;
	size_t index;

	if (of == stream || of_number == 0)
		return;
	if (!youngest_resolved(of) && of->first == of->end)
		begin_stream(graph, of, of_number + 1);
	operation = device_find(of, of_number, &loose);
	if (!operation)
		return;
	edge = memory_new(sizeof(*edge));
	operation->references++;
	*edge = (struct edge){.of = operation,
			      .of_stream = of_stream,
			      .number = number,
			      .loose = loose,
			      .join = join};
	index = open_from(stream, number);
	if (index < stream->end) {
		attach(stream->open[index], edge);
	} else {
		edge->next = stream->waiting;
		stream->waiting = edge;
	}
}

/* Complete too, then, and wanted first. */
static void resolve_edges(struct graph *graph, struct operation *operation, int64_t ns)
{
	for (struct edge *edge = operation->edges; edge; edge = edge->next) {
		struct device_stream *stream;

		if (!edge->of->resolved) {
			stream = device_stream(graph, edge->of_stream);
			if (!stream->resolving && graph->depth < DEPTH_MAX) {
				graph->depth++;
				resolve(graph, stream, edge->of->number, ns);
				graph->depth--;
			}
		}
		if (edge->of->resolved && !edge->loose && edge->of->done.high > ns)
			edge->of->done.high = ns > edge->of->done.low ? ns : edge->of->done.low;
	}
}

static void add_edges(struct graph *graph, const struct operation *operation)
{
	struct input *input;

	for (struct edge *edge = operation->edges; edge; edge = edge->next) {
		if (!edge->of->resolved) {
			graph->contradictions++;
			continue;
		}
		edge->of->follower_stream = operation->stream;
		edge->of->follower = operation->number;
		input = inputs_add(&graph->inputs, edge->of->done, edge->of->even, edge->of->even);
		input->loose = edge->loose;
		if (edge->loose)
			input->when.low = 0;
		if (edge->join && operation->joining)
			slots_of(graph, operation->joining, input->gone);
	}
}

static void resolve_one(struct graph *graph, struct device_stream *stream,
			struct operation *operation, int64_t ns)
{
	const struct operation *before = youngest_resolved(stream);
	struct span sent = operation->sent;
	struct shift *shift;
	int64_t low = 0, high = 0;

	resolve_edges(graph, operation, ns);
	graph->inputs.count = 0;
	sent.high += graph->settings->wake_ns; /* an idle device takes a while to begin */
	inputs_add(&graph->inputs, sent, operation->even, operation->odd);
	inputs_add(&graph->inputs, before->done, before->even, before->even);
	add_edges(graph, operation);
	for (size_t i = 0; i < graph->inputs.count; i++) {
		low = most(low, graph->inputs.item[i].when.low);
		high = most(high, graph->inputs.item[i].when.high);
	}
	if (low > ns) {
		graph->contradictions++;
		low = ns;
	}
	shift = inputs_latest(graph, &graph->inputs, (struct span){0, ns});
	shift_unref(operation->even);
	operation->even = shift;
	operation->odd = shift_unref(operation->odd);
	operation->done = (struct span){low, ns};
	if (operation->longest_ns && high + operation->longest_ns < ns)
		operation->done.high = most(low, high + operation->longest_ns);
	operation->resolved = true;
	while (operation->edges) {
		struct edge *edge = operation->edges;

		operation->edges = edge->next;
		operation_unref(edge->of);
		free(edge);
	}
}

static void resolve(struct graph *graph, struct device_stream *stream, uint64_t number, int64_t ns)
{
	if (stream->resolving)
		return;
	stream->resolving = true;
	while (stream->first < stream->end && stream->open[stream->first]->number <= number) {
		struct operation *operation = stream->open[stream->first];

		resolve_one(graph, stream, operation, ns);
		stream->first++;
		push_resolved(stream, operation);
	}
	if (stream->first == stream->end)
		stream->first = stream->end = 0;
	stream->resolving = false;
}

void device_complete(struct graph *graph, struct device_stream *stream, uint64_t number, int64_t ns)
{
	resolve(graph, stream, number, ns);
	for (int i = 0; i < WHATIF_RING && stream->ring[i]; i++) {
		struct operation *operation = stream->ring[i];

		if (operation->number > number || operation->done.high <= ns)
			continue;
		operation->done.high = ns;
		if (operation->done.low > ns)
			operation->done.low = ns;
	}
}

static void stream_done(struct device_stream *stream)
{
	while (stream->first < stream->end)
		operation_unref(stream->open[stream->first++]);
	for (int i = 0; i < WHATIF_RING; i++)
		operation_unref(stream->ring[i]);
	while (stream->waiting) {
		struct edge *edge = stream->waiting;

		stream->waiting = edge->next;
		operation_unref(edge->of);
		free(edge);
	}
	free(stream->open);
}

void device_done(struct graph *graph)
{
	for (size_t i = 0; i < graph->streams.count; i++)
		stream_done(table_at(&graph->streams, i));
	table_done(&graph->streams);
	free(graph->inputs.item);
}
