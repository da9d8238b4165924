// SPDX-License-Identifier: MIT
/*
 * slipstream bisect: finds the switch of mode fix, and the call sites, whose rewrite changes what a program does. Runs it raw (mode
 * observe), then in mode fix with more and more of it off. This file: options, what is prepared, and the result, which goes to stdout; the
 * steps are in bisect_steps.c.
 */
#include "bisect.h"

#include <errno.h>
#include <inttypes.h>

#include "command.h"
#include "memory.h"
#include "program.h"
#include "report.h"
#include "report_lines.h"
#include "report_style.h"
#include "run.h"
#include "text.h"

#define NS UINT64_C(1000000000)

enum {
	KEY_CHECK = 0x400,
	KEY_OUTPUT,
	KEY_RUNS,
	KEY_TIMEOUT,
	KEY_DENY_OUT,
	KEY_JSON,
	KEY_DRIVER,
	KEY_VERBOSE
};

static const struct argp_option options[] = {
	{"check", KEY_CHECK, "COMMAND", 0,
	 "ask this shell command, with the program's stdout on its stdin, instead of comparing "
	 "outputs: "
	 "exit status 0 is good, anything up to 125 bad",
	 1},
	{"output", KEY_OUTPUT, "FILE", 0,
	 "compare this file too, which the program writes; it is REMOVED before each run", 1},
	{"runs", KEY_RUNS, "N", 0,
	 "run each setting N times, for programs that fail now and then (1)", 1},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0,
	 "a run that takes longer hangs (10 times the longest raw run, 5 s at least)", 1},
	{"deny-out", KEY_DENY_OUT, "FILE", 0, "write a deny list that makes the program right", 1},
	{"json", KEY_JSON, "FILE", 0, "write the result as JSON too", 1},
	{"driver", KEY_DRIVER, "DIR", 0, "put DIR, with its libcuda.so.1, first on LD_LIBRARY_PATH",
	 1},
	{"verbose", KEY_VERBOSE, NULL, 0, "show the program's stderr", 1},
	{0},
};

