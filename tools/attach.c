// SPDX-License-Identifier: MIT
/*
 * slipstream attach: watches running processes, or a program that it starts, from the kernel, and reports
 * as `run` does. Nothing is preloaded, and no process stops. The work is done by others: slipstream-witness
 * watches and writes a trace as text, slipstream-analyze makes it CTF and reports on it.
 *
 * The report goes to stdout; with a program, whose stdout it is, to stderr, and attach ends as the program
 * ended.
 */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "command.h"
#include "memory.h"
#include "place.h"
#include "program.h"
#include "report.h"
#include "run.h"

#define TEXT_NAME   "witness.trace"
#define FOLDER_NAME "witness"
#define WORDS_MAX   4096 /* of a command line to another program */

extern char **environ;

enum {
	KEY_ALL = 0x600,
	KEY_FOR,
	KEY_SET,
	KEY_SYSTEM_CALLS,
	KEY_FRAMES,
	KEY_LEAST,
	KEY_OUTPUT,
	KEY_NO_LIVE,
	KEY_JSON,
	KEY_BY,
	KEY_LIMIT,
	KEY_LIBRARY,
	KEY_DRIVER,
	KEY_SINGLE,
};

static const struct argp_option options[] = {
	{"all", KEY_ALL, NULL, 0, "watch every process that maps a driver library", 1},
	{"for", KEY_FOR, "SECONDS", 0, "end after this time (default: Ctrl-C)", 1},
	{"set", KEY_SET, "NAMES", 0,
	 "functions to watch, by name without version or by pattern, with commas; `default`: those "
	 "that can make the host wait; `all`",
	 1},
	{"system-calls", KEY_SYSTEM_CALLS, NULL, 0,
	 "count the system calls inside calls, which tells loops of ioctl or sched_yield from "
	 "spinning; costs every system call of the machine 60 to 90 ns",
	 1},
	{"frames", KEY_FRAMES, "N", 0, "frames of a stack, 1 to 16 (default 16)", 1},
	{"least", KEY_LEAST, "TIME", 0, "calls shorter than this (ns, us, ms, s) are only counted",
	 1},
	{"output", KEY_OUTPUT, "DIR", 0, "keep the trace, in DIR", 1},
	{"no-live", KEY_NO_LIVE, NULL, 0, "no table while it runs", 1},
	{"library", KEY_LIBRARY, "PATH", 0, "a driver library that is not found by itself", 1},
	{"driver", KEY_DRIVER, "DIR", 0,
	 "put DIR, with its libcuda.so.1, first on LD_LIBRARY_PATH of the program", 1},
	{"single", KEY_SINGLE, NULL, 0, "one probe a function, as before Linux 6.6", 1},
	{"json", KEY_JSON, "FILE", 0, "write the report to FILE as JSON too", 2},
	{"by", KEY_BY, "KEY", 0, "rank the report by this, as slipstream report does", 2},
	{"limit", KEY_LIMIT, "N", 0, "show at most N lines of each section, 0 for all", 2},
	{0},
};

/* Words for another program; each is ours. */
struct words {
	char *items[WORDS_MAX + 1];
	size_t count;
};

struct arguments {
	struct words watch, report;
	char **program; /* NULL: none */
	const char *folder, *driver;
	size_t processes;
	bool all, no_live;
};

/* What the steps after parsing share. */
struct attached {
	const struct arguments *arguments;
	struct program program;
	char *folder, *text, *trace;
	struct run_witness *witness;
	int status; /* of the witness, where it did not start */
};

static void add(struct words *words, char *word)
{
	if (words->count == WORDS_MAX)
		command_fail(command_usage_status, "too many arguments");
	words->items[words->count++] = word;
}

static void words_done(struct words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->items[i]);
}

/* ---- options ---- */

static unsigned long long number(const char *what, const char *text, unsigned long long least,
				 unsigned long long most)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9' || value < least || value > most)
		command_fail(command_usage_status, "%s needs a number from %llu to %llu, not '%s'",
			     what, least, most, text);
	return value;
}

static unsigned long long time_ns(const char *what, const char *text)
{
	static const struct {
		const char *name;
		unsigned long long ns;
	} units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	size_t digits = strspn(text, "0123456789");

	for (size_t i = 0; digits && digits < 10 && i < ARRAY_SIZE(units); i++)
		if (!strcmp(text + digits, units[i].name))
			return strtoull(text, NULL, 10) * units[i].ns;
	command_fail(command_usage_status, "%s needs a time (ns, us, ms, s), not '%s'", what, text);
}

