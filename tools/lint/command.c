// SPDX-License-Identifier: MIT
/*
 * slipstream lint: findings of a run against rules, configuration and baseline (lint.h). This file: where the findings come from - a program
 * that is run now, record files, or a trace, for which it executes slipstream-lint with the same command line (it needs babeltrace2).
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "command.h"
#include "lint/lint.h"
#include "lint/output.h"
#include "lint/timeout.h"
#include "memory.h"
#include "place.h"
#include "process_state.h"
#include "program.h"
#include "report.h"
#include "run.h"
#include "trace_find.h"

#define NS_PER_S UINT64_C(1000000000)

static bool has_trace(const struct lint_options *options)
{
	struct trace_places places = {0};
	bool found;

	for (size_t i = 0; i < options->path_count; i++)
		trace_find(options->paths[i], &places);
	found = places.count;
	trace_places_done(&places);
	return found;
}

static void hand_over(char **argv)
{
	_cleanup_free_ char *path = place_program("lint/trace", "slipstream-lint");

	if (!path)
		command_fail(LINT_USAGE,
			     "traces cannot be read: slipstream-lint is not part of this build");
	(void)execv(path, argv);
	command_fail(LINT_USAGE, "cannot start %s: %s", path, strerror(errno));
}

/* ---- record files ---- */

/* A folder of `slipstream trace` has them below it. */
static int add_path(struct report *report, const char *path, char **reterr_text)
{
	_cleanup_free_ char *below = memory_format("%s/records", path);
	size_t files = report->file_count, problems = report->problems.count;
	int error = report_add_path(report, path, 0, reterr_text);
	struct stat status;

	if (error || report->file_count > files || report->problems.count > problems ||
	    stat(below, &status) || !S_ISDIR(status.st_mode))
		return error;
	return report_add_path(report, below, 0, reterr_text);
}

static int lint_records(struct lint_options *options)
{
	struct report *report = report_new();
	int status;

	for (size_t i = 0; i < options->path_count; i++) {
		_cleanup_free_ char *error_text = NULL;

		if (add_path(report, options->paths[i], &error_text))
			report_text_list_add(&report->problems, memory_copy(error_text));
	}
	report_finish(report, process_now_ns(), 0);
	status = lint_finish(options, report, NULL);
	report_free(report);
	return status;
}

/* ---- a program ---- */

/* An option or variable of the user's wins over the configuration. */
static void export_regions(const struct lint_config *config)
{
	if ((config->nvtx && setenv("SLIPSTREAM_NVTX", config->nvtx, 0) < 0) ||
	    (config->step && setenv("SLIPSTREAM_STEP", config->step, 0) < 0))
		command_fail(LINT_USAGE, "cannot set SLIPSTREAM_NVTX: %s", strerror(errno));
}

/* What the user has said himself stays. */
static void export_checks(const struct lint_options *options)
{
	const char *given = getenv("SLIPSTREAM_CHECK");
	const char *order = given ? given : options->no_order ? "" : "order";
	_cleanup_free_ char *value = NULL;

	if (options->guard)
		value = *order ? memory_format("%s," LINT_CHECK_GUARD, order)
			       : memory_copy(LINT_CHECK_GUARD);
	else
		value = memory_copy(order);
	if (*value && setenv("SLIPSTREAM_CHECK", value, 1) < 0)
		command_fail(LINT_USAGE, "cannot set SLIPSTREAM_CHECK: %s", strerror(errno));
}

/* The library of the guard lies beside the other one, and is preloaded besides it. */
static void export_guard(const char *library)
{
	_cleanup_free_ char *preload = NULL;
	const char *slash = strrchr(library, '/');
	_cleanup_free_ char *guard = memory_format("%.*s/libslipstream-guard.so",
						   (int)(slash ? slash - library : 0), library);

	if (access(guard, R_OK) < 0)
		command_fail(LINT_USAGE, "--guard: %s: %s", guard, strerror(errno));
	preload = run_preload_compose(getenv("LD_PRELOAD"), guard);
	if (setenv("LD_PRELOAD", preload, 1) < 0)
		command_fail(LINT_USAGE, "cannot set LD_PRELOAD: %s", strerror(errno));
}

/* Everything that cannot be done before it starts is a fault of the command line or of this installation. */
static void prepare_program(const struct lint_options *options, struct program *ret_program)
{
	_cleanup_free_ char *tried = NULL, *library = NULL, *why = NULL;
	int error;

	run_options_export();
	export_checks(options);
	export_regions(options->config);
	if (options->driver)
		run_preload_driver(options->driver);
	error = program_inspect(options->program[0], ret_program);
	if (error)
		command_fail(LINT_USAGE, "%s: %s", options->program[0], strerror(-error));
	library = place_library(&tried);
	if (!library)
		command_fail(LINT_USAGE, "libslipstream.so not found, tried %s", tried);
	(void)unsetenv(PLACE_LIBRARY_VARIABLE); /* ours, not the library's */
	if (ret_program->foreign_libc)          /* told as a blind spot */
		return;
	why = run_preload_verify(library, ret_program);
	if (why || strpbrk(library, ": \t\n"))
		command_fail(LINT_USAGE, "%s cannot be loaded into %s: %s", library,
			     ret_program->image, why ? why : "its path has colons or blanks");
	if (run_preload_wants_nvtx() && run_preload_other_nvtx(library))
		command_fail(LINT_USAGE,
			     "regions of NVTX are asked for, but NVTX_INJECTION64_PATH has another "
			     "tool: %s",
			     run_preload_other_nvtx(library));
	run_preload_export(library, ret_program);
	if (options->guard)
		export_guard(library);
}

