// SPDX-License-Identifier: MIT
/*
 * slipstream-analyze: what `slipstream report` starts for a trace, with its own command line. Reads
 * the traces once, through one graph, into everything that was asked for. Needs babeltrace2, which
 * the command itself must start without.
 *
 * Exit status: 0; 1 if a trace could not be read or not to its end, the analysis was stopped, or a
 * file could not be written; 2 usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <time.h>

#include "command.h"
#include "memory.h"
#include "report_style.h"
#include "text.h"
#include "tracing/analysis/consumers.h"
#include "tracing/analysis/convert.h"
#include "tracing/analysis/graph.h"
#include "tracing/analysis/progress.h"
#include "tracing/analysis/report_consumer.h"
#include "tracing/analysis/waits.h"
#include "tracing/analysis/whatif_extra.h"

#define LIVE_POLL_NS 100000000 /* how often a live trace that had nothing new is asked again */

struct arguments {
	struct report_output output;
	struct report_select select;
	char **paths;
	int path_count;
};

/* Written by the handler, read by the loop. */
static volatile sig_atomic_t stop_signal;
static struct graph *running; /* set before the handler is installed, until after it is gone */

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	(void)argument;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->output;
		state->child_inputs[1] = &arguments->select;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->paths = state->argv + state->next;
		arguments->path_count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		command_fail(command_usage_status, "no trace given (try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse_command_line(int argc, char **argv, struct arguments *arguments)
{
	static const struct argp_child children[] = {
		{.argp = &report_style_argp}, {.argp = &report_select_argp}, {0}};
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "FOLDER|FILE|URL...",
		.doc = "Analyse traces; `slipstream report` starts this program.",
		.children = children,
	};

	command_name = "slipstream report";
	command_usage_status = EXIT_USAGE;
	report_style_init(&arguments->output, STDOUT_FILENO);
	arguments->output.text_stream = stdout;
	arguments->output.is_of_trace = true;
	report_select_init(&arguments->select);
	command_parse(&argp, argc, argv, 0, arguments);
}

/* Foreign text may be in it. */
static void say(const char *line)
{
	_cleanup_free_ char *text = text_printable(line, false);

	command_say("%s", text);
}

/* How many paths have no trace. */
static size_t find_places(const struct arguments *arguments, struct trace_places *places)
{
	size_t failures = 0;

	for (int i = 0; i < arguments->path_count; i++) {
		size_t before = places->count;
		_cleanup_free_ char *line = NULL;

		trace_find(arguments->paths[i], places);
		if (places->count > before)
			continue;
		line = memory_format("%s: there is no trace", arguments->paths[i]);
		say(line);
		failures++;
	}
	return failures;
}

/* ---- stopping ---- */

static void handle_stop(int signal)
{
	stop_signal = signal;
	graph_interrupt(running);
}

/* A second signal ends the program at once. */
static void catch_signals(struct graph *graph)
{
	struct sigaction action = {.sa_handler = handle_stop, .sa_flags = (int)SA_RESETHAND};

	running = graph;
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
}

static void release_signals(void)
{
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
}

/* ---- reading ---- */

/* Until the end, an error or a signal; SINK_OK: it was stopped. */
static enum sink_status read_all(struct graph *graph, const struct sink *sink)
{
	const struct timespec pause = {.tv_nsec = LIVE_POLL_NS};
	struct graph_span span;
	struct progress progress;
	enum sink_status status;

	graph_span(graph, &span);
	progress_init(&progress, span.is_known ? span.begin_ns : 0,
		      span.is_known ? span.end_ns : 0);
	do {
		status = graph_step(graph);
		if (status == SINK_AGAIN) {
			(void)nanosleep(&pause, NULL);
			status = SINK_OK;
		}
		progress_show(&progress, sink_events(sink), sink_time(sink));
	} while (status == SINK_OK && !stop_signal);
	progress_clear(&progress);
	return status;
}