static unsigned long number(const char *option, const char *text, unsigned long most)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !value || value > most)
		command_fail(EXIT_USAGE, "--%s needs a number from 1 to %lu, not '%s'", option,
			     most, text);
	return value;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct bisect *bisect = state->input;
	struct bisect_program *program = &bisect->program;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = NULL;
		return 0;
	case KEY_CHECK:
		program->check = argument;
		return 0;
	case KEY_OUTPUT:
		program->outputs = memory_check(reallocarray(
			program->outputs, program->output_count + 1, sizeof(*program->outputs)));
		program->outputs[program->output_count++] = argument;
		return 0;
	case KEY_RUNS:
		bisect->runs = number("runs", argument, 10000);
		return 0;
	case KEY_TIMEOUT:
		program->limit_ns = number("timeout", argument, 1000000) * NS;
		return 0;
	case KEY_DENY_OUT:
		bisect->deny_out = argument;
		return 0;
	case KEY_JSON:
		bisect->json_path = argument;
		return 0;
	case KEY_DRIVER:
		bisect->driver = argument;
		return 0;
	case KEY_VERBOSE:
		program->show_stderr = true;
		return 0;
	case ARGP_KEY_ARG:
		program->arguments = state->argv + state->next - 1;
		state->next = state->argc; /* the rest is the program's */
		return 0;
	case ARGP_KEY_NO_ARGS:
		command_fail(EXIT_USAGE, "no program given (try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse_arguments(int argc, char **argv, struct bisect *bisect)
{
	static const struct argp_child children[] = {{.argp = &run_options_argp}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[--] PROGRAM [ARGUMENT...]",
		.doc = "Find the switch of mode fix, then the call sites, whose rewrite changes "
		       "what "
		       "PROGRAM does: its end, its stdout, the files named, or what a check says "
		       "of "
		       "them. It is run many times, with an empty stdin."
		       "\vExit status: 0 mode fix changes nothing, 1 found, 2 bad command line, 3 "
		       "inconclusive (raw runs differ, or no call site explains it), 125 if "
		       "slipstream "
		       "itself fails, 126 if PROGRAM cannot be executed, 127 if it cannot be "
		       "found. "
		       "--fix, --relax and --deny say where the search begins; --mode and --out "
		       "are "
		       "its own matter.",
		.children = children,
	};

	run_options_init();
	command_parse(&argp, argc, argv, ARGP_IN_ORDER, bisect);
}

static void print_words(const char *what, const struct bisect_words *words, const bool *off)
{
	(void)printf("  %s:", what);
	for (size_t i = 0; i < words->count; i++)
		if (off[i])
			(void)printf(" %s", words->words[i]);
}

static void print_cause(struct bisect *bisect, const bool *switches, const bool *relaxations)
{
	_cleanup_free_ char *ending = bisect_ending(&bisect->raw);
	_cleanup_free_ char *difference = text_printable(bisect->difference, false);
	_cleanup_free_ char *command = text_printable(bisect->command, false);

	(void)printf("mode fix changes the outcome of %s\n", command);
	(void)printf("  raw: %s\n  mode fix: %s\n", ending, difference);
	print_words("switch", &bisect->switches, switches);
	(void)printf("\n");
	if (relaxations) {
		_cleanup_free_ char *value = bisect_relax_value(&bisect->relaxations, relaxations);

		print_words("relaxation", &bisect->relaxations, relaxations);
		(void)printf(" (the outcome is that of raw runs with SLIPSTREAM_RELAX=%s)\n",
			     value ? value : "");
	}
}

static void print_sites(struct bisect *bisect, const bool *off)
{
	struct report_output output = {0};
	struct lines lines = {.out = stdout, .style = &output.style};

	report_style_init(&output, STDOUT_FILENO);
	for (size_t i = 0; i < bisect->sites.uses.count; i++) {
		const struct report_rewrite_use *site = bisect->sites.uses.items[i];

		if (!off[i])
			continue;
		lines_add(&lines, LINE_STRONG, "  call site %016" PRIx64 ": %s, rewritten by %s",
			  site->site->id, site->function ? site->function : "?", site->rewrite);
		lines_add_site(&lines, bisect->sites.report, site->site, "      ", 0);
	}
}

/* A list that is right is only right once it was tried. */
static void verify(struct bisect *bisect, const bool *off)
{
	_cleanup_free_ char *command = text_printable(bisect->command, false);

	if (bisect_try_sites(bisect, off) == BISECT_BAD) {
		bisect_give_up(bisect, memory_copy("with this deny list the program was right "
						   "before, and is not now (try --runs)"));
	}
	if (bisect->deny_out) {
		bisect_sites_write(&bisect->sites, off, bisect->base, bisect->command,
				   bisect->deny_out);
		(void)printf("  right with: slipstream run --mode fix --deny %s -- %s\n",
			     bisect->deny_out, command);
	} else {
		(void)printf(
			"  right with these call sites denied (--deny-out FILE writes the list)\n");
	}
	(void)printf("  %u runs\n", bisect->run_count);
}

static void __attribute__((noreturn)) search(struct bisect *bisect)
{
	_cleanup_free_ bool *switches = NULL, *relaxations = NULL, *sites = NULL;

	bisect_run_raw(bisect);
	switches = bisect_find_switches(bisect);
	relaxations = bisect_find_relaxations(bisect);
	sites = bisect_find_sites(bisect, switches);
	bisect->switches_off = switches;
	bisect->relaxations_off = relaxations;
	bisect->sites_off = sites;
	print_cause(bisect, switches, relaxations);
	if (!sites)
		bisect_give_up(bisect, memory_format("with all %zu known call sites denied the "
						     "outcome is still another one; leave the "
						     "switch off",
						     bisect->sites.uses.count));
	print_sites(bisect, sites);
	verify(bisect, sites);
	bisect_quit(bisect, BISECT_FOUND);
}

static char *words_of(char **arguments)
{
	char *text = memory_copy(arguments[0]);

	for (size_t i = 1; arguments[i]; i++) {
		char *longer = memory_format("%s %s", text, arguments[i]);

		free(text);
		text = longer;
	}
	return text;
}

static char *copy_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? memory_copy(value) : NULL;
}

static void prepare(struct bisect *bisect, struct program *program)
{
	static const char *const own[] = {"SLIPSTREAM_MODE", "SLIPSTREAM_OUT"};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		(void)unsetenv(own[i]);
	run_options_export();
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (getenv(own[i]))
			command_fail(EXIT_USAGE, "--mode and --out are not for bisect");
	if (bisect->driver)
		run_preload_driver(bisect->driver);
	run_inspect(bisect->program.arguments[0], program);
	if (program->blind_spot)
		command_fail(EXIT_RUN, "mode fix cannot reach this program");
	bisect->program.path = program->is_elf ? program->path : NULL;
	bisect->program.preload = copy_variable("LD_PRELOAD");
	bisect->program.asan = copy_variable("ASAN_OPTIONS");
	run_preload(program);
	bisect->base = copy_variable("SLIPSTREAM_DENY");
	bisect->relax = copy_variable("SLIPSTREAM_RELAX");
	bisect->switches = bisect_switches();
	bisect->relaxations = bisect_relaxations();
	bisect->command = words_of(bisect->program.arguments);
	bisect->program.folder = run_make_folder(NULL, false);
	bisect->denied = memory_format("%s/deny", bisect->program.folder);
	bisect_sites_write(&bisect->sites, NULL, bisect->base, NULL, bisect->denied);
	bisect_json_begin(bisect);
}

int command_bisect(int argc, char **argv)
{
	struct bisect bisect = {.runs = 1};
	struct program program = {0};

	command_failure_status = EXIT_RUN;
	parse_arguments(argc, argv, &bisect);
	prepare(&bisect, &program);
	search(&bisect);
}
