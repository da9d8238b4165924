// SPDX-License-Identifier: MIT
/*
 * slipstream run: starts a program with the library preloaded, waits for it, reports. Nothing goes
 * to stdout. Ends as the program ended; 125 for a failure of its own, 126 and 127 as env(1).
 */
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "command.h"
#include "memory.h"
#include "place.h"
#include "process_state.h"
#include "program.h"
#include "report.h"
#include "report_style.h"
#include "run.h"

/*
 * Free bytes of /dev/shm from which on record files go there; a process takes up to 256 MiB,
 * usually below one.
 */
#define SHARED_MEMORY_ENOUGH (UINT64_C(512) << 20)

enum { KEY_DRIVER = 0x400, KEY_KEEP };

struct arguments {
	struct report_output output;
	const char *driver;
	bool keep;
	char **program; /* and its arguments */
};

static const struct argp_option options[] = {
	{"driver", KEY_DRIVER, "DIR", 0, "put DIR, with its libcuda.so.1, first on LD_LIBRARY_PATH",
	 1},
	{"keep", KEY_KEEP, NULL, 0, "keep the record files and say where they are", 1},
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

/*
 * Where the private folder goes if the user names none. In memory where that is plentiful: making a
 * file costs the program 1 to 15 ms on a journaled disk (measured, ext4) and 0.05 ms on tmpfs.
 */
static const char *temporary_place(bool keep)
{
	const char *named = getenv("TMPDIR");
	struct statfs shared;

	if (named && named[0] == '/')
		return named;
	if (!keep && !statfs("/dev/shm", &shared) && shared.f_type == TMPFS_MAGIC &&
	    shared.f_bavail * (uint64_t)shared.f_bsize >= SHARED_MEMORY_ENOUGH &&
	    !access("/dev/shm", W_OK | X_OK))
		return "/dev/shm";
	return "/tmp";
}

/* Makes the folder for record files, readable by us alone. The caller frees. */
static char *make_folder(const char *asked, bool keep)
{
	char *folder;

	if (asked) {
		if (mkdir(asked, 0700) < 0 && errno != EEXIST)
			command_fail(EXIT_RUN, "cannot make folder %s: %s", asked, strerror(errno));
		folder = realpath(asked, NULL);
		if (!folder || access(folder, W_OK | X_OK) < 0)
			command_fail(EXIT_RUN, "cannot write to folder %s: %s", asked,
				     strerror(errno));
		return folder;
	}
	folder = memory_format("%s/slipstream-XXXXXX", temporary_place(keep));
	if (!mkdtemp(folder))
		command_fail(EXIT_RUN, "cannot make folder %s: %s", folder, strerror(errno));
	return folder;
}

/* Only what the library can have put there; anything else stays, and the folder with it. */
static void remove_folder(const char *folder)
{
	DIR *stream = opendir(folder);
	struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		size_t length = strlen(entry->d_name);

		if (length > 5 && !strcmp(entry->d_name + length - 5, ".slip"))
			(void)unlinkat(dirfd(stream), entry->d_name, 0);
	}
	if (stream)
		(void)closedir(stream);
	(void)rmdir(folder);
}

/* Names what cannot be reached in it, before it starts. */
static void inspect(const char *name, struct program *ret_program)
{
	int error = program_inspect(name, ret_program);

	if (error)
		command_fail(error == -ENOENT || error == -ENOTDIR ? 127 : 126, "%s: %s", name,
			     strerror(-error));
	if (ret_program->blind_spot)
		command_say("warning: %s: nothing will be seen in it", ret_program->blind_spot);
}

static void preload(const struct program *program)
{
	_cleanup_free_ char *tried = NULL, *why = NULL;
	_cleanup_free_ char *library = place_library(&tried);

	if (!library)
		command_fail(EXIT_RUN, "libslipstream.so not found, tried %s", tried);
	(void)unsetenv(PLACE_LIBRARY_VARIABLE); /* ours, not the library's */
	if (strpbrk(library, ": \t\n"))
		command_fail(EXIT_RUN, "%s: LD_PRELOAD cannot hold a path with colons or blanks",
			     library);
	if (program->foreign_libc)
		return;
	why = run_preload_verify(library, program);
	if (why)
		command_fail(EXIT_RUN, "%s cannot be loaded into %s: %s", library, program->image,
			     why);
	run_preload_export(library, program);
}

static int write_report(struct arguments *arguments, const struct program *program,
			const char *folder, uint64_t since_ns, pid_t pid)
{
	_cleanup_free_ char *error_text = NULL;
	struct report *report = report_new();
	int error;

	if (program->blind_spot)
		report_add_blind_spot(report, program->blind_spot);
	error = report_add_path(report, folder, since_ns, &error_text);
	if (!error) {
		report_finish(report, process_now_ns(), (uint32_t)pid);
		error = report_output_write(report, &arguments->output, &error_text);
	}
	if (error)
		command_say("%s", error_text);
	report_free(report);
	return error;
}

int command_run(int argc, char **argv)
{
	_cleanup_free_ char *folder = NULL, *error_text = NULL;
	struct arguments arguments = {0};
	struct program program = {0};
	struct run_end end;
	uint64_t since_ns;
	bool asked;
	int error;

	parse_arguments(argc, argv, &arguments);
	run_options_export();
	if (arguments.driver)
		run_preload_driver(arguments.driver);
	inspect(arguments.program[0], &program);
	if (report_output_prepare(&arguments.output, &error_text))
		command_fail(EXIT_RUN, "%s", error_text);
	preload(&program);
	asked = run_options_out();
	folder = make_folder(run_options_out(), arguments.keep);
	if (setenv("SLIPSTREAM_OUT", folder, 1) < 0)
		command_fail(EXIT_RUN, "cannot set SLIPSTREAM_OUT: %s", strerror(errno));

	since_ns = process_now_ns();
	/* execvp(3) would hand even an ELF file that the kernel refuses to the shell. */
	error = run_wait(program.is_elf ? program.path : NULL, arguments.program, &end);
	if (error || end.exec_error) {
		if (!asked)
			remove_folder(folder);
		if (error)
			command_fail(EXIT_RUN, "cannot start a process: %s", strerror(-error));
		command_fail(end.exec_error == ENOENT ? 127 : 126, "%s: %s", arguments.program[0],
			     strerror(end.exec_error));
	}

	error = write_report(&arguments, &program, folder, since_ns, end.pid);
	if (arguments.keep || asked)
		command_say("record files are kept in %s", folder);
	else
		remove_folder(folder);
	program_done(&program);
	if (error && WIFEXITED(end.wait_status) && !WEXITSTATUS(end.wait_status))
		return EXIT_RUN;
	run_end_alike(end.wait_status);
}
