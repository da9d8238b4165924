// SPDX-License-Identifier: MIT
/*
 * slipstream-lint: what `slipstream lint` executes for a trace, with its own command line. Reads the trace once into a report, as
 * `slipstream report` does, and judges that (lint/lint.h). Needs babeltrace2, which the command itself must start without.
 */
#include <errno.h>
#include <time.h>

#include "command.h"
#include "lint/lint.h"
#include "lint/output.h"
#include "memory.h"
#include "report_select.h"
#include "text.h"
#include "trace_find.h"
#include "tracing/analysis/graph.h"
#include "tracing/analysis/report_consumer.h"

#define LIVE_POLL_NS 100000000 /* how often a live trace that had nothing new is asked again */

struct judge {
	struct consumer report;
	struct report_select everything;
	struct lint_options *options;
	int status;
	bool is_judged;
};

static void say(const char *line)
{
	_cleanup_free_ char *text = text_printable(line, false);

	command_say("%s", text);
}

static int judge_event(void *consumer, const struct model *model,
		       const struct analysis_event *event, char **reterr_text)
{
	struct judge *judge = consumer;

	return judge->report.ops->event(judge->report.state, model, event, reterr_text);
}

static int judge_finish(void *consumer, const struct model *model, const struct analysis_end *end,
			char **reterr_text)
{
	struct judge *judge = consumer;
	struct report *report = report_consumer_build(&judge->report, model, end);

	(void)reterr_text;
	judge->status = lint_finish(judge->options, report, NULL);
	judge->is_judged = true;
	report_free(report);
	return 0;
}

static void judge_free(void *consumer)
{
	struct judge *judge = consumer;

	judge->report.ops->free(judge->report.state);
}

static const struct consumer_ops judge_ops = {
	.name = "lint",
	.event = judge_event,
	.finish = judge_finish,
	.free = judge_free,
};

/* A trace that breaks off is judged as far as it goes: the report says so in its reasons. */
static void read_all(struct graph *graph, struct sink *sink)
{
	const struct timespec pause = {.tv_nsec = LIVE_POLL_NS};
	enum sink_status status;

	do {
		status = graph_step(graph);
		if (status == SINK_AGAIN) {
			(void)nanosleep(&pause, NULL);
			status = SINK_OK;
		}
	} while (status == SINK_OK);
	graph_stop(graph);
	if (sink_error(sink))
		say(sink_error(sink));
}

static void find_places(const struct lint_options *options, struct trace_places *places)
{
	for (size_t i = 0; i < options->path_count; i++) {
		size_t before = places->count;

		trace_find(options->paths[i], places);
		if (places->count == before)
			command_fail(LINT_USAGE,
				     "%s: there is no trace, as there is in the others: lint them "
				     "apart",
				     options->paths[i]);
	}
}

int main(int argc, char **argv)
{
	_cleanup_free_ char *error_text = NULL;
	struct trace_places places = {0};
	struct lint_options options;
	struct judge judge = {.options = &options, .status = LINT_INCONCLUSIVE};
	struct graph *graph;
	struct sink *sink;
	size_t failures;

	command_name = "slipstream lint";
	command_usage_status = LINT_USAGE;
	command_failure_status = LINT_USAGE;
	lint_options_read(argc, argv, &options);
	find_places(&options, &places);
	error_text = lint_outputs_open(&options);
	if (error_text)
		command_fail(LINT_USAGE, "%s", error_text);

	sink = sink_new();
	report_select_init(&judge.everything);
	judge.report = report_consumer_new(&(struct report_request){.select = &judge.everything});
	if (graph_new(&places, sink, say, &graph, &error_text)) {
		say(error_text ? error_text : "the trace cannot be read");
		command_fail(LINT_INCONCLUSIVE, "inconclusive: nothing of the trace could be read");
	}
	failures = graph_failures(graph);
	sink_add(sink, (struct consumer){&judge_ops, &judge});
	read_all(graph, sink);
	sink_free(sink); /* its reader looks at what is the graph's */
	graph_free(graph);
	trace_places_done(&places);
	lint_options_done(&options);
	if (!judge.is_judged)
		command_say("inconclusive: the trace could not be read");
	return failures && judge.status == LINT_CLEAN ? LINT_INCONCLUSIVE : judge.status;
}
