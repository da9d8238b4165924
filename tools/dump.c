// SPDX-License-Identifier: MIT
/*
 * slipstream dump: what a process that uses the library is inside now, for who looks at one that hangs. Reads its record file and /proc; the process is not
 * touched. The record file of a process that ended may be given instead: it says what stood there at its end. Exit status: 0, 1 if there is
 * nothing to show (one line says why), 2 usage.
 */
#include "dump.h"

#include <ctype.h>
#include <errno.h>

#include "command.h"
#include "memory.h"
#include "process_state.h"

struct arguments {
	const char *what;
	bool json;
};

enum { KEY_JSON = 0x100 };

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case KEY_JSON:
		arguments->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->what)
			command_fail(command_usage_status, "unexpected argument %s (try --help)",
				     argument);
		arguments->what = argument;
		return 0;
	case ARGP_KEY_NO_ARGS:
		command_fail(command_usage_status, "no process given (try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* A file's name may consist of digits as well; then its path has a slash. */
static bool is_number(const char *text)
{
	for (; *text; text++)
		if (!isdigit((unsigned char)*text))
			return false;
	return true;
}

static uint32_t parse_pid(const char *text)
{
	unsigned long value;

	errno = 0;
	value = strtoul(text, NULL, 10);
	if (errno || !value || value > INT32_MAX)
		command_fail(command_usage_status, "%s is no number of a process", text);
	return (uint32_t)value;
}

static void read_or_fail(const char *path, const char *from_here, struct record_file **ret_file)
{
	_cleanup_free_ char *error_text = NULL;

	if (record_file_read(from_here, ret_file, &error_text))
		command_fail(EXIT_FAILURE, "%s: %s", path, error_text);
}

/* What could not be read of the file is told, whatever is shown. */
static void say_problems(const struct record_file *file, const char *path)
{
	for (size_t i = 0; i < file->problem_count && i < RECORD_PROBLEMS_MAX; i++)
		command_say("%s: %s", path, file->problems[i]);
}

static bool print_json(const struct dump *dump)
{
	json_t *all = dump_json(dump);
	bool failed =
		json_dumpf(all, stdout, JSON_INDENT(2) | JSON_SORT_KEYS) || putchar('\n') == EOF;

	json_decref(all);
	return failed;
}

int command_dump(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"json", KEY_JSON, NULL, 0, "print one JSON object", 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "PID|FILE",
		.doc = "Say what the process PID, which runs with the library, is inside now: "
		       "driver "
		       "calls, locks, staged copies, held memory. Or what stood there when the "
		       "process that left the record file FILE ended.",
	};
	_cleanup_free_ char *path = NULL, *from_here = NULL, *error_text = NULL;
	struct arguments arguments = {0};
	struct dump_tasks tasks = {0};
	struct record_file *file;
	struct dump dump;
	uint32_t pid = 0;
	bool failed = false, runs = true;

	command_parse(&argp, argc, argv, 0, &arguments);
	if (is_number(arguments.what)) {
		pid = parse_pid(arguments.what);
		if (dump_find(&pid, &path, &from_here, &error_text))
			command_fail(EXIT_FAILURE, "%s", error_text);
	}
	read_or_fail(path ? path : arguments.what, from_here ? from_here : arguments.what, &file);
	if (!path) {
		pid = file->header->pid;
		runs = file->header->state == RECORD_STATE_LIVE &&
		       process_runs(pid, file->header->start_ns, process_now_ns());
	}
	if (runs)
		dump_tasks_read(&tasks, pid);
	runs = runs && tasks.count; /* it may have ended meanwhile */
	say_problems(file, path ? path : arguments.what);
	dump_build(&dump, file, path ? path : arguments.what, pid, runs, &tasks);
	if (arguments.json)
		failed = print_json(&dump);
	else
		dump_write_text(&dump, stdout);
	dump_done(&dump);
	record_file_free(file);
	if (failed || fflush(stdout) || ferror(stdout)) {
		command_say("cannot write to stdout");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
