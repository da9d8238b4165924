// SPDX-License-Identifier: MIT
/*
 * Call: how much sooner a call that waited returns (whatif_call.h). It returned at the latest of "its own cost was
 * paid" and "what it waited for was done", each of them up to wake_ns before the thread went on; its own cost is what
 * it took less what it was blocked.
 */
#include "tracing/analysis/whatif_call.h"

#include <stdlib.h>
#include <string.h>

#include "emit/record.h"
#include "memory.h"

/* A call whose own cost nobody knows costs up to this. */
#define UNKNOWN_OWN_NS 10000

/* What a tracer spends on a wait, which goes with it. */
#define TRACER_NS 5000

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

static enum manner manner_of(const struct graph *graph, const struct open_call *call)
{
	const struct trace_def_rule *rule = call_rule(graph, call->about.rule);

	if (!rule)
		return FOR_TARGETS;
	if (rule->flags & RECORD_RULE_OWN_COST)
		return FOR_ITSELF;
	if (rule->flags & RECORD_RULE_ROOM)
		return FOR_ROOM;
	if (rule->flags & RECORD_RULE_EVENT)
		return FOR_EVENT;
	if (rule->flags & RECORD_RULE_UNEXPLAINED)
		return FOR_SOMETHING;
	return FOR_TARGETS;
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
	if (host->waited <= (host->own_done ? graph->settings->wake_ns : 0) || host->meanwhile ||
	    host->unknown)
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
		only->done.low = most_ns(only->done.low, least_ns(only->done.high, from));
	host->only = only;
}

