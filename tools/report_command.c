// SPDX-License-Identifier: MIT
/*
 * slipstream report: record files to text and JSON, at any time and as often as wanted; traces are
 * handed over to the program slipstream-analyze, with the same command line. The text goes to
 * stdout. Exit status: 0, 1 if nothing could be read or written, 2 usage.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "command.h"
#include "memory.h"
#include "place.h"
#include "process_state.h"
#include "report.h"
#include "report_select.h"
#include "report_style.h"
#include "trace_find.h"

struct arguments {
	struct report_output output;
	struct report_select select;
	char **paths;
	int path_count;
};

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
		command_fail(command_usage_status,
			     "no folder, record file or trace given (try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool has_trace(const struct arguments *arguments)
{
	struct trace_places places = {0};
	bool found;

	for (int i = 0; i < arguments->path_count; i++)
		trace_find(arguments->paths[i], &places);
	found = places.count;
	trace_places_done(&places);
	return found;
}

/* A folder may hold both: the trace tells more. */
static void hand_over(char **argv)
{
	_cleanup_free_ char *path = place_program("../tracing/analysis", "slipstream-analyze");

	if (!path)
		command_fail(EXIT_FAILURE,
			     "traces cannot be read: slipstream-analyze is not part of "
			     "this build");
	(void)execv(path, argv);
	command_fail(EXIT_FAILURE, "cannot start %s: %s", path, strerror(errno));
}

static void check_no_trace_option(const struct arguments *arguments)
{
	const char *option = arguments->select.trace_option;
	bool by = arguments->output.style.by >= REPORT_BY_STREAM;

	if (!option && !by)
		return;
	if (arguments->select.records)
		command_fail(command_usage_status, "%s%s needs a trace: not with --records",
			     by ? "this key of --by" : "--", by ? "" : option);
	command_fail(command_usage_status, "%s%s needs a trace, and none is in %s",
		     by ? "this key of --by" : "--", by ? "" : option, arguments->paths[0]);
}

/* A trace came about, or its beginning did: it has a folder beside the record files. */
static bool has_other_folder(const char *path)
{
	DIR *entries = opendir(path);
	struct dirent *entry;
	struct stat status;
	bool found = false;

	while (entries && !found && (entry = readdir(entries)))
		found = entry->d_name[0] != '.' && strcmp(entry->d_name, "records") != 0 &&
			!fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) &&
			S_ISDIR(status.st_mode);
	if (entries)
		(void)closedir(entries);
	return found;
}

/* Whoever asked for the trace does not take the record files for it. */
static void tell_of_records(const char *path, const char *below)
{
	if (has_other_folder(path))
		command_say("the trace in %s was cut before anything of it could be read: this is "
			    "the report of the record files in %s",
			    path, below);
	else
		command_say("there is no trace in %s (no snapshot was saved, or it went "
			    "elsewhere): this is the report of the record files in %s",
			    path, below);
}

/*
 * A folder without record files may be that of `slipstream trace`: they lie below it. They are read
 * where no trace came about, or none is wanted (`is_asked`).
 */
static int add_path(struct report *report, const char *path, bool is_asked, char **reterr_text)
{
	_cleanup_free_ char *below = memory_format("%s/records", path);
	size_t files = report->file_count, problems = report->problems.count;
	int error = report_add_path(report, path, 0, reterr_text);
	struct stat status;

	if (error || report->file_count > files || report->problems.count > problems ||
	    stat(below, &status) || !S_ISDIR(status.st_mode))
		return error;
	error = report_add_path(report, below, 0, reterr_text);
	if (!is_asked && (report->file_count > files || report->problems.count > problems))
		tell_of_records(path, below);
	return error;
}

int command_report(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{.argp = &report_style_argp}, {.argp = &report_select_argp}, {0}};
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "FOLDER|FILE...",
		.doc = "Report on the record files that programs left in FOLDER (SLIPSTREAM_OUT), "
		       "or on "
		       "the trace in it.",
		.children = children,
	};
	_cleanup_free_ char *error_text = NULL;
	struct arguments arguments = {0};
	struct report *report;
	size_t failures = 0;
	int status = EXIT_SUCCESS;

	report_style_init(&arguments.output, STDOUT_FILENO);
	arguments.output.text_stream = stdout;
	report_select_init(&arguments.select);
	command_parse(&argp, argc, argv, 0, &arguments);
	if (!arguments.select.records && has_trace(&arguments))
		hand_over(argv);
	check_no_trace_option(&arguments);

	if (report_output_prepare(&arguments.output, &error_text))
		command_fail(EXIT_FAILURE, "%s", error_text);
	report = report_new();
	for (int i = 0; i < arguments.path_count; i++)
		if (add_path(report, arguments.paths[i], arguments.select.records, &error_text)) {
			command_say("%s", error_text);
			free(error_text);
			error_text = NULL;
			failures++;
		}
	if (failures)
		status = EXIT_FAILURE;
	if (!report->file_count) {
		if (!failures && !report->problems.count)
			command_say("no record file in %s", arguments.paths[0]);
		for (size_t i = 0; i < report->problems.count; i++)
			command_say("%s", (const char *)report->problems.items[i]);
		report_free(report);
		return EXIT_FAILURE;
	}

	report_finish(report, process_now_ns(), 0);
	if (report_output_write(report, &arguments.output, &error_text)) {
		command_say("%s", error_text);
		status = EXIT_FAILURE;
	}
	report_free(report);
	if (fflush(stdout) || ferror(stdout)) {
		command_say("cannot write the report to stdout");
		status = EXIT_FAILURE;
	}
	return status;
}