/* The exit status. */
static int run(struct graph *graph, struct sink *sink)
{
	enum sink_status status;

	catch_signals(graph);
	status = read_all(graph, sink);
	release_signals();
	graph_stop(graph);
	if (stop_signal && status != SINK_END) {
		(void)sink_finish(sink, true, NULL);
		if (sink_error(sink))
			say(sink_error(sink));
		command_say("stopped after %" PRIu64 " events; what was read is in the report",
			    sink_events(sink));
		return EXIT_FAILURE;
	}
	if (sink_error(sink))
		say(sink_error(sink));
	return status == SINK_END ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- what was asked for ---- */

static void add_file(struct sink *sink, const char *name, const char *path,
		     struct whatif_extra *whatif)
{
	_cleanup_free_ char *error_text = NULL;
	struct consumer consumer;

	if (!path)
		return;
	if (consumer_create(name, path, &consumer, &error_text))
		command_fail(EXIT_FAILURE, "%s", error_text);
	if (whatif && !strcmp(name, "html"))
		whatif_extra_page(whatif, &consumer);
	sink_add(sink, consumer);
}

static void check_shares(const struct report_select *select, const struct graph_span *span)
{
	if (!span->is_known && (select->begin.is_share || select->end.is_share))
		command_fail(EXIT_USAGE, "a share of a live trace is not known: give a time");
}

static void add_consumers(struct arguments *arguments, const struct graph *graph, struct sink *sink,
			  struct whatif_extra *whatif)
{
	struct report_request request = {.output = &arguments->output,
					 .select = &arguments->select};
	_cleanup_free_ char *error_text = NULL;
	struct graph_span span;

	graph_span(graph, &span);
	check_shares(&arguments->select, &span);
	add_file(sink, "timeline", arguments->select.timeline, NULL);
	add_file(sink, "html", arguments->select.html, whatif);
	request.range_begin_ns = span.begin_ns;
	request.range_end_ns = span.end_ns;
	if (whatif)
		request.extra = whatif_extra_report(whatif);
	if (report_output_prepare(&arguments->output, &error_text))
		command_fail(EXIT_FAILURE, "%s", error_text);
	if (arguments->select.waits)
		sink_add(sink, waits_consumer_new(&request));
	else
		sink_add(sink, report_consumer_new(&request));
}

static bool are_whole(const struct report *report)
{
	for (size_t i = 0; i < report->file_count; i++)
		if (report->files[i]->problem_count)
			return false;
	return report->file_count && !report->problems.count;
}

/* A folder of `slipstream trace` has the record files of the same run, which need no daemon's help. */
static void tell_of_records(const struct arguments *arguments)
{
	for (int i = 0; i < arguments->path_count; i++) {
		_cleanup_free_ char *below = memory_format("%s/records", arguments->paths[i]);
		_cleanup_free_ char *error_text = NULL, *line = NULL;
		struct report *report = report_new();

		if (!report_add_path(report, below, 0, &error_text) && are_whole(report)) {
			line = memory_format("the record files in %s are whole: `slipstream report "
					     "--records %s` shows them",
					     below, arguments->paths[i]);
			say(line);
		}
		report_free(report);
	}
}

/* What `slipstream attach` has written, for all readers of traces. */
static int convert(const char *file, const char *folder)
{
	_cleanup_free_ char *error_text = NULL;

	command_name = "slipstream attach";
	if (!convert_text(file, folder, &error_text))
		return EXIT_SUCCESS;
	say(error_text ? error_text : "the trace could not be written");
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct arguments arguments = {0};
	struct trace_places places = {0};
	struct whatif_extra *whatif = NULL;
	_cleanup_free_ char *error_text = NULL;
	struct sink *sink;
	struct graph *graph;
	size_t failures;
	int status;

	if (argc == 4 && !strcmp(argv[1], CONVERT_COMMAND))
		return convert(argv[2], argv[3]);
	sink = sink_new();
	parse_command_line(argc, argv, &arguments);
	failures = find_places(&arguments, &places);
	if (!places.count || graph_new(&places, sink, say, &graph, &error_text)) {
		if (error_text)
			say(error_text);
		if (places.count)
			tell_of_records(&arguments);
		sink_free(sink);
		trace_places_done(&places);
		return EXIT_FAILURE;
	}
	failures += graph_failures(graph);
	if (arguments.select.what_if)
		whatif = whatif_extra_new(sink);
	add_consumers(&arguments, graph, sink, whatif);

	status = run(graph, sink);
	sink_free(sink); /* its reader looks at what is the graph's */
	graph_free(graph);
	whatif_extra_free(whatif);
	if (failures || (status != EXIT_SUCCESS && !stop_signal))
		tell_of_records(&arguments);
	trace_places_done(&places);
	if (fflush(stdout) || ferror(stdout)) {
		command_say("cannot write the report to stdout");
		status = EXIT_FAILURE;
	}
	return failures ? EXIT_FAILURE : status;
}
