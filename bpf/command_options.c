// SPDX-License-Identifier: MIT
/*
 * Options of the watch mode (command_watch.h). `slipstream attach` and `run --witness` write them; people write
 * those commands' own.
 */
#include "command_watch.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>

#include "command.h"
#include "memory.h"
#include "watch.h"

enum {
	KEY_ALL = 0x100,
	KEY_LIBRARY,
	KEY_SET,
	KEY_SHIM,
	KEY_SHIM_PATH,
	KEY_SYSTEM_CALLS,
	KEY_SINGLE,
	KEY_LIVE,
	KEY_PROGRAM,
	KEY_FRAMES,
	KEY_LEAST,
	KEY_SECONDS,
	KEY_TRACE,
	KEY_SUMMARY,
	KEY_CONTROL,
	KEY_NAME,
};

static const struct argp_option option_list[] = {
	{"all", KEY_ALL, NULL, 0, "every process that maps a driver library", 0},
	{"library", KEY_LIBRARY, "PATH", 0, "a driver library", 0},
	{"set", KEY_SET, "NAMES", 0, "functions, by name or pattern, with commas; all", 0},
	{"shim", KEY_SHIM, "NAME", 0, "file name of the preload library", 0},
	{"shim-path", KEY_SHIM_PATH, "PATH", 0, "its file", 0},
	{"system-calls", KEY_SYSTEM_CALLS, NULL, 0, "count system calls inside calls", 0},
	{"single", KEY_SINGLE, NULL, 0, "one probe a function", 0},
	{"live", KEY_LIVE, NULL, 0, "a table on stderr, once a second", 0},
	{"program", KEY_PROGRAM, NULL, 0, "the process was started for this", 0},
	{"frames", KEY_FRAMES, "N", 0, "frames of stacks", 0},
	{"least", KEY_LEAST, "NS", 0, "shorter calls are only counted", 0},
	{"for", KEY_SECONDS, "SECONDS", 0, "end after this time", 0},
	{"trace", KEY_TRACE, "FILE", 0, "write a golden trace there", 0},
	{"summary", KEY_SUMMARY, "FILE", 0, "write the summary there", 0},
	{"control", KEY_CONTROL, "FD", 0, "whom to tell, and who stops it", 0},
	{"name", KEY_NAME, "TEXT", 0, "command in messages", 0},
	{0},
};

static uint64_t number(const char *what, const char *text, uint64_t most)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9' || value > most)
		command_fail(command_usage_status, "%s needs a number up to %llu, not '%s'", what,
			     (unsigned long long)most, text);
	return value;
}

static void add_process(struct command_options *options, const char *text)
{
	options->processes = memory_check(reallocarray(
		options->processes, options->process_count + 1, sizeof(options->processes[0])));
	options->processes[options->process_count++] = (pid_t)number("a process id", text, INT_MAX);
}

static void add_library(struct command_options *options, char *path)
{
	options->libraries = memory_check(reallocarray(
		options->libraries, options->library_count + 1, sizeof(options->libraries[0])));
	options->libraries[options->library_count++] = path;
}

/* A name stands for all its forms: cuMemcpyHtoD for cuMemcpyHtoD_v2 and cuMemcpyHtoD_v2_ptds too. */
static bool is_form_of(const char *name, const char *base)
{
	size_t length = strlen(base);

	if (strncmp(name, base, length) != 0)
		return !fnmatch(base, name, 0);
	name += length;
	if (!strncmp(name, "_v", 2))
		name += 2 + strspn(name + 2, "0123456789");
	return !*name || !strcmp(name, "_ptsz") || !strcmp(name, "_ptds");
}

static void add_functions(struct command_options *options, char *list)
{
	char *rest = list;

	if (!options->functions)
		options->functions =
			memory_new(WATCH_FUNCTION_COUNT * sizeof(options->functions[0]));
	for (char *word; (word = strsep(&rest, ","));) {
		size_t before = options->function_count;

		for (uint32_t i = 0; i < WATCH_FUNCTION_COUNT; i++) {
			bool is_there = false;

			if (strcmp(word, "all") != 0 &&
			    !is_form_of(watch_functions[i].name, word) &&
			    (strcmp(word, "default") != 0 || !watch_functions[i].by_default))
				continue;
			for (size_t k = 0; k < options->function_count; k++)
				is_there |= options->functions[k] == i;
			if (!is_there)
				options->functions[options->function_count++] = i;
			else
				before = SIZE_MAX; /* of another word, which is no mistake */
		}
		if (options->function_count == before)
			command_fail(command_usage_status,
				     "--set: no function of the driver is called '%s'", word);
	}
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct command_options *options = state->input;

	switch (key) {
	case KEY_ALL:
		options->all = true;
		return 0;
	case KEY_LIBRARY:
		add_library(options, argument);
		return 0;
	case KEY_SET:
		add_functions(options, argument);
		return 0;
	case KEY_SHIM:
		options->shim = argument;
		return 0;
	case KEY_SHIM_PATH:
		options->shim_path = argument;
		return 0;
	case KEY_SYSTEM_CALLS:
		options->system_calls = true;
		return 0;
	case KEY_SINGLE:
		options->single = true;
		return 0;
	case KEY_LIVE:
		options->live = true;
		return 0;
	case KEY_PROGRAM:
		options->program = true;
		return 0;
	case KEY_FRAMES:
		options->frames = (unsigned int)number("--frames", argument, WATCH_FRAMES);
		return 0;
	case KEY_LEAST:
		options->least_ns = number("--least", argument, INT64_MAX);
		return 0;
	case KEY_SECONDS:
		options->seconds = number("--for", argument, INT_MAX);
		return 0;
	case KEY_TRACE:
		options->trace = argument;
		return 0;
	case KEY_SUMMARY:
		options->summary = argument;
		return 0;
	case KEY_CONTROL:
		options->control = (int)number("--control", argument, INT_MAX);
		return 0;
	case KEY_NAME:
		command_name = argument;
		return 0;
	case ARGP_KEY_ARG:
		add_process(options, argument);
		return 0;
	case ARGP_KEY_END:
		if (!options->all && !options->process_count)
			command_fail(command_usage_status, "no process given");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void command_options_read(int argc, char **argv, struct command_options *ret_options)
{
	static const struct argp argp = {
		.options = option_list,
		.parser = parse,
		.args_doc = "PID...",
		.doc = "Watch driver calls from the kernel; slipstream attach and slipstream run "
		       "--witness start this.",
	};

	*ret_options = (struct command_options){.control = -1, .frames = WATCH_FRAMES};
	command_parse(&argp, argc, argv, 0, ret_options);
}

void command_options_done(struct command_options *options)
{
	free(options->processes);
	free(options->libraries);
	free(options->functions);
}
