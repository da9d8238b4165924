// SPDX-License-Identifier: MIT
/* Lint, command line (output.h): the same for the command and the program that reads traces. */
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>

#include "command.h"
#include "lint/baseline.h"
#include "lint/config.h"
#include "lint/lint.h"
#include "lint/output.h"
#include "memory.h"
#include "run.h"

#define DAY_S 86400

enum {
	KEY_CONFIG = 0x400,
	KEY_BASELINE,
	KEY_WRITE_BASELINE,
	KEY_FORMAT,
	KEY_ROOT,
	KEY_DRIVER,
	KEY_RECORDS,
	KEY_RULES,
	KEY_NO_ORDER,
	KEY_GUARD,
	KEY_REQUIRE,
	KEY_TIMEOUT
};

static const struct argp_option options[] = {
	{"config", KEY_CONFIG, "FILE", 0, "levels, thresholds, allowed sites and budgets, in YAML",
	 1},
	{"baseline", KEY_BASELINE, "FILE", 0, "findings in this file are known and do not fail", 1},
	{"write-baseline", KEY_WRITE_BASELINE, "FILE", 0,
	 "write the findings of this run as a baseline, and do not fail for them", 1},
	{"format", KEY_FORMAT, "NAME[=FILE]", 0,
	 "text, json, sarif, junit or github; can be given several times (text)", 1},
	{"root", KEY_ROOT, "DIR", 0, "show files relative to DIR (the current folder)", 1},
	{"driver", KEY_DRIVER, "DIR", 0, "put DIR, with its libcuda.so.1, first on LD_LIBRARY_PATH",
	 1},
	{"records", KEY_RECORDS, 0, 0, "read the record files even where there is a trace", 1},
	{"no-order", KEY_NO_ORDER, 0, 0,
	 "do not check the order of the program's calls (races between streams, captures)", 1},
	{"guard", KEY_GUARD, 0, 0,
	 "check when the host touches memory of copies under way, by page protection: it changes "
	 "the program's "
	 "handling of SIGSEGV",
	 1},
	{"require", KEY_REQUIRE, "WHAT", 0,
	 "order: inconclusive where the order of calls was not checked", 1},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0,
	 "end PROGRAM, and what it started, after so long, and tell what stands still", 1},
	{"rules", KEY_RULES, 0, 0, "list the rules, and which are not checked in this version", 1},
	{0},
};

#define LONGEST_S 1000000

static uint64_t seconds_of(const char *text)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !value || value > LONGEST_S)
		command_fail(LINT_USAGE, "--timeout %s: not a number of seconds from 1 to %d", text,
			     LONGEST_S);
	return value;
}

static void set_path(char **target, const char *path)
{
	free(*target);
	*target = realpath(path, NULL);
	if (!*target)
		command_fail(LINT_USAGE, "--root: %s: %s", path, strerror(errno));
}

static void add_argument(struct lint_options *given, struct argp_state *state)
{
	/* argp says where "--" was; the rest is the program's. */
	if (state->quoted && state->next - 1 >= state->quoted) {
		if (given->path_count)
			command_fail(LINT_USAGE, "give either a folder or trace, or a program");
		given->program = state->argv + state->next - 1;
		state->next = state->argc;
		return;
	}
	given->paths = memory_check(
		reallocarray(given->paths, given->path_count + 1, sizeof(*given->paths)));
	given->paths[given->path_count++] = state->argv[state->next - 1];
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct lint_options *given = state->input;
	const char *fault;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = NULL;
		return 0;
	case KEY_CONFIG:
		given->config_path = argument;
		return 0;
	case KEY_BASELINE:
		given->baseline_path = argument;
		return 0;
	case KEY_WRITE_BASELINE:
		given->write_baseline = argument;
		return 0;
	case KEY_FORMAT:
		fault = lint_output_add(given, argument);
		if (fault)
			command_fail(LINT_USAGE, "--format %s: %s", argument, fault);
		return 0;
	case KEY_ROOT:
		set_path(&given->root, argument);
		return 0;
	case KEY_DRIVER:
		given->driver = argument;
		return 0;
	case KEY_RECORDS:
		given->records = true;
		return 0;
	case KEY_NO_ORDER:
		given->no_order = true;
		return 0;
	case KEY_GUARD:
		given->guard = true;
		return 0;
	case KEY_REQUIRE:
		if (strcmp(argument, "order") != 0)
			command_fail(LINT_USAGE, "--require %s: only order can be required",
				     argument);
		given->require_order = true;
		return 0;
	case KEY_TIMEOUT:
		given->timeout_s = seconds_of(argument);
		return 0;
	case KEY_RULES:
		given->rules = true;
		return 0;
	case ARGP_KEY_ARG:
		add_argument(given, state);
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (given->rules)
			return 0;
		command_fail(LINT_USAGE,
			     "no folder, trace or program given (a program behind --; try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void read_files(struct lint_options *given)
{
	_cleanup_free_ char *error_text = NULL;

	if (lint_config_read(given->config_path, (int64_t)(time(NULL) / DAY_S), &given->config,
			     &error_text))
		command_fail(LINT_USAGE, "%s", error_text);
	if (given->baseline_path &&
	    lint_baseline_read(given->baseline_path, &given->baseline, &error_text))
		command_fail(LINT_USAGE, "%s", error_text);
}

static void check_paths(const struct lint_options *given)
{
	struct stat status;

	for (size_t i = 0; i < given->path_count; i++)
		if (!strstr(given->paths[i], "://") && stat(given->paths[i], &status) < 0)
			command_fail(LINT_USAGE, "%s: %s%s", given->paths[i], strerror(errno),
				     given->path_count > 1 && errno == ENOENT
					     ? " (a program needs -- before it)"
					     : "");
}

void lint_options_read(int argc, char **argv, struct lint_options *ret_options)
{
	static const struct argp_child children[] = {{.argp = &run_options_argp}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FOLDER|TRACE...\n-- PROGRAM [ARGUMENT...]",
		.doc = "Hold the synchronizations of a program, or of the record files or the "
		       "trace "
		       "of "
		       "a run, against rules, so that CI fails when one comes back."
		       "\vExit status: 0 clean, 1 findings, 2 bad command line, configuration or "
		       "file, "
		       "3 inconclusive (events lost, a function unwrapped, a rewrite on, nothing "
		       "seen), 4 PROGRAM failed. Findings and doubt together are 1.",
		.children = children,
	};
	char folder[PATH_MAX];

	*ret_options = (struct lint_options){0};
	run_options_init();
	command_parse(&argp, argc, argv, ARGP_IN_ORDER, ret_options);
	if (!ret_options->root && getcwd(folder, sizeof(folder)))
		ret_options->root = memory_copy(folder);
	if (!ret_options->output_count)
		(void)lint_output_add(ret_options, "text");
	if (ret_options->rules)
		return;
	check_paths(ret_options);
	read_files(ret_options);
}

void lint_options_done(struct lint_options *given)
{
	lint_config_free(given->config);
	lint_baseline_free(given->baseline);
	free(given->outputs);
	free(given->paths);
	free(given->root);
}
