// SPDX-License-Identifier: MIT
/*
 * Host: threads and their calls in the graph (whatif_graph.h). The events of one call come one after another
 * on its thread (wait, submit, completed), so a call that waited is settled when the next one begins.
 *
 * A call that waited returned at the latest of "its own cost was paid" and "what it waited for was
 * done"; its own cost is what it took less what it was blocked. What it waited for: operations that the
 * host knew complete afterwards, else its candidates up to what was handed over before it began.
 */
#include "emit/record.h"
#include "memory.h"
#include "tracing/analysis/whatif_graph.h"

/* Events of a call come one right after the other: within this time of the one before on the thread. */
#define SAME_CALL_NS 20000
/* Not explained by less than this is not worth telling. */
#define UNEXPLAINED_NS 10000

/* A call whose own cost nobody knows costs up to this. */
#define UNKNOWN_OWN_NS 10000

/* What an operation takes at most: one that does nothing, and one that moves bytes (1 GB/s). */
#define INSTANT_NS       20000
#define COPY_NS          100000
#define COPY_NS_PER_BYTE 1

/* What a tracer spends on a wait, which goes with it. */
#define TRACER_NS 20000

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
	int64_t own; /* its own cost; plus or minus `error` */
	struct span blocked;
	struct span removed; /* what goes with the wait */
	int64_t slack;       /* from the end of what it waited for to its return, at most */
	enum manner manner;
	size_t target_count; /* in graph->targets */
	bool own_done;       /* its own operation was complete when it returned */
	bool wide;           /* it waits for what all streams have */
	bool meanwhile; /* others may have handed work over meanwhile, which it waited for too */
	const struct operation *only; /* the one that it was blocked by, if that is certain */
	bool unknown; /* it may have waited for something that the trace does not name */
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
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
		thread->shift = shift_ref(graph->zero);
	}
	graph->last_thread = thread;
	return thread;
}

/* How far the own cost may be off, by how it is known. */
static int64_t own_error(uint32_t basis, int64_t own)
{
	switch (basis) {
	case IDLE_NONE:
		return UNKNOWN_OWN_NS;
	case IDLE_CALIBRATED:
		return own / 8 + 1000;
	case IDLE_MINIMUM:
		return own / 2 + 1000;
	default:
		return own + 1000;
	}
}

static const struct trace_def_rule *rule_of(const struct graph *graph, uint32_t number)
{
	return model_find(graph->model, graph->process, TRACE_DEF_RULE, number);
}

static enum manner manner_of(const struct graph *graph, const struct open_call *call)
{
	const struct trace_def_rule *rule = rule_of(graph, call->about.rule);
	const char *slug = rule ? model_string(graph->model, graph->process, rule->slug) : NULL;

	if (rule && rule->flags & RECORD_RULE_OWN_COST)
		return FOR_ITSELF;
	if (!slug)
		return FOR_TARGETS;
	if (strcmp(slug, "queue-full") == 0 || strcmp(slug, "staging-full") == 0)
		return FOR_ROOM;
	if (strcmp(slug, "event-synchronize") == 0)
		return FOR_EVENT;
	if (strcmp(slug, "observed-unknown") == 0)
		return FOR_SOMETHING;
	return FOR_TARGETS;
}

static void add_target(struct graph *graph, struct host_call *host, struct operation *operation)
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
		add_target(graph, host, operation);
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
	add_target(graph, host, operation);
	operation_unref(operation);
}

static void complete_instant(struct graph *graph, const struct host_call *host)
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

	if (!(call->wait.candidates & UINT32_C(0x80000000))) {
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
			add_target(graph, host, operation);
	}
}

/* What its own operation was ordered behind is complete if that one is. */
static void add_edges_of(struct graph *graph, struct host_call *host, const struct operation *own)
{
	for (const struct edge *edge = own->edges; edge; edge = edge->next)
		complete_and_add(graph, host, device_stream(graph, edge->of_stream), edge->of);
}

/* What it waited for, other than its own operation; the host knew it complete at the end. */
static void find_targets(struct graph *graph, struct host_call *host, const struct open_call *call)
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

/* Is one of the targets certainly no sooner done than this one? */
static bool is_followed(const struct graph *graph, const struct host_call *host,
			const struct operation *operation)
{
	for (size_t i = 0; i < host->target_count; i++)
		if (operation->follower &&
		    graph->targets[i]->stream == operation->follower_stream &&
		    graph->targets[i]->number >= operation->follower)
			return true;
	return false;
}

/*
 * A call that was blocked returned when the last of its targets was done. If only one of them can have
 * been that late, it was.
 */
static void draw_conclusion(struct graph *graph, struct host_call *host)
{
	struct operation *only = NULL;
	int64_t from = host->end - host->slack;

	/* What its own operation took longer than when idle may be a late start and a late wake-up. */
	if (host->blocked.low <= (host->own_done ? 2 * graph->settings->wake_ns : 0) ||
	    host->meanwhile || host->unknown)
		return;
	for (size_t i = 0; i < host->target_count; i++) {
		struct operation *target = graph->targets[i];

		/* What takes no time is as late as what it was behind, which a call for all waits for too. */
		if (target->done.high < from || (target->instant && host->wide) ||
		    is_followed(graph, host, target))
			continue;
		if (only)
			return;
		only = target;
	}
	if (only)
		only->done.low = most(only->done.low, least(only->done.high, from));
	host->only = only;
}

