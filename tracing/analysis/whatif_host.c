// SPDX-License-Identifier: MIT
/*
 * Host: threads and their events in the graph (whatif_graph.h). The events of one call come one after another
 * on its thread (wait, submit, completed), so a call that waited is settled when the next one begins
 * (whatif_call.c).
 */
#include "emit/record.h"
#include "memory.h"
#include "tracing/analysis/whatif_call.h"

/* Events of a call come one right after the other: within this time of the one before on the thread. */
#define SAME_CALL_NS 20000

/* What an operation takes at most: one that does nothing, and one that moves bytes (1 GB/s). */
#define INSTANT_NS       20000
#define COPY_NS          100000
#define COPY_NS_PER_BYTE 1

/* Somebody made the thread, so it comes as much sooner as the threads do that move together. */
static struct shift *newcomer(struct graph *graph)
{
	struct shift *shift = shift_new(graph);

	for (unsigned int lane = 0; lane < graph->lanes; lane++)
		shift->lane[lane] = graph->shift->lane[lane | 1];
	return shift;
}

static struct host_thread *thread_of(struct graph *graph, uint32_t number)
{
	struct host_thread *thread = graph->last_thread;
	bool is_new;

	if (thread && thread->thread == number)
		return thread;
	thread = table_add(&graph->threads, number, 0, &is_new);
	if (is_new) {
		thread->thread = number;
		thread->index = (uint32_t)graph->threads.count - 1;
		thread->shift = newcomer(graph);
	}
	graph->last_thread = thread;
	return thread;
}

/* Calls of other threads that are surely over, so that all is done in order of time. */
static void settle_others(struct graph *graph, const struct host_thread *thread, int64_t ns)
{
	if (graph->callers < 2)
		return;
	/* From the end: settling one moves the last into its place. */
	for (size_t i = graph->open_count; i-- > 0;) {
		struct host_thread *other = graph->open[i];

		if (other != thread && other->call.last_ns + SAME_CALL_NS < ns)
			call_settle(graph, other);
	}
}

static void begin_call(struct graph *graph, struct host_thread *thread, int64_t ns)
{
	call_settle(graph, thread);
	settle_others(graph, thread, ns);
	if (!thread->calls) {
		thread->calls = true;
		graph->callers++;
	}
}

static void take_wait(struct graph *graph, struct host_thread *thread, int64_t ns,
		      const struct trace_wait *wait)
{
	const struct trace_def_wait *about =
		model_find(graph->model, graph->process, TRACE_DEF_WAIT, wait->wait);
	const struct trace_def_rule *rule = about ? call_rule(graph, about->rule) : NULL;
	struct open_call *call = &thread->call;
	bool of_device = rule && rule->class == WAIT_DEVICE;
	int slots[2];

	graph->waits++;
	if (!(of_device && call->waits && !call->own && call->wait.call_ns == wait->call_ns)) {
		begin_call(graph, thread, ns);
		call_open(graph, thread);
		call->wait = *wait;
		call->about = about ? *about : (struct trace_def_wait){.idle_basis = IDLE_DEFAULT};
		call->returned_ns = ns;
	}
	call->last_ns = ns;
	if (of_device) {
		call->joining = site_key(about->rule, about->site);
		slots_wait(graph, about, 0, slots);
	}
}

/* Of a kernel nobody knows, but what only moves bytes is no slower than this. */
static int64_t longest(const struct trace_submit *submit)
{
	switch (submit->operation) {
	case OPERATION_EVENT_WAIT:
		return INSTANT_NS;
	case OPERATION_COPY:
	case OPERATION_MEMSET:
		return submit->bytes && submit->bytes < WHATIF_FAR / COPY_NS_PER_BYTE
			       ? COPY_NS + (int64_t)submit->bytes * COPY_NS_PER_BYTE
			       : 0;
	default:
		return 0;
	}
}

static void take_submit(struct graph *graph, struct host_thread *thread, int64_t ns,
			const struct trace_submit *submit)
{
	struct open_call *call = &thread->call;
	struct device_stream *stream;
	struct operation *operation;
	int64_t begin = ns - least_ns((int64_t)(submit->call_ns & INT64_MAX), ns);
	bool same = call->waits && !call->own && call->wait.call_ns == submit->call_ns;

	if (!same)
		begin_call(graph, thread, ns);
	else
		begin = call->returned_ns - (ns - begin);
	stream = device_stream(graph, submit->stream);
	operation = device_submit(graph, stream, submit->number,
				  (struct span){most_ns(begin, 0), same ? most_ns(begin, 0) : ns},
				  thread);
	if (!operation)
		return;
	operation->instant = submit->operation == OPERATION_EVENT_WAIT;
	operation->longest_ns = longest(submit);
	overtake_submit(graph, stream, thread, operation);
	if (stream->kind == STREAM_LEGACY)
		overtake_wait(graph, thread, operation->sent.low);
	if (!same)
		return;
	operation->joining = call->joining;
	operation->references++;
	call->own = operation;
	call->own_stream = submit->stream;
	call->last_ns = ns;
}

