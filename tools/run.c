// SPDX-License-Identifier: MIT
/*
 * slipstream run: starts a program with the library preloaded, waits for it, reports. Nothing goes
 * to stdout. Ends as the program ended; 125 for a failure of its own, 126 and 127 as env(1).
 */
#include <errno.h>
#include <sys/wait.h>

#include "command.h"
#include "memory.h"
#include "place.h"
#include "process_state.h"
#include "program.h"
#include "report.h"
#include "report_style.h"
#include "run.h"

enum { KEY_DRIVER = 0x400, KEY_KEEP, KEY_TRACE, KEY_WITNESS };

struct arguments {
	struct report_output output;
	const char *driver;
	bool keep, trace, witness;
	char **program; /* and its arguments */
};

static const struct argp_option options[] = {
	{"driver", KEY_DRIVER, "DIR", 0, "put DIR, with its libcuda.so.1, first on LD_LIBRARY_PATH",
	 1},
	{"keep", KEY_KEEP, NULL, 0, "keep the record files and say where they are", 1},
	{"trace", KEY_TRACE, "DIR", 0, "leave an LTTng trace in DIR too, as slipstream trace does",
	 1},
	{"witness", KEY_WITNESS, NULL, 0,
	 "have the kernel count the driver calls too, and hold the report against that (needs "
	 "CAP_BPF and CAP_PERFMON)",
	 1},
	{0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->output;
		state->child_inputs[1] = NULL;
		return 0;
	case KEY_DRIVER:
		arguments->driver = argument;
		return 0;
	case KEY_KEEP:
		arguments->keep = true;
		return 0;
	case KEY_TRACE:
		arguments->trace = true;
		return 0;
	case KEY_WITNESS:
		arguments->witness = true;
		return 0;
	case ARGP_KEY_ARG:
		arguments->program = state->argv + state->next - 1;
		state->next = state->argc; /* the rest is the program's */
		return 0;
	case ARGP_KEY_NO_ARGS:
		command_fail(EXIT_RUN, "no program given (try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse_arguments(int argc, char **argv, struct arguments *arguments)
{
	static const struct argp_child children[] = {
		{.argp = &report_style_argp}, {.argp = &run_options_argp}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[--] PROGRAM [ARGUMENT...]",
		.doc = "Run PROGRAM and report its synchronizations to stderr when it has ended."
		       "\vExit status: that of PROGRAM (a signal is raised again), 125 if "
		       "slipstream itself "
		       "fails, 126 if PROGRAM cannot be executed, 127 if it cannot be found.",
		.children = children,
	};

	run_options_init();
	report_style_init(&arguments->output, STDERR_FILENO);
	arguments->output.text_stream = stderr;
	command_parse(&argp, argc, argv, ARGP_IN_ORDER, arguments);
}

/* To the program that knows LTTng; it reads the same options. */
static void hand_over(char **argv)
{
	_cleanup_free_ char *path = place_program("trace", RUN_TRACE_PROGRAM);

	if (!path)
		command_fail(EXIT_RUN, "--trace: " RUN_TRACE_PROGRAM " is not part of this build "
				       "(Debian package liblttng-ctl-dev)");
	argv[0] = RUN_AS_RUN;
	(void)execv(path, argv);
	command_fail(EXIT_RUN, "cannot start %s: %s", path, strerror(errno));
}

int command_run(int argc, char **argv)
{
	_cleanup_free_ char *folder = NULL, *error_text = NULL;
	struct arguments arguments = {0};
	struct program program = {0};
	struct run_watch watch = {0};
	struct run_beside beside = {0};
	struct run_end end;
	uint64_t since_ns;
	const char *asked;
	json_t *witness;
	int error;

	parse_arguments(argc, argv, &arguments);
	if (arguments.trace)
		hand_over(argv);
	run_options_export();
	if (arguments.driver)
		run_preload_driver(arguments.driver);
	run_inspect(arguments.program[0], &program);
	if (report_output_prepare(&arguments.output, &error_text))
		command_fail(EXIT_RUN, "%s", error_text);
	run_preload(&program);
	asked = run_options_out();
	folder = run_make_folder(asked, arguments.keep);
	if (setenv("SLIPSTREAM_OUT", folder, 1) < 0)
		command_fail(EXIT_RUN, "cannot set SLIPSTREAM_OUT: %s", strerror(errno));

	since_ns = process_now_ns();
	/* execvp(3) would hand even an ELF file that the kernel refuses to the shell. */
	if (arguments.witness) {
		run_beside_init(&beside, folder, NULL);
		watch.context = &beside;
		watch.started = run_beside_start;
	}
	error = run_wait(program.is_elf ? program.path : NULL, arguments.program, &watch, &end);
	witness = run_beside_end(&beside);
	if (error || end.exec_error) {
		if (!asked)
			run_remove_folder(folder);
		run_failed_start(arguments.program[0], error, &end);
	}

	error = run_report(&arguments.output, &program, folder, since_ns, end.pid, witness);
	if (arguments.keep || asked)
		command_say("record files are kept in %s", folder);
	else
		run_remove_folder(folder);
	program_done(&program);
	if (error && WIFEXITED(end.wait_status) && !WEXITSTATUS(end.wait_status))
		return EXIT_RUN;
	run_end_alike(end.wait_status);
}
