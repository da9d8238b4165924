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

static struct span even_lane(const struct shift *shift, unsigned int slot)
{
	return shift->lane[(size_t)2 * slot];
}

/*
 * Does this operation change places with another thread's wait? It was sent after the wait and now
 * comes before it; or the other way round, which is seen late, when the call that sent it waited itself.
 */
static bool passes_wait(const struct graph *graph, const struct host_thread *thread,
			const struct operation *operation, unsigned int slot)
{
	struct span by = even_lane(operation->even, slot);

	for (size_t i = 0; i < graph->threads.count; i++) {
		const struct host_thread *other = table_at(&graph->threads, i);
		const struct horizon *horizon = other->horizon ? &other->horizon[slot] : NULL;

		if (other == thread || !horizon)
			continue;
		if (by.high > 0 && operation->sent.low - by.high < horizon->latest)
			return true;
		if (operation->sent.low < other->wide_ns && by.low < horizon->most_high)
			return true;
	}
	return false;
}

void overtake_submit(struct graph *graph, struct device_stream *stream,
		     const struct host_thread *thread, const struct operation *operation)
{
	const struct operation *before = device_before(stream, operation);
	bool mixed = before && !before->resolved && before->thread != operation->thread;

	if (graph->callers < 2)
		return;
	for (unsigned int slot = 0; slot < graph->slots; slot++) {
		struct span by;

		if (!graph->slot[slot].sum || graph->slot[slot].overtaken)
			continue;
		by = even_lane(operation->even, slot);
		if (passes_wait(graph, thread, operation, slot) ||
		    (mixed && by.high > 0 &&
		     operation->sent.low - by.high <
			     before->sent.low - even_lane(before->even, slot).low))
			graph->slot[slot].overtaken = true;
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

static void raise_horizon(const struct graph *graph, struct host_thread *thread, int64_t ns)
{
	thread->wide_ns = ns;
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

static int64_t most_sooner(const struct graph *graph, const struct host_thread *thread)
{
	int64_t most = 0;

	for (unsigned int slot = 0; slot < graph->slots; slot++)
		if (graph->slot[slot].sum && even_lane(thread->shift, slot).high > most)
			most = even_lane(thread->shift, slot).high;
	return most;
}

void overtake_wait(struct graph *graph, struct host_thread *thread, int64_t ns)
{
	int64_t from = ns - most_sooner(graph, thread);

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
