// SPDX-License-Identifier: MIT
/*
 * Slots: which sites and rules are replayed (whatif_graph.h). A site gets a slot at its first wait, which is
 * as good as from the beginning, since until then nothing of it was removed. When all are taken, a site
 * that blocked twice as long as the least of those takes its place; what it blocked before is added to the
 * upper bound of its saving.
 */
#include "memory.h"
#include "tracing/analysis/whatif_graph.h"

static struct wait_sum *sum_of(struct graph *graph, uint32_t rule, uint32_t site, bool whole)
{
	bool is_new;
	struct wait_sum *sum = table_add(&graph->sums, site_key(rule, site), whole, &is_new);

	if (is_new) {
		sum->rule = rule;
		sum->site = site;
		sum->whole = whole;
		sum->slot = -1;
	}
	return sum;
}

/* The experiment in this slot is over: all points forget it. */
static void clear(struct graph *graph, unsigned int number)
{
	struct slot *slot = &graph->slot[number];

	if (!slot->sum)
		return;
	slot->sum->slot = -1;
	*slot = (struct slot){0};
	for (struct shift *shift = graph->shifts; shift; shift = shift->next) {
		shift->lane[2 * number] = (struct span){0};
		shift->lane[2 * number + 1] = (struct span){0};
	}
	for (size_t i = 0; i < graph->threads.count; i++) {
		struct host_thread *thread = table_at(&graph->threads, i);

		if (thread->horizon)
			thread->horizon[number] = (struct horizon){.latest = thread->wide_ns};
	}
}

static void seek_slot(struct graph *graph, struct wait_sum *sum)
{
	unsigned int from = sum->whole ? graph->site_slots : 0;
	unsigned int to = sum->whole ? graph->slots : graph->site_slots;
	unsigned int least = from;

	for (unsigned int i = from; i < to; i++) {
		const struct wait_sum *other = graph->slot[i].sum;

		if (!other) {
			least = i;
			break;
		}
		if (other->blocked_ns < graph->slot[least].sum->blocked_ns)
			least = i;
	}
	if (graph->slot[least].sum && sum->blocked_ns / 2 <= graph->slot[least].sum->blocked_ns)
		return;
	clear(graph, least);
	graph->slot[least].sum = sum;
	sum->slot = (int)least;
	sum->missed_ns = sum->blocked_ns;
}

static int count(struct graph *graph, struct wait_sum *sum, uint32_t function, int64_t blocked_ns)
{
	if (sum->slot < 0)
		seek_slot(graph, sum);
	sum->function = function;
	sum->count++;
	sum->blocked_ns += blocked_ns;
	return sum->slot;
}

void slots_wait(struct graph *graph, const struct trace_def_wait *about, int64_t blocked_ns,
		int ret_slots[2])
{
	ret_slots[0] = count(graph, sum_of(graph, about->rule, about->site, false), about->function,
			     blocked_ns);
	ret_slots[1] = count(graph, sum_of(graph, about->rule, 0, true), 0, blocked_ns);
}

void slots_of(const struct graph *graph, uint64_t key, int ret_slots[2])
{
	uint32_t rule = (uint32_t)(key >> 32) - 1;
	const struct wait_sum *site = table_find(&graph->sums, key, false);
	const struct wait_sum *whole = table_find(&graph->sums, site_key(rule, 0), true);

	ret_slots[0] = site ? site->slot : -1;
	ret_slots[1] = whole ? whole->slot : -1;
}