static void take_completed(struct graph *graph, struct host_thread *thread, int64_t ns,
			   int64_t before_ns, const struct trace_completed *completed)
{
	struct open_call *call = &thread->call;

	if (!call->waits || ns - before_ns > SAME_CALL_NS) {
		device_complete(graph, device_stream(graph, completed->stream), completed->number,
				ns);
		return;
	}
	call->completed = memory_grow(call->completed, call->completed_count,
				      &call->completed_capacity, sizeof(*call->completed));
	call->completed[call->completed_count++] = *completed;
	call->last_ns = ns;
}

/* On a stream of several threads it may come to stand for other operations. */
static void take_record(struct graph *graph, struct host_thread *thread, int64_t ns,
			const struct trace_record *record)
{
	struct device_stream *stream = device_stream(graph, record->stream);

	call_settle(graph, thread);
	if (device_is_shared(stream, thread->index))
		overtake_wait(graph, thread, ns);
}

void host_event(struct graph *graph, const struct analysis_event *event)
{
	struct host_thread *thread = thread_of(graph, event->thread);
	int64_t ns = event->ns - graph->base_ns;
	int64_t before_ns = thread->last_ns; /* of its event before this one */

	if (ns < graph->end_ns) /* the reader gives them in order; a damaged trace may not */
		ns = graph->end_ns;
	graph->end_ns = ns;
	thread->last_ns = ns;
	switch (event->id) {
	case TRACE_WAIT:
		take_wait(graph, thread, ns, event->payload);
		break;
	case TRACE_SUBMIT:
		take_submit(graph, thread, ns, event->payload);
		break;
	case TRACE_STREAM_WAIT: {
		const struct trace_stream_wait *wait = event->payload;

		device_edge(graph, wait->stream, wait->number + 1, wait->of_stream, wait->of_number,
			    false);
		break;
	}
	case TRACE_JOIN: {
		const struct trace_join *join = event->payload;

		device_edge(graph, join->stream, join->number, join->of_stream, join->of_number,
			    true);
		break;
	}
	case TRACE_RECORD:
		take_record(graph, thread, ns, event->payload);
		break;
	case TRACE_COMPLETED:
		take_completed(graph, thread, ns, before_ns, event->payload);
		break;
	default:
		break;
	}
}

static void add_ends(struct graph *graph)
{
	for (size_t i = 0; i < graph->threads.count; i++) {
		const struct host_thread *thread = table_at(&graph->threads, i);
		struct span when = {thread->last_ns, thread->last_ns};

		if (thread->last_ns == graph->end_ns)
			inputs_add(&graph->inputs, when, thread->shift, graph->shift);
		else
			inputs_add(&graph->inputs, when, thread->shift, thread->shift);
	}
	for (size_t i = 0; i < graph->streams.count; i++) {
		struct device_stream *stream = table_at(&graph->streams, i);
		const struct operation *last = stream->ring[0];

		if (last)
			inputs_add(&graph->inputs, last->done, last->even, last->even);
	}
}

struct shift *host_finish(struct graph *graph)
{
	for (size_t i = 0; i < graph->threads.count; i++)
		call_settle(graph, table_at(&graph->threads, i));
	for (size_t i = 0; i < graph->streams.count; i++)
		device_complete(graph, table_at(&graph->streams, i), UINT64_MAX, graph->end_ns);
	graph->inputs.count = 0;
	add_ends(graph);
	return inputs_latest(graph, &graph->inputs, (struct span){graph->end_ns, graph->end_ns});
}

void host_done(struct graph *graph)
{
	for (size_t i = 0; i < graph->threads.count; i++) {
		struct host_thread *thread = table_at(&graph->threads, i);

		call_forget(&thread->call);
		free(thread->call.completed);
		free(thread->horizon);
		shift_unref(thread->shift);
	}
	table_done(&graph->threads);
	free(graph->targets);
	free(graph->open);
}
