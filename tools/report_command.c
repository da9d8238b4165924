// SPDX-License-Identifier: MIT
/*
 * slipstream report: record files to text and JSON, at any time and as often as wanted. The text
 * goes to stdout. Exit status: 0, 1 if nothing could be read or written, 2 usage.
 */
#include "command.h"
#include "memory.h"
#include "process_state.h"
#include "report.h"
#include "report_style.h"

struct arguments {
	struct report_output output;
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
		return 0;
	case ARGP_KEY_ARGS:
		arguments->paths = state->argv + state->next;
		arguments->path_count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		command_fail(command_usage_status, "no folder or record file given (try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_report(int argc, char **argv)
{
	static const struct argp_child children[] = {{.argp = &report_style_argp}, {0}};
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "FOLDER|FILE...",
		.doc = "Report on the record files that programs left in FOLDER (SLIPSTREAM_OUT).",
		.children = children,
	};
	_cleanup_free_ char *error_text = NULL;
	struct arguments arguments = {0};
	struct report *report;
	size_t failures = 0;
	int status = EXIT_SUCCESS;

	report_style_init(&arguments.output, STDOUT_FILENO);
	arguments.output.text_stream = stdout;
	command_parse(&argp, argc, argv, 0, &arguments);

	if (report_output_prepare(&arguments.output, &error_text))
		command_fail(EXIT_FAILURE, "%s", error_text);
	report = report_new();
	for (int i = 0; i < arguments.path_count; i++)
		if (report_add_path(report, arguments.paths[i], 0, &error_text)) {
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