/* The user's, or a private one. The caller frees. */
static char *record_folder(const char *asked)
{
	const char *temporary = getenv("TMPDIR"); /* the program may change its own folder */
	char *folder;

	if (asked) {
		if (mkdir(asked, 0700) < 0 && errno != EEXIST)
			command_fail(LINT_USAGE, "cannot make folder %s: %s", asked,
				     strerror(errno));
		folder = realpath(asked, NULL);
		if (!folder)
			command_fail(LINT_USAGE, "%s: %s", asked, strerror(errno));
		return folder;
	}
	folder = memory_format("%s/slipstream-XXXXXX",
			       temporary && temporary[0] == '/' ? temporary : "/tmp");
	if (!mkdtemp(folder))
		command_fail(LINT_USAGE, "cannot make folder %s: %s", folder, strerror(errno));
	return folder;
}

/* NULL: it ended well. The caller frees. */
static char *failure_of(const struct lint_options *options, const struct run_end *end)
{
	if (options->stuck_before_ns)
		return memory_format("not ended after %" PRIu64 " s (--timeout)",
				     options->timeout_s);
	if (WIFSIGNALED(end->wait_status))
		return memory_format("signal %d (%s)", WTERMSIG(end->wait_status),
				     strsignal(WTERMSIG(end->wait_status)));
	if (WEXITSTATUS(end->wait_status))
		return memory_format("exit status %d", WEXITSTATUS(end->wait_status));
	return NULL;
}

static int lint_report_of(struct lint_options *options, const struct program *program,
			  const char *folder, uint64_t since_ns, const struct run_end *end)
{
	_cleanup_free_ char *error_text = NULL, *failed = failure_of(options, end);
	struct report *report = report_new();
	int status;

	if (program->blind_spot)
		report_add_blind_spot(report, program->blind_spot);
	if (report_add_path(report, folder, since_ns, &error_text))
		report_text_list_add(&report->problems, memory_copy(error_text));
	report_finish(report, process_now_ns(), (uint32_t)end->pid);
	status = lint_finish(options, report, failed);
	report_free(report);
	return status;
}

static int lint_program(struct lint_options *options)
{
	const char *asked = run_options_out();
	_cleanup_free_ char *folder = NULL;
	struct program program = {0};
	struct lint_timeout timeout = {.after_ns = options->timeout_s * NS_PER_S};
	struct run_watch watch;
	struct run_end end = {0};
	uint64_t since_ns;
	int error, status;

	prepare_program(options, &program);
	folder = record_folder(asked);
	if (setenv("SLIPSTREAM_OUT", folder, 1) < 0)
		command_fail(LINT_USAGE, "cannot set SLIPSTREAM_OUT: %s", strerror(errno));
	since_ns = process_now_ns();
	lint_timeout_watch(&timeout, &watch);
	error = run_wait(program.is_elf ? program.path : NULL, options->program,
			 options->timeout_s ? &watch : NULL, &end);
	/* Who is inside a call for less than half of the time may well have come out of it. */
	if (timeout.ended_ns)
		options->stuck_before_ns = timeout.ended_ns - timeout.after_ns / 2;
	if (error || end.exec_error) {
		if (!asked)
			run_remove_folder(folder);
		command_fail(LINT_USAGE, "%s: %s", options->program[0],
			     strerror(error ? -error : end.exec_error));
	}
	status = lint_report_of(options, &program, folder, since_ns, &end);
	if (!asked)
		run_remove_folder(folder);
	program_done(&program);
	return status;
}

int command_lint(int argc, char **argv)
{
	_cleanup_free_ char *error_text = NULL;
	struct lint_options options;
	int status;

	command_failure_status = LINT_USAGE;
	lint_options_read(argc, argv, &options);
	if (options.rules) {
		lint_rules_print(stdout);
		lint_options_done(&options);
		return fflush(stdout) ? LINT_USAGE : LINT_CLEAN;
	}
	if (!options.program)
		run_options_warn(); /* one that starts refuses them */
	if (!options.program && !options.records && has_trace(&options))
		hand_over(argv);
	error_text = lint_outputs_open(&options);
	if (error_text)
		command_fail(LINT_USAGE, "%s", error_text);
	status = options.program ? lint_program(&options) : lint_records(&options);
	lint_options_done(&options);
	return status;
}
