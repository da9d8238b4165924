// SPDX-License-Identifier: MIT
/*
 * Overtaking: where a lane moves one thread against another, a wait may cover other operations than it did,
 * or operations of one stream may change places (whatif_graph.h). What happens then is not in the trace: the
 * lane is marked, and its result is anything from nothing to all that was removed.
 *
 * Only even lanes: in odd ones all threads move together.
 */
#include "emit/record.h"
#include "memory.h"
#include "tracing/analysis/whatif_graph.h"

/* Threads whose waits are looked at for each operation; with more in reach the worst is taken for true. */
#define OTHERS_MAX 64

static struct span even_lane(const struct shift *shift, unsigned int slot)
{
	return shift->lane[(size_t)2 * slot];
}

/*
 * Does this operation change places with the other thread's wait? It was sent after the wait and now
 * comes before it; or the other way round, which is seen late, when the call that sent it waited itself.
 */
static bool passes_wait(const struct host_thread *other, const struct operation *operation,
			unsigned int slot)
{
	const struct horizon *horizon = &other->horizon[slot];
	struct span by = even_lane(operation->even, slot);

	if (by.high > 0 && operation->sent.low - by.high < horizon->latest)
		return true;
	return operation->sent.low < other->wide_ns && by.low < horizon->most_high;
}

static bool passes_before(const struct operation *operation, const struct operation *before,
			  unsigned int slot)
{
	struct span by = even_lane(operation->even, slot);

	return by.high > 0 &&
	       operation->sent.low - by.high < before->sent.low - even_lane(before->even, slot).low;
}

static int64_t most_sooner(const struct graph *graph, const struct shift *shift)
{
	int64_t most = 0;

	for (unsigned int slot = 0; slot < graph->slots; slot++)
		if (graph->slot[slot].sum && even_lane(shift, slot).high > most)
			most = even_lane(shift, slot).high;
	return most;
}

void overtake_submit(struct graph *graph, struct device_stream *stream,
		     const struct host_thread *thread, const struct operation *operation)
{
	const struct operation *before = device_before(stream, operation);
	const struct host_thread *other;
	unsigned int slot, looked_at = 0;
	int64_t from;

	if (graph->callers < 2)
		return;
	if (before && !before->resolved && before->thread != operation->thread)
		for (slot = 0; slot < graph->slots; slot++)
			if (graph->slot[slot].sum && passes_before(operation, before, slot))
				graph->slot[slot].overtaken = true;
	/* Waits that were over before it could come in any lane are out of reach. */
	from = operation->sent.low - most_sooner(graph, operation->even);
	for (other = graph->wide_newest; other && other->wide_seen_ns >= from;
	     other = other->wide_older, looked_at++) {
		for (slot = 0; slot < graph->slots && other != thread; slot++)
			if (graph->slot[slot].sum && !graph->slot[slot].overtaken &&
			    (looked_at == OTHERS_MAX ? even_lane(operation->even, slot).high > 0
						     : passes_wait(other, operation, slot)))
				graph->slot[slot].overtaken = true;
		if (looked_at == OTHERS_MAX)
			break;
	}
}

/* Does the wait that began at `ns` change places with this operation, whose call has returned? */
static bool passes_operation(const struct operation *operation, int64_t ns, struct span by,
			     unsigned int slot)
{
	struct span other = {0, by.high};

	/* Of a resolved one it is no longer known how its thread moved. */
	if (!operation->resolved)
		other = even_lane(operation->even, slot);
	if (operation->sent.low < ns)
		return operation->sent.high - other.low > ns - by.high && other.low < by.high;
	return operation->sent.low - other.high < ns - by.low && other.high > by.low;
}

static void look_at(struct graph *graph, const struct host_thread *thread,
		    const struct operation *operation, int64_t ns)
{
	if (operation->thread == thread->index || operation->thread == UINT32_MAX)
		return;
	for (unsigned int slot = 0; slot < graph->slots; slot++)
		if (graph->slot[slot].sum && !graph->slot[slot].overtaken &&
		    passes_operation(operation, ns, even_lane(thread->shift, slot), slot))
			graph->slot[slot].overtaken = true;
}

static void to_front(struct graph *graph, struct host_thread *thread)
{
	if (graph->wide_newest == thread)
		return;
	if (thread->wide_newer)
		thread->wide_newer->wide_older = thread->wide_older;
	if (thread->wide_older)
		thread->wide_older->wide_newer = thread->wide_newer;
	thread->wide_newer = NULL;
	thread->wide_older = graph->wide_newest;
	if (thread->wide_older)
		thread->wide_older->wide_newer = thread;
	graph->wide_newest = thread;
}

static void raise_horizon(struct graph *graph, struct host_thread *thread, int64_t ns)
{
	to_front(graph, thread);
	thread->wide_ns = ns;
	thread->wide_seen_ns = graph->end_ns;
	if (!thread->horizon)
		thread->horizon = memory_new(graph->slots * sizeof(*thread->horizon));
	for (unsigned int slot = 0; slot < graph->slots; slot++) {
		struct horizon *horizon = &thread->horizon[slot];
		struct span by = even_lane(thread->shift, slot);

		/* Free slots too: who gets one later was not moved until then. */
		if (ns - by.low > horizon->latest)
			horizon->latest = ns - by.low;
		if (by.high > horizon->most_high)
			horizon->most_high = by.high;
	}
}

void overtake_wait(struct graph *graph, struct host_thread *thread, int64_t ns)
{
	int64_t from = ns - most_sooner(graph, thread->shift);

	raise_horizon(graph, thread, ns);
	if (graph->threads.count < 2)
		return;
	for (size_t i = 0; i < graph->streams.count; i++) {
		const struct device_stream *stream = table_at(&graph->streams, i);
		bool in_reach = true;

		/* The youngest first: those before are out of reach, too. */
		for (size_t j = stream->end; j-- > stream->first && in_reach;) {
			in_reach = stream->open[j]->sent.high >= from;
			look_at(graph, thread, stream->open[j], ns);
		}
		for (int j = 0; j < WHATIF_RING && stream->ring[j] && in_reach; j++) {
			in_reach = stream->ring[j]->sent.high >= from;
			look_at(graph, thread, stream->ring[j], ns);
		}
	}
}