/* The call's own operation, which it waited for too. */
static void settle_own(struct graph *graph, struct host_call *host, const struct open_call *call)
{
	struct operation *own = call->own;

	if (!host->own_done)
		return;
	device_complete(graph, device_stream(graph, call->own_stream), own->number, host->end);
	if (host->blocked.low > 0)
		own->done.low = most(own->done.low, least(own->done.high, host->end - host->slack));
	for (size_t i = 0; i < host->target_count; i++)
		operation_unref(graph->targets[i]);
	host->target_count = 0;
	host->only = host->blocked.low > 0 ? own : NULL;
	add_target(graph, host, own);
}

static void add_unknown(struct graph *graph, const struct host_call *host)
{
	if (!graph->unknown)
		graph->unknown = shift_new(graph);
	for (unsigned int lane = 0; lane < graph->lanes; lane++)
		graph->unknown->lane[lane] = (struct span){0, graph->slot[lane / 2].removed_ns};
	inputs_add(&graph->inputs, (struct span){0, host->end}, graph->unknown, graph->unknown);
}

/* By how much sooner the call returns, if it still waits. */
static struct shift *return_shift(struct graph *graph, const struct host_thread *thread,
				  const struct host_call *host)
{
	struct span paid = {host->end - host->blocked.high, host->end - host->blocked.low};
	bool unknown = host->unknown || host->meanwhile;
	int64_t latest = paid.high;
	struct shift *shift;

	graph->inputs.count = 0;
	inputs_add(&graph->inputs, paid, thread->shift, graph->shift);
	for (size_t i = 0; i < host->target_count; i++) {
		const struct operation *target = graph->targets[i];
		struct input *input;
		int64_t high = least(target->done.high + host->slack, host->end);

		input = inputs_add(&graph->inputs, (struct span){target->done.low, high},
				   target->even, target->even);
		input->reach_ns = most(0, target->done.low - host->begin);
		input->plain_ns = target->done.low;
		if (target != host->only)
			input->late_ns = most(0, target->done.high + host->slack - host->end);
		latest = most(latest, high);
	}
	if (!unknown && host->manner != FOR_ITSELF && host->end - latest > 0) {
		if (host->end - latest > UNEXPLAINED_NS)
			graph->unexplained_ns += host->end - latest;
		unknown = true;
	}
	if (unknown)
		add_unknown(graph, host);
	if (host->manner == FOR_ITSELF)
		graph->inputs.item[0].when = (struct span){host->end, host->end};
	shift = inputs_latest(graph, &graph->inputs, (struct span){host->end, host->end}, NULL);
	return shift;
}

/* In the lanes of the call's site and rule it did not wait: what it was blocked is saved. */
static struct shift *take_out(struct graph *graph, const struct host_thread *thread,
			      const struct host_call *host, struct shift *kept, const int slots[2])
{
	struct shift *shift = shift_new(graph);

	memcpy(shift->lane, kept->lane, graph->lanes * sizeof(shift->lane[0]));
	for (int i = 0; i < 2; i++) {
		if (slots[i] < 0)
			continue;
		for (unsigned int odd = 0; odd < 2; odd++) {
			unsigned int lane = 2 * (unsigned int)slots[i] + odd;
			struct span by = (odd ? graph->shift : thread->shift)->lane[lane];

			shift->lane[lane] = (struct span){by.low + host->removed.low,
							  by.high + host->removed.high};
		}
		graph->slot[slots[i]].removed_ns += host->removed.high;
	}
	shift_unref(kept);
	return shift;
}

static struct host_call measure(struct graph *graph, const struct open_call *call, bool is_explicit)
{
	int64_t duration =
		(int64_t)least((int64_t)(call->wait.call_ns & INT64_MAX), call->returned_ns);
	int64_t blocked = least((int64_t)(call->wait.blocked_ns & INT64_MAX), duration);
	struct host_call host = {.end = call->returned_ns, .begin = call->returned_ns - duration};
	int64_t error = own_error(call->about.idle_basis, duration - blocked);

	host.own = duration - blocked;
	host.blocked = (struct span){most(0, blocked - error), least(duration, blocked + error)};
	/* Who sleeps long wakes up late. */
	host.slack = host.own + error + graph->settings->wake_ns + blocked / 100;
	host.manner = manner_of(graph, call);
	if (host.manner == FOR_ITSELF)
		host.blocked = (struct span){blocked, blocked};
	/*
	 * Of a copy that need not be waited for, the caller does not pay for the transfer either; a wait by
	 * name goes with the whole call.
	 */
	host.removed = host.blocked;
	if (call->own || is_explicit)
		host.removed.high = duration;
	host.removed.high += TRACER_NS;
	return host;
}