static void add_process(struct arguments *arguments, const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || text[digits] || digits > 10 || strtoull(text, NULL, 10) > INT_MAX ||
	    !strtoull(text, NULL, 10))
		command_fail(command_usage_status,
			     "'%s' is no process id (a program goes behind --)", text);
	arguments->processes++;
	add(&arguments->watch, memory_format("%llu", strtoull(text, NULL, 10)));
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct arguments *arguments = state->input;
	struct words *watch = &arguments->watch, *report = &arguments->report;

	switch (key) {
	case KEY_ALL:
		arguments->all = true;
		add(watch, memory_copy("--all"));
		return 0;
	case KEY_FOR:
		add(watch, memory_format("--for=%llu", number("--for", argument, 1, INT_MAX)));
		return 0;
	case KEY_SET:
		add(watch, memory_format("--set=%s", argument));
		return 0;
	case KEY_SYSTEM_CALLS:
		add(watch, memory_copy("--system-calls"));
		return 0;
	case KEY_FRAMES:
		add(watch, memory_format("--frames=%llu", number("--frames", argument, 1, 16)));
		return 0;
	case KEY_LEAST:
		add(watch, memory_format("--least=%llu", time_ns("--least", argument)));
		return 0;
	case KEY_OUTPUT:
		arguments->folder = argument;
		return 0;
	case KEY_NO_LIVE:
		arguments->no_live = true;
		return 0;
	case KEY_LIBRARY:
		add(watch, memory_format("--library=%s", argument));
		return 0;
	case KEY_DRIVER:
		arguments->driver = argument;
		return 0;
	case KEY_SINGLE:
		add(watch, memory_copy("--single"));
		return 0;
	case KEY_JSON:
		add(report, memory_format("--json=%s", argument));
		return 0;
	case KEY_BY:
		if (report_by_name(argument) < 0)
			command_fail(command_usage_status, "--by needs " REPORT_BY_NAMES ", not %s",
				     argument);
		add(report, memory_format("--by=%s", argument));
		return 0;
	case KEY_LIMIT:
		add(report, memory_format("--limit=%llu", number("--limit", argument, 0, INT_MAX)));
		return 0;
	case ARGP_KEY_ARG:
		add_process(arguments, argument);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* What stands behind "--" is a program. */
static int split(int argc, char **argv, struct arguments *arguments)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		if (i + 1 < argc)
			arguments->program = argv + i + 1;
		else
			command_fail(command_usage_status, "no program behind --");
		argv[i] = NULL;
		return i;
	}
	return argc;
}

static void read_command_line(int argc, char **argv, struct arguments *arguments)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "PID...\n--all\n-- PROGRAM [ARGUMENT...]",
		.doc = "Watch the driver calls of running processes, or of PROGRAM, from the "
		       "kernel, and report how their threads waited. Needs CAP_BPF and "
		       "CAP_PERFMON, and CAP_SYS_PTRACE for processes of other users."
		       "\vExit status: 0, 1 if it cannot watch or report, 2 usage; with PROGRAM "
		       "that of PROGRAM.",
	};

	argc = split(argc, argv, arguments);
	command_parse(&argp, argc, argv, 0, arguments);
	if (!arguments->program && !arguments->all && !arguments->processes)
		command_fail(command_usage_status,
			     "no process id given, nor --all, nor -- and a program (try --help)");
	if (arguments->program && (arguments->all || arguments->processes))
		command_fail(command_usage_status,
			     "process ids and --all do not go with a program");
	if (arguments->driver && !arguments->program)
		command_fail(command_usage_status, "--driver goes with a program");
}

