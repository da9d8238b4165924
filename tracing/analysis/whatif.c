// SPDX-License-Identifier: MIT
/*
 * What-if: the consumer, one graph a process, and the result (whatif.h). Fed by the program behind
 * `slipstream report DIR` and the tests.
 */
#include "tracing/analysis/whatif.h"

#include <stdlib.h>

#include "emit/record.h"
#include "memory.h"
#include "tracing/analysis/whatif_graph.h"

/* Added to all times, so that a call that began before the first event has a time above 0. */
#define BASE_NS INT64_C(1000000000000)

struct whatif {
	struct whatif_settings settings;
	struct graph **graphs; /* by process; NULL: no event yet */
	size_t graph_count, graph_capacity;
	struct whatif_result result;
	size_t row_capacity, rule_capacity, process_capacity;
	bool finished;
};

const struct whatif_settings whatif_defaults = {.sites = 20, .wake_ns = 50000};

struct whatif *whatif_new(const struct whatif_settings *settings)
{
	struct whatif *whatif = memory_new(sizeof(*whatif));

	whatif->settings = settings ? *settings : whatif_defaults;
	if (whatif->settings.sites < 1)
		whatif->settings.sites = 1;
	if (whatif->settings.sites > WHATIF_SITES_MAX)
		whatif->settings.sites = WHATIF_SITES_MAX;
	if (whatif->settings.wake_ns < 0)
		whatif->settings.wake_ns = 0;
	return whatif;
}

static struct graph *graph_new(const struct whatif *whatif, const struct model *model,
			       uint32_t process, int64_t ns)
{
	struct graph *graph = memory_new(sizeof(*graph));

	graph->settings = &whatif->settings;
	graph->process = process;
	graph->model = model;
	graph->site_slots = whatif->settings.sites;
	graph->slots = graph->site_slots + WHATIF_RULES;
	graph->lanes = 2 * graph->slots;
	graph->slot = memory_new(graph->slots * sizeof(*graph->slot));
	graph->threads.data_size = sizeof(struct host_thread);
	graph->streams.data_size = sizeof(struct device_stream);
	graph->sums.data_size = sizeof(struct wait_sum);
	graph->zero = shift_new(graph);
	graph->shift = shift_ref(graph->zero);
	graph->base_ns = ns - BASE_NS;
	graph->begin_ns = graph->end_ns = BASE_NS;
	return graph;
}

static void graph_free(struct graph *graph)
{
	if (!graph)
		return;
	host_done(graph);
	device_done(graph);
	table_done(&graph->sums);
	shift_unref(graph->unknown);
	shift_unref(graph->shift);
	shift_unref(graph->zero);
	free(graph->slot);
	free(graph);
}

struct whatif *whatif_free(struct whatif *whatif)
{
	if (!whatif)
		return NULL;
	for (size_t i = 0; i < whatif->graph_count; i++)
		graph_free(whatif->graphs[i]);
	free(whatif->graphs);
	free(whatif->result.rows);
	free(whatif->result.rules);
	free(whatif->result.processes);
	free(whatif);
	return NULL;
}

static int take_event(void *consumer, const struct model *model, const struct analysis_event *event,
		      char **reterr_text)
{
	struct whatif *whatif = consumer;

	while (whatif->graph_count <= event->process) {
		whatif->graphs = memory_grow(whatif->graphs, whatif->graph_count,
					     &whatif->graph_capacity, sizeof(*whatif->graphs));
		whatif->graphs[whatif->graph_count++] = NULL;
	}
	if (!whatif->graphs[event->process])
		whatif->graphs[event->process] =
			graph_new(whatif, model, event->process, event->ns);
	host_event(whatif->graphs[event->process], event);
	return 0;
}

static const char *text_or_empty(const struct graph *graph, uint32_t id)
{
	const char *text = model_string(graph->model, graph->process, id);

	return text ? text : "";
}

