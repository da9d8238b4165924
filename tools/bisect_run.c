// SPDX-License-Identifier: MIT
/*
 * Bisect, runs (bisect.h): starts the program once, with its stdout in a file and a limit on its time, and compares what it left with a raw
 * run. Called by bisect.c.
 *
 * The program gets a process group of its own, so that all of it can be ended: after a hang, after its end (what it left running would
 * disturb the next run), and when a signal ends us. Its stdin is empty. Signals are taken by sigtimedwait(), never by handlers.
 */
#include "bisect.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "command.h"
#include "memory.h"
#include "process_state.h"
#include "text.h"

#define NS UINT64_C(1000000000)

static void set_or_unset(const char *name, const char *value)
{
	if (value ? setenv(name, value, 1) : unsetenv(name))
		_exit(EXIT_RUN);
}

static int open_or_end(const char *path, int flags)
{
	int descriptor = open(path, flags, 0600);

	if (descriptor < 0)
		_exit(EXIT_RUN);
	return descriptor;
}

/* In the child: group, signals, descriptors. */
static void begin_child(const sigset_t *mask, pid_t parent, const char *input, const char *output,
			bool show_stderr)
{
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_RUN);
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
	(void)dup2(open_or_end(input, O_RDONLY | O_CLOEXEC), STDIN_FILENO);
	(void)dup2(open_or_end(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC), STDOUT_FILENO);
	if (!show_stderr)
		(void)dup2(open_or_end("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
}

static void start_program(const struct bisect_program *program,
			  const struct bisect_settings *settings, const char *records)
{
	set_or_unset("SLIPSTREAM_MODE", settings->fix ? "fix" : "observe");
	set_or_unset("SLIPSTREAM_FIX", settings->fix);
	set_or_unset("SLIPSTREAM_RELAX", settings->relax);
	set_or_unset("SLIPSTREAM_DENY", settings->fix ? settings->deny : NULL);
	set_or_unset("SLIPSTREAM_OUT", records);
	if (program->path)
		(void)execv(program->path, program->arguments);
	else
		(void)execvp(program->arguments[0], program->arguments);
	_exit(errno == ENOENT ? 127 : 126);
}

static void start_check(const struct bisect_program *program)
{
	set_or_unset("LD_PRELOAD", program->preload);
	set_or_unset("ASAN_OPTIONS", program->asan);
	(void)execl("/bin/sh", "sh", "-c", program->check, (char *)NULL);
	_exit(EXIT_RUN);
}

/* A signal that is meant for us: nothing of ours may be left. */
static void end_with(const struct bisect_program *program, int number, pid_t pid,
		     const sigset_t *mask)
{
	(void)kill(-pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	bisect_remove_folder(program->folder);
	(void)signal(number, SIG_DFL);
	(void)raise(number);
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
	_exit(128 + number);
}

/* True: it ended by itself within the limit. */
static bool wait_for(const struct bisect_program *program, pid_t pid, uint64_t limit_ns,
		     const sigset_t *signals, const sigset_t *mask, int *ret_status)
{
	uint64_t end = process_now_ns() + limit_ns, now, left = NS;

	for (;;) {
		struct timespec pause;
		int number;

		if (waitpid(pid, ret_status, WNOHANG) == pid)
			break;
		now = process_now_ns();
		if (limit_ns && now >= end) {
			(void)kill(-pid, SIGKILL);
			while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
				;
			return false;
		}
		if (limit_ns)
			left = end - now;
		pause = (struct timespec){.tv_sec = (time_t)(left / NS),
					  .tv_nsec = (long)(left % NS)};
		number = sigtimedwait(signals, NULL, &pause);
		if (number > 0 && number != SIGCHLD)
			end_with(program, number, pid, mask);
	}
	(void)kill(-pid, SIGKILL); /* what it left running */
	return true;
}

/* `settings` NULL: the check instead of the program. */
static bool run_child(const struct bisect_program *program, const struct bisect_settings *settings,
		      const char *input, const char *output, const char *records, int *ret_status)
{
	pid_t parent = getpid(), pid;
	sigset_t signals, mask;
	bool ended;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGCHLD);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGHUP);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)sigprocmask(SIG_BLOCK, &signals, &mask);
	pid = fork();
	if (pid < 0)
		command_fail(EXIT_RUN, "cannot start a process: %s", strerror(errno));
	if (!pid) {
		begin_child(&mask, parent, input, output, program->show_stderr);
		if (settings)
			start_program(program, settings, records);
		start_check(program);
	}
	(void)setpgid(pid, pid); /* whoever comes first */
	ended = wait_for(program, pid, program->limit_ns, &signals, &mask, ret_status);
	(void)sigprocmask(SIG_SETMASK, &mask, NULL);
	return ended;
}

/* A file that is not there is left out. */
static void copy_file(const char *from, const char *to)
{
	_cleanup_fclose_ FILE *source = fopen(from, "re");
	_cleanup_fclose_ FILE *target = source ? fopen(to, "we") : NULL;
	char piece[65536];
	size_t got;

	while (target && (got = fread(piece, 1, sizeof(piece), source)) > 0)
		if (fwrite(piece, 1, got, target) != got)
			command_fail(EXIT_RUN, "cannot write %s: %s", to, strerror(errno));
	if (source && (!target || fflush(target)))
		command_fail(EXIT_RUN, "cannot write %s: %s", to, strerror(errno));
}