/* ---- the folder ---- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	(void)remove(path);
	return 0;
}

static void make_folder(struct attached *attached)
{
	const char *asked = attached->arguments->folder;
	_cleanup_free_ char *taken = NULL;

	if (asked) {
		if (mkdir(asked, 0700) < 0 && errno != EEXIST)
			command_fail(command_usage_status, "cannot make folder %s: %s", asked,
				     strerror(errno));
		attached->folder = realpath(asked, NULL);
		if (!attached->folder || access(attached->folder, W_OK | X_OK) < 0)
			command_fail(command_usage_status, "cannot write to folder %s: %s", asked,
				     strerror(errno));
		taken = memory_format("%s/" FOLDER_NAME, attached->folder);
		if (!access(taken, F_OK))
			command_fail(command_usage_status, "%s is there already", taken);
	} else {
		const char *place = getenv("TMPDIR");

		attached->folder = memory_format("%s/slipstream-attach-XXXXXX",
						 place && place[0] == '/' ? place : "/tmp");
		if (!mkdtemp(attached->folder))
			command_fail(EXIT_FAILURE, "cannot make folder %s: %s", attached->folder,
				     strerror(errno));
	}
	attached->text = memory_format("%s/" TEXT_NAME, attached->folder);
	attached->trace = memory_format("%s/" FOLDER_NAME, attached->folder);
}

/* Only what was made for this. */
static void drop_folder(const struct attached *attached)
{
	if (!attached->arguments->folder)
		(void)nftw(attached->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- the report ---- */

/* The exit status; 127: it is not there. */
static int call(const char *path, char **arguments, bool to_stderr)
{
	posix_spawn_file_actions_t actions;
	int error, status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	if (to_stderr)
		posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	error = posix_spawn(&pid, path, &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (error) {
		command_say("cannot start %s: %s", path, strerror(error));
		return EXIT_FAILURE;
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_FAILURE;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

static int report(struct attached *attached, struct words *options_of_report)
{
	_cleanup_free_ char *path = place_program("../tracing/analysis", "slipstream-analyze");
	char **words = options_of_report->items;
	size_t count = options_of_report->count;
	struct stat status;
	int r;

	if (!path) {
		command_say("slipstream-analyze is not part of this build: no report");
		return EXIT_FAILURE;
	}
	if (stat(attached->text, &status) || !status.st_size) {
		command_say("no call of a watched function was seen");
		(void)unlink(attached->text);
		return EXIT_SUCCESS;
	}
	r = run_witness_convert(attached->text, attached->trace);
	if (r)
		return r;
	memmove(&words[1], &words[0], count * sizeof(words[0]));
	words[0] = memory_copy("slipstream-analyze");
	words[count + 1] = memory_copy(attached->trace);
	options_of_report->count = count + 2;
	return call(path, words, attached->arguments->program != NULL);
}

/* ---- the two ways ---- */

static void start_witness(struct attached *attached, pid_t process)
{
	const struct arguments *arguments = attached->arguments;
	struct words words = {0};

	for (size_t i = 0; i < arguments->watch.count; i++)
		add(&words, memory_copy(arguments->watch.items[i]));
	add(&words, memory_format("--trace=%s", attached->text));
	if (arguments->program)
		add(&words, memory_copy("--program"));
	else if (!arguments->no_live && isatty(STDERR_FILENO))
		add(&words, memory_copy("--live"));
	attached->status =
		run_witness_start(command_name, words.items, process, &attached->witness);
	words_done(&words);
}

static void on_started(void *context, pid_t pid)
{
	start_witness(context, pid);
}

/* Ends as the program. */
static void attach_program(struct attached *attached, struct words *options_of_report)
{
	char **program = attached->arguments->program;
	struct run_watch watch = {.started = on_started, .context = attached};
	struct run_end end;
	int error;

	run_inspect(program[0], &attached->program);
	if (attached->arguments->driver)
		run_preload_driver(attached->arguments->driver);
	make_folder(attached);
	error = run_wait(attached->program.is_elf ? attached->program.path : NULL, program, &watch,
			 &end);
	if (attached->witness)
		attached->status = run_witness_end(attached->witness);
	if (error || end.exec_error) {
		drop_folder(attached);
		run_failed_start(program[0], error, &end);
	}
	if (!attached->status)
		(void)report(attached, options_of_report);
	else
		command_say("the program ran unwatched");
	if (attached->arguments->folder && !attached->status)
		command_say("the trace is in %s", attached->trace);
	drop_folder(attached);
	run_end_alike(end.wait_status);
}

static int attach_processes(struct attached *attached, struct words *options_of_report)
{
	int status;

	run_witness_hold_signals();
	make_folder(attached);
	start_witness(attached, 0);
	status = attached->witness ? run_witness_wait(attached->witness) : attached->status;
	if (!status)
		status = report(attached, options_of_report);
	if (!status && attached->arguments->folder)
		command_say("the trace is in %s", attached->trace);
	drop_folder(attached);
	return status;
}

int command_attach(int argc, char **argv)
{
	struct arguments *arguments = memory_new(sizeof(*arguments));
	struct words *options_of_report = &arguments->report;
	struct attached attached = {.arguments = arguments};
	int status;

	read_command_line(argc, argv, arguments);
	if (arguments->program)
		attach_program(&attached, options_of_report);
	status = attach_processes(&attached, options_of_report);
	words_done(&arguments->watch);
	words_done(&arguments->report);
	free(attached.folder);
	free(attached.text);
	free(attached.trace);
	free(arguments);
	return status;
}