/* The call's own operation, which it waited for too. */
static void settle_own(struct graph *graph, struct host_call *host, const struct open_call *call)
{
	struct operation *own = call->own;

	if (!host->own_done)
		return;
	device_complete(graph, device_stream(graph, call->own_stream), own->number, host->end);
	if (host->waited > 0)
		own->done.low =
			most_ns(own->done.low, least_ns(own->done.high, host->end - host->slack));
	for (size_t i = 0; i < host->target_count; i++)
		operation_unref(graph->targets[i]);
	host->target_count = 0;
	host->only = host->waited > 0 ? own : NULL;
	targets_add(graph, host, own);
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
	struct span paid = {host->end - host->blocked.high, host->end - host->waited};
	bool unknown = host->unknown || host->meanwhile;
	int64_t latest = paid.high;
	struct shift *shift;

	graph->inputs.count = 0;
	inputs_add(&graph->inputs, paid, thread->shift, graph->shift);
	for (size_t i = 0; i < host->target_count; i++) {
		const struct operation *target = graph->targets[i];
		struct input *input;
		int64_t high = least_ns(target->done.high + host->slack, host->end);

		input = inputs_add(&graph->inputs, (struct span){target->done.low, high},
				   target->even, target->even);
		input->reach_ns = most_ns(0, target->done.low - host->begin);
		input->plain_ns = target->done.low;
		if (target != host->only)
			input->late_ns = most_ns(0, target->done.high + host->slack - host->end);
		latest = most_ns(latest, high);
	}
	if (!unknown && host->manner != FOR_ITSELF && host->end - latest > 0) {
		graph->unexplained_ns += host->end - latest;
		unknown = true;
	}
	if (unknown)
		add_unknown(graph, host);
	if (host->manner == FOR_ITSELF)
		graph->inputs.item[0].when = (struct span){host->end, host->end};
	shift = inputs_latest(graph, &graph->inputs, (struct span){host->end, host->end});
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
		(int64_t)least_ns((int64_t)(call->wait.call_ns & INT64_MAX), call->returned_ns);
	int64_t blocked = least_ns((int64_t)(call->wait.blocked_ns & INT64_MAX), duration);
	struct host_call host = {.end = call->returned_ns, .begin = call->returned_ns - duration};
	int64_t error = own_error(call->about.idle_basis, duration - blocked);

	host.own = duration - blocked;
	host.blocked =
		(struct span){most_ns(0, blocked - error), least_ns(duration, blocked + error)};
	/* Who sleeps long wakes up late. */
	host.slack = host.own + error + graph->settings->wake_ns + blocked / 100;
	host.manner = manner_of(graph, call);
	if (host.manner == FOR_ITSELF)
		host.blocked = (struct span){blocked, blocked};
	host.waited = most_ns(0, host.blocked.low - graph->settings->wake_ns);
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

/* From the least to the most that either says. */
static struct shift *either(struct graph *graph, const struct operation *before,
			    const struct host_thread *after)
{
	struct shift *shift = shift_new(graph);

	for (unsigned int lane = 0; lane < graph->lanes; lane++) {
		struct span a = (lane & 1 ? before->odd : before->even)->lane[lane];
		struct span b = (lane & 1 ? graph->shift : after->shift)->lane[lane];

		shift->lane[lane] = (struct span){least_ns(a.low, b.low), most_ns(a.high, b.high)};
	}
	return shift;
}

/*
 * When the call's own operation was handed over: of copies when it began (what it waits for is ahead of
 * it on the stream anyway); once the queue had room, the function was loaded; or nobody knows.
 */
static void settle_sent(struct graph *graph, const struct host_thread *thread,
			const struct host_call *host, struct operation *own)
{
	struct shift *even, *odd;

	if (!own || own->resolved || host->manner == FOR_TARGETS || host->manner == FOR_EVENT)
		return;
	if (host->manner == FOR_SOMETHING) {
		own->sent = (struct span){host->begin, host->end};
		even = either(graph, own, thread);
		odd = shift_ref(even);
	} else {
		own->sent = (struct span){host->end - host->own, host->end};
		even = shift_ref(thread->shift);
		odd = shift_ref(graph->shift);
	}
	shift_unref(own->even);
	shift_unref(own->odd);
	own->even = even;
	own->odd = odd;
}

void call_forget(struct open_call *call)
{
	struct trace_completed *completed = call->completed;
	size_t capacity = call->completed_capacity;

	operation_unref(call->own);
	*call = (struct open_call){.completed = completed, .completed_capacity = capacity};
}

void call_open(struct graph *graph, struct host_thread *thread)
{
	thread->call.waits = true;
	graph->open = memory_grow(graph->open, graph->open_count, &graph->open_capacity,
				  sizeof(struct host_thread *));
	thread->open_index = graph->open_count;
	graph->open[graph->open_count++] = thread;
}

static void call_close(struct graph *graph, struct host_thread *thread)
{
	struct host_thread *last = graph->open[--graph->open_count];

	graph->open[thread->open_index] = last;
	last->open_index = thread->open_index;
	call_forget(&thread->call);
}

void call_settle(struct graph *graph, struct host_thread *thread)
{
	struct open_call *call = &thread->call;
	const struct trace_def_rule *rule;
	struct host_call host;
	struct shift *shift;
	int slots[2];

	if (!call->waits)
		return;
	rule = call_rule(graph, call->about.rule);
	if (rule && rule->class == WAIT_DEVICE) {
		call_close(graph, thread);
		return;
	}
	host = measure(graph, call, rule && rule->class == WAIT_EXPLICIT);
	host.unknown = host.manner == FOR_ROOM || host.manner == FOR_SOMETHING;
	if (host.manner != FOR_ROOM && host.manner != FOR_ITSELF) {
		if (targets_are_wide(graph, call, &host, thread->index)) {
			/* What another thread is just handing over is not in the trace yet. */
			host.meanwhile = graph->threads.count > 1;
			overtake_wait(graph, thread, host.begin);
		}
		host.wide = host.manner != FOR_EVENT && call->wait.stream == 0;
		targets_find(graph, &host, call);
		draw_conclusion(graph, &host);
		targets_complete_instant(graph, &host);
		settle_own(graph, &host, call);
	}
	slots_wait(graph, &call->about, host.end - host.begin - host.own, slots);
	graph->blocked_ns += host.removed.high;
	shift = take_out(graph, thread, &host, return_shift(graph, thread, &host), slots);
	shift_unref(thread->shift);
	thread->shift = shift_ref(shift);
	shift_unref(graph->shift);
	graph->shift = shift;
	settle_sent(graph, thread, &host, call->own);
	for (size_t i = 0; i < host.target_count; i++)
		operation_unref(graph->targets[i]);
	call_close(graph, thread);
}