void bisect_run(const struct bisect_program *program, const struct bisect_settings *settings,
		struct bisect_outcome *ret_outcome)
{
	struct bisect_outcome outcome = {.check_status = -1};
	_cleanup_free_ char *records = NULL, *output = NULL, *checked = NULL;
	uint64_t begin;
	int status;

	outcome.folder = memory_format("%s/run-XXXXXX", program->folder);
	if (!mkdtemp(outcome.folder))
		command_fail(EXIT_RUN, "cannot make folder %s: %s", outcome.folder,
			     strerror(errno));
	records = memory_format("%s/records", outcome.folder);
	output = memory_format("%s/stdout", outcome.folder);
	checked = memory_format("%s/check", outcome.folder);
	if (mkdir(records, 0700) < 0)
		command_fail(EXIT_RUN, "cannot make folder %s: %s", records, strerror(errno));
	/* What an earlier run wrote is not this one's. */
	for (size_t i = 0; i < program->output_count; i++)
		if (unlink(program->outputs[i]) < 0 && errno != ENOENT)
			command_fail(EXIT_RUN, "cannot remove %s: %s", program->outputs[i],
				     strerror(errno));

	begin = process_now_ns();
	outcome.is_hung =
		!run_child(program, settings, "/dev/null", output, records, &outcome.wait_status);
	outcome.wall_ns = process_now_ns() - begin;
	for (size_t i = 0; i < program->output_count; i++) {
		_cleanup_free_ char *copy = memory_format("%s/output-%zu", outcome.folder, i);

		copy_file(program->outputs[i], copy);
	}
	if (program->check && !outcome.is_hung) {
		if (!run_child(program, NULL, output, checked, NULL, &status))
			command_fail(EXIT_RUN, "the check does not end");
		outcome.check_status =
			WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (outcome.check_status > 125)
			command_fail(EXIT_RUN, "the check '%s' cannot be run: exit status %d",
				     program->check, outcome.check_status);
	}
	*ret_outcome = outcome;
}

char *bisect_ending(const struct bisect_outcome *outcome)
{
	char figure[TEXT_FIGURE];

	if (outcome->is_hung)
		return memory_format("does not end within %s", text_ns(outcome->wall_ns, figure));
	if (WIFSIGNALED(outcome->wait_status))
		return memory_format("ends by signal %d (%s)", WTERMSIG(outcome->wait_status),
				     strsignal(WTERMSIG(outcome->wait_status)));
	return memory_format("ends with exit status %d", WEXITSTATUS(outcome->wait_status));
}

/* Where two files differ, counted from 1; 0: nowhere; UINT64_MAX: one of them is not there. */
static uint64_t difference_at(const char *first, const char *second)
{
	_cleanup_fclose_ FILE *one = fopen(first, "re");
	_cleanup_fclose_ FILE *other = fopen(second, "re");
	uint64_t at = 1;
	int a, b;

	if (!one || !other)
		return one || other ? UINT64_MAX : 0;
	do {
		a = getc_unlocked(one);
		b = getc_unlocked(other);
		if (a != b)
			return at;
		at++;
	} while (a != EOF);
	return 0;
}

static char *compare_file(const struct bisect_outcome *raw, const struct bisect_outcome *outcome,
			  const char *name, const char *shown)
{
	_cleanup_free_ char *first = memory_format("%s/%s", raw->folder, name);
	_cleanup_free_ char *second = memory_format("%s/%s", outcome->folder, name);
	uint64_t at = difference_at(first, second);

	if (!at)
		return NULL;
	if (at == UINT64_MAX)
		return memory_format("only one of two runs writes %s", shown);
	return memory_format("%s differs from byte %llu on", shown, (unsigned long long)at);
}

char *bisect_difference(const struct bisect_program *program, const struct bisect_outcome *raw,
			const struct bisect_outcome *outcome)
{
	char *difference = NULL;

	if (outcome->is_hung != raw->is_hung || outcome->wait_status != raw->wait_status)
		return bisect_ending(outcome);
	if (program->check)
		return outcome->check_status == raw->check_status
			       ? NULL
			       : memory_format("the check ends with exit status %d",
					       outcome->check_status);
	difference = compare_file(raw, outcome, "stdout", "stdout");
	for (size_t i = 0; i < program->output_count && !difference; i++) {
		_cleanup_free_ char *name = memory_format("output-%zu", i);

		difference = compare_file(raw, outcome, name, program->outputs[i]);
	}
	return difference;
}

static int remove_entry(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
	(void)status;
	(void)flag;
	(void)walk;
	(void)remove(path);
	return 0;
}

void bisect_remove_folder(const char *folder)
{
	(void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void bisect_outcome_done(struct bisect_outcome *outcome)
{
	if (outcome->folder)
		bisect_remove_folder(outcome->folder);
	free(outcome->folder);
	*outcome = (struct bisect_outcome){0};
}
