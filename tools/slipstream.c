// SPDX-License-Identifier: MIT
/*
 * slipstream: the one command. Finds the sub-command in a table and hands over; parts that need
 * libraries this command must start without are separate programs that it executes.
 */
#include <errno.h>
#include <signal.h>

#include "command.h"
#include "memory.h"
#include "place.h"
#include "run.h"

static const struct command {
	const char *name;
	int (*main)(int argc, char **argv); /* NULL: the program slipstream-NAME */
	int usage_status;
	const char *summary;
} commands[] = {
	{"run", command_run, EXIT_RUN, "run a program and report its synchronizations"},
	{"attach", command_attach, EXIT_USAGE, "watch running processes from the kernel"},
	{"report", command_report, EXIT_USAGE, "report on record files left by a run"},
	{"lint", command_lint, EXIT_USAGE, "fail where an implicit synchronization came back"},
	{"bisect", command_bisect, EXIT_USAGE,
	 "find the call site whose rewrite changes a program"},
	{"doctor", command_doctor, EXIT_USAGE, "say what this machine and build can do"},
	{"dump", command_dump, EXIT_USAGE, "say what a process is inside now"},
	{"trace", NULL, EXIT_RUN, "run a program and leave an LTTng trace as well"},
	{"verify", NULL, EXIT_USAGE, "prove from a trace that legacy order was kept"},
	{"calibrate", NULL, EXIT_USAGE, "measure what blocks on the present driver"},
};

static void print_help(FILE *out)
{
	(void)fputs("Usage: slipstream COMMAND [OPTION...]\n"
		    "Name every implicit synchronization of a CUDA program and its cost.\n\n",
		    out);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		(void)fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
	(void)fputs("\n      --help     give this help list\n"
		    "      --version  print the version\n\n"
		    "slipstream COMMAND --help tells the options of a command.\n",
		    out);
}

/* Who asks for a snapshot early shall not end the tracer, which looks at its options only later. */
static void hold_snapshot_signal(void)
{
	sigset_t only, before;

	(void)sigemptyset(&only);
	(void)sigaddset(&only, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &only, &before);
	if (!sigismember(&before, SIGUSR1))
		(void)setenv(RUN_TRACE_HOLDS, "1", 1);
}

static int hand_over(const struct command *command, int argc, char **argv)
{
	_cleanup_free_ char *name = memory_format("slipstream-%s", command->name);
	_cleanup_free_ char *path = NULL;

	(void)argc;
	path = place_program(command->name, name);
	if (!path)
		command_fail(command_failure_status, "%s is not part of this build%s", name,
			     strcmp(command->name, "trace")
				     ? ""
				     : " (Debian package liblttng-ctl-dev, then build again)");
	argv[0] = name;
	if (!strcmp(command->name, "trace"))
		hold_snapshot_signal();
	(void)execv(path, argv);
	command_fail(command_failure_status, "cannot start %s: %s", path, strerror(errno));
}

int main(int argc, char **argv)
{
	command_hold_descriptors();
	if (argc < 2)
		command_fail(EXIT_USAGE, "no command given (try --help)");
	if (!strcmp(argv[1], "--version")) {
		(void)puts("slipstream " SLIPSTREAM_VERSION);
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		if (argc > 2)
			command_fail(EXIT_USAGE, "unexpected argument %s (try COMMAND --help)",
				     argv[2]);
		print_help(stdout);
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		command_name = memory_format("slipstream %s", commands[i].name);
		command_usage_status = commands[i].usage_status;
		if (commands[i].usage_status == EXIT_RUN)
			command_failure_status = EXIT_RUN;
		else if (commands[i].main != command_lint) /* what starts a program refuses them */
			run_options_warn();
		if (!commands[i].main)
			return hand_over(&commands[i], argc - 1, argv + 1);
		return commands[i].main(argc - 1, argv + 1);
	}
	command_fail(EXIT_USAGE, "unknown %s %s (try --help)",
		     argv[1][0] == '-' ? "option" : "command", argv[1]);
}