static void name_row(const struct graph *graph, struct whatif_row *row)
{
	const struct trace_def_rule *rule =
		model_find(graph->model, graph->process, TRACE_DEF_RULE, row->rule);
	const struct trace_def_function *function =
		row->site || row->function ? model_find(graph->model, graph->process,
							TRACE_DEF_FUNCTION, row->function)
					   : NULL;

	row->rule_slug = rule ? text_or_empty(graph, rule->slug) : "";
	row->wait_class = rule ? rule->class : 0;
	row->function_name = function ? text_or_empty(graph, function->name) : "";
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What the two lanes of the slot say of the end. */
static struct span saving(const struct graph *graph, const struct shift *end, unsigned int number)
{
	const struct slot *slot = &graph->slot[number];
	struct span result = end->lane[(size_t)2 * number];
	struct span together = end->lane[(size_t)2 * number + 1];

	if (graph->callers > 1) {
		if (slot->overtaken) /* at best, no wait at all is left */
			result = (struct span){0, graph->blocked_ns};
		result.low = least(result.low, together.low);
		result.high = most(result.high, together.high);
	}
	return result;
}

/*
 * Of order on the device only the upper bound is known, which ranks nothing; where threads may overtake each
 * other, what was removed itself does.
 */
static int64_t middle(const struct whatif_row *row)
{
	if (row->wait_class == WAIT_DEVICE)
		return row->low_ns;
	if (row->overtaken)
		return (row->low_ns + least(row->blocked_ns, row->high_ns)) / 2;
	return (row->low_ns + row->high_ns) / 2;
}

static struct whatif_row make_row(const struct graph *graph, const struct shift *end,
				  const struct wait_sum *sum)
{
	struct whatif_row row = {
		.process = graph->process,
		.rule = sum->rule,
		.site = sum->site,
		.function = sum->function,
		.count = sum->count,
		.blocked_ns = sum->blocked_ns,
		.high_ns = sum->blocked_ns,
		.replayed = sum->slot >= 0,
	};

	name_row(graph, &row);
	if (row.replayed) {
		struct span by = saving(graph, end, (unsigned int)sum->slot);

		row.overtaken = graph->callers > 1 && graph->slot[sum->slot].overtaken;
		row.low_ns = row.wait_class == WAIT_DEVICE ? 0 : most(0, by.low);
		row.high_ns = most(row.low_ns, by.high) + sum->missed_ns;
		if (row.wait_class != WAIT_DEVICE && !graph->slot[sum->slot].overtaken)
			row.high_ns = least(row.high_ns,
					    graph->slot[sum->slot].removed_ns + sum->missed_ns);
	}
	row.high_ns = least(row.high_ns, graph->end_ns - graph->begin_ns);
	row.low_ns = least(row.low_ns, row.high_ns);
	row.middle_ns = middle(&row);
	return row;
}

static void take_rows(struct whatif *whatif, const struct graph *graph, const struct shift *end)
{
	struct whatif_result *result = &whatif->result;

	for (size_t i = 0; i < graph->sums.count; i++) {
		const struct wait_sum *sum = table_at(&graph->sums, i);
		struct whatif_row row = make_row(graph, end, sum);

		if (sum->whole) {
			result->rules = memory_grow(result->rules, result->rule_count,
						    &whatif->rule_capacity, sizeof(row));
			result->rules[result->rule_count++] = row;
		} else {
			result->rows = memory_grow(result->rows, result->row_count,
						   &whatif->row_capacity, sizeof(row));
			result->rows[result->row_count++] = row;
		}
	}
}

static const char *why_none(const struct graph *graph, const struct analysis_end *end)
{
	const struct model_process *process = model_process(graph->model, graph->process);

	if (end->discarded || (process && process->lost))
		return "events were lost, so the graph of the run has holes";
	if (graph->waits && !graph->submissions)
		return "no submissions in the trace: record it with SLIPSTREAM_LEVEL=full";
	return NULL;
}

static void take_process(struct whatif *whatif, struct graph *graph, const struct analysis_end *end)
{
	struct whatif_result *result = &whatif->result;
	const struct model_process *known = model_process(graph->model, graph->process);
	struct whatif_process process = {.process = graph->process, .rank = -1, .host = ""};
	struct shift *shift = host_finish(graph);

	if (known) {
		process.pid = known->pid;
		process.rank = known->rank;
		process.host = known->host;
	}

	process.run_ns = graph->end_ns - graph->begin_ns;
	process.waits = graph->waits;
	process.submissions = graph->submissions;
	process.threads = graph->callers;
	process.unexplained_ns = graph->unexplained_ns;
	process.contradictions = graph->contradictions;
	process.why_none = why_none(graph, end);
	result->processes = memory_grow(result->processes, result->process_count,
					&whatif->process_capacity, sizeof(process));
	result->processes[result->process_count++] = process;
	if (!process.why_none)
		take_rows(whatif, graph, shift);
	shift_unref(shift);
}

static int compare(const void *left, const void *right)
{
	const struct whatif_row *a = left, *b = right;

	/* What was not replayed has no middle worth ranking by. */
	if (a->replayed != b->replayed)
		return a->replayed ? -1 : 1;
	if (a->middle_ns != b->middle_ns)
		return a->middle_ns > b->middle_ns ? -1 : 1;
	if (a->blocked_ns != b->blocked_ns)
		return a->blocked_ns > b->blocked_ns ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->rule != b->rule)
		return a->rule < b->rule ? -1 : 1;
	return a->site < b->site ? -1 : a->site > b->site;
}

static int finish(void *consumer, const struct model *model, const struct analysis_end *end,
		  char **reterr_text)
{
	struct whatif *whatif = consumer;
	struct whatif_result *result = &whatif->result;
	bool some = false;

	for (size_t i = 0; i < whatif->graph_count; i++)
		if (whatif->graphs[i])
			take_process(whatif, whatif->graphs[i], end);
	for (size_t i = 0; i < result->process_count; i++)
		some |= !result->processes[i].why_none;
	if (!some)
		result->why_none = result->process_count ? result->processes[0].why_none
							 : "no events in the trace";
	if (result->row_count)
		qsort(result->rows, result->row_count, sizeof(*result->rows), compare);
	if (result->rule_count)
		qsort(result->rules, result->rule_count, sizeof(*result->rules), compare);
	whatif->finished = true;
	return 0;
}

static void free_consumer(void *consumer)
{
	whatif_free(consumer);
}

const struct consumer_ops whatif_ops = {
	.name = "what-if", .event = take_event, .finish = finish, .free = free_consumer};

const struct whatif_result *whatif_result(const struct whatif *whatif)
{
	return whatif->finished ? &whatif->result : NULL;
}