/* Once the queue had room, and not before, the operation was handed over. */
static void settle_queued(struct graph *graph, const struct host_thread *thread,
			  const struct host_call *host, struct operation *own)
{
	if (!own || own->resolved || host->manner != FOR_ROOM)
		return;
	own->sent = (struct span){host->end - host->own, host->end};
	shift_unref(own->even);
	shift_unref(own->odd);
	own->even = shift_ref(thread->shift);
	own->odd = shift_ref(graph->shift);
}

static void forget_call(struct open_call *call)
{
	struct trace_completed *completed = call->completed;
	size_t capacity = call->completed_capacity;

	operation_unref(call->own);
	*call = (struct open_call){.completed = completed, .completed_capacity = capacity};
}

/* Can it wait for what other threads hand over? */
static bool is_wide(struct graph *graph, const struct open_call *call, const struct host_call *host,
		    uint32_t thread)
{
	struct device_stream *stream;

	if (host->manner == FOR_EVENT)
		return false;
	if (call->wait.stream == 0)
		return true;
	stream = device_stream(graph, call->wait.stream);
	return stream->kind == STREAM_LEGACY || device_is_shared(stream, thread);
}

static void settle(struct graph *graph, struct host_thread *thread)
{
	struct open_call *call = &thread->call;
	const struct trace_def_rule *rule;
	struct host_call host;
	struct shift *shift;
	int slots[2];

	if (!call->waits)
		return;
	rule = rule_of(graph, call->about.rule);
	if (rule && rule->class == WAIT_DEVICE) {
		forget_call(call);
		return;
	}
	host = measure(graph, call, rule && rule->class == WAIT_EXPLICIT);
	host.unknown = host.manner == FOR_ROOM || host.manner == FOR_SOMETHING;
	if (host.manner != FOR_ROOM && host.manner != FOR_ITSELF) {
		if (is_wide(graph, call, &host, thread->index)) {
			/* What another thread is just handing over is not in the trace yet. */
			host.meanwhile = graph->threads.count > 1;
			overtake_wait(graph, thread, host.begin);
		}
		host.wide = host.manner != FOR_EVENT && call->wait.stream == 0;
		find_targets(graph, &host, call);
		draw_conclusion(graph, &host);
		complete_instant(graph, &host);
		settle_own(graph, &host, call);
	}
	slots_wait(graph, &call->about, host.end - host.begin - host.own, slots);
	graph->blocked_ns += host.removed.high;
	shift = take_out(graph, thread, &host, return_shift(graph, thread, &host), slots);
	shift_unref(thread->shift);
	thread->shift = shift_ref(shift);
	shift_unref(graph->shift);
	graph->shift = shift;
	settle_queued(graph, thread, &host, call->own);
	for (size_t i = 0; i < host.target_count; i++)
		operation_unref(graph->targets[i]);
	forget_call(call);
}

/* Calls of other threads that are surely over, so that all is done in order of time. */
static void settle_others(struct graph *graph, const struct host_thread *thread, int64_t ns)
{
	if (graph->callers < 2)
		return;
	for (size_t i = 0; i < graph->threads.count; i++) {
		struct host_thread *other = table_at(&graph->threads, i);

		if (other != thread && other->call.waits && other->call.last_ns + SAME_CALL_NS < ns)
			settle(graph, other);
	}
}

static void begin_call(struct graph *graph, struct host_thread *thread, int64_t ns)
{
	settle(graph, thread);
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
	const struct trace_def_rule *rule = about ? rule_of(graph, about->rule) : NULL;
	struct open_call *call = &thread->call;
	bool of_device = rule && rule->class == WAIT_DEVICE;
	int slots[2];

	graph->waits++;
	if (!(of_device && call->waits && !call->own && call->wait.call_ns == wait->call_ns)) {
		begin_call(graph, thread, ns);
		call->waits = true;
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
	int64_t begin = ns - least((int64_t)(submit->call_ns & INT64_MAX), ns);
	bool same = call->waits && !call->own && call->wait.call_ns == submit->call_ns;

	if (!same)
		begin_call(graph, thread, ns);
	else
		begin = call->returned_ns - (ns - begin);
	stream = device_stream(graph, submit->stream);
	operation =
		device_submit(graph, stream, submit->number,
			      (struct span){most(begin, 0), same ? most(begin, 0) : ns}, thread);
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

	settle(graph, thread);
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
		settle(graph, table_at(&graph->threads, i));
	for (size_t i = 0; i < graph->streams.count; i++)
		device_complete(graph, table_at(&graph->streams, i), UINT64_MAX, graph->end_ns);
	graph->inputs.count = 0;
	add_ends(graph);
	return inputs_latest(graph, &graph->inputs, (struct span){graph->end_ns, graph->end_ns},
			     NULL);
}

void host_done(struct graph *graph)
{
	for (size_t i = 0; i < graph->threads.count; i++) {
		struct host_thread *thread = table_at(&graph->threads, i);

		forget_call(&thread->call);
		free(thread->call.completed);
		free(thread->horizon);
		shift_unref(thread->shift);
	}
	table_done(&graph->threads);
	free(graph->targets);
}
