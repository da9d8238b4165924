// SPDX-License-Identifier: MIT
/*
 * Run, wait: starts the program in our own process group, so that the terminal and the shell treat
 * both as one job, passes on signals sent to us alone, stops when it stops, ends as it ends. Called
 * by run.
 *
 * Signals are taken by sigwaitinfo(), never by handlers. A signal from the terminal (SI_KERNEL)
 * reached the program as well and is not passed on, nor is one that the program sent itself.
 * Signals that were ignored when we started stay ignored in both (nohup), and yet are passed on: the
 * program may have put a handler in place since.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "memory.h"
#include "run.h"

/* What the program must find as we found it. */
struct inherited {
	sigset_t mask;
	struct sigaction child;
};

static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
	       number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

/* Every signal that could be meant for the program. Once blocked they arrive even where they are ignored. */
static void choose_signals(sigset_t *ret_set)
{
	(void)sigemptyset(ret_set);
	for (int number = 1; number <= SIGRTMAX; number++) {
		if (is_fault(number) || number == SIGKILL || number == SIGSTOP ||
		    number == SIGCHLD || number == SIGPIPE)
			continue;
		(void)sigaddset(ret_set, number);
	}
	(void)sigaddset(ret_set, SIGCHLD);
}

/* Until somebody who wants to see it from its very first moment is ready, or gone. */
static void wait_for_start(int gate)
{
	char byte;

	while (gate >= 0 && read(gate, &byte, 1) < 0 && errno == EINTR)
		;
}

static void start(const char *path, char **arguments, const struct inherited *inherited,
		  int error_pipe, const int gate[2])
{
	int error;

	if (gate[1] >= 0)
		(void)close(gate[1]);
	wait_for_start(gate[0]);

	(void)sigaction(SIGCHLD, &inherited->child, NULL);
	(void)sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
	if (path)
		(void)execv(path, arguments);
	else
		(void)execvp(arguments[0], arguments);
	error = errno;
	while (write(error_pipe, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(125);
}

static void pass_on(pid_t pid, const siginfo_t *info)
{
	if (info->si_code == SI_KERNEL || info->si_pid == pid)
		return;
	if (info->si_code == SI_QUEUE)
		(void)sigqueue(pid, info->si_signo, info->si_value);
	else
		(void)kill(pid, info->si_signo);
}

/*
 * The shell waits for us: stop as the program stopped. Whoever continues the job continues both;
 * who continues us alone has the SIGCONT passed on. Returns when we go on.
 */
static void stop_too(int number)
{
	static const struct timespec now = {0};
	struct sigaction action;
	sigset_t only;

	if ((number != SIGTSTP && number != SIGTTIN && number != SIGTTOU) ||
	    sigaction(number, NULL, &action) < 0 || action.sa_handler != SIG_DFL) {
		(void)raise(SIGSTOP);
		return;
	}
	(void)sigemptyset(&only);
	(void)sigaddset(&only, number);
	(void)sigtimedwait(&only, NULL, &now); /* the one that the terminal sent us as well */
	(void)raise(number);
	(void)sigprocmask(SIG_UNBLOCK, &only, NULL);
	(void)sigprocmask(SIG_BLOCK, &only, NULL);
}

/* True: the program has ended. */
static bool look(pid_t pid, int *ret_status)
{
	int status;
	pid_t found;

	/* Other children can only be ones that a caller left us by exec; they are reaped and
	 * forgotten. */
	while ((found = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (found != pid)
			continue;
		if (!WIFSTOPPED(status)) {
			*ret_status = status;
			return true;
		}
		stop_too(WSTOPSIG(status));
	}
	return false;
}

/* What somebody watches for is answered once, however late; the rest is for a program that has ended. */
static void drop_pending(const sigset_t *signals, const struct run_watch *watch)
{
	static const struct timespec now = {0};
	sigset_t left = *signals;
	int number;

	while ((number = sigtimedwait(&left, NULL, &now)) > 0 || errno == EINTR) {
		if (number > 0 && watch && watch->signal && watch->signal(watch->context, number))
			(void)sigdelset(&left, number);
		errno = 0;
	}
}

/* As sigwaitinfo(2); comes back without a signal now and then where there is something to watch. */
static int next_signal(const sigset_t *signals, const struct run_watch *watch, siginfo_t *ret_info)
{
	static const struct timespec tick = {.tv_sec = 1};
	int number;

	if (!watch || !watch->tick)
		return sigwaitinfo(signals, ret_info);
	number = sigtimedwait(signals, ret_info, &tick);
	if (number < 0 && errno == EAGAIN)
		watch->tick(watch->context);
	return number;
}

static void close_gate(const int gate[2])
{
	for (int i = 0; i < 2; i++)
		if (gate[i] >= 0)
			(void)close(gate[i]);
}

int run_wait(const char *path, char **arguments, const struct run_watch *watch,
	     struct run_end *ret_end)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};
	struct run_end end = {0};
	struct inherited inherited;
	sigset_t signals, own;
	int ends[2], gate[2] = {-1, -1}, error;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	if (watch && watch->started && pipe2(gate, O_CLOEXEC) < 0) {
		error = errno;
		(void)close(ends[0]);
		(void)close(ends[1]);
		return -error;
	}
	choose_signals(&signals);
	(void)sigaction(SIGCHLD, &standard, &inherited.child);
	(void)sigprocmask(SIG_BLOCK, &signals, &own);
	inherited.mask = watch && watch->mask ? *watch->mask : own;

	end.pid = fork();
	if (end.pid < 0) {
		error = errno;
		(void)sigprocmask(SIG_SETMASK, &own, NULL);
		(void)close(ends[0]);
		(void)close(ends[1]);
		close_gate(gate);
		return -error;
	}
	if (!end.pid)
		start(path, arguments, &inherited, ends[1], gate);
	(void)close(ends[1]);
	if (watch && watch->started)
		watch->started(watch->context, end.pid);
	close_gate(gate);

	for (;;) {
		siginfo_t info;

		if (look(end.pid, &end.wait_status))
			break;
		if (next_signal(&signals, watch, &info) < 0)
			continue;
		if (info.si_signo != SIGCHLD &&
		    !(watch && watch->signal && watch->signal(watch->context, info.si_signo)))
			pass_on(end.pid, &info);
	}
	while (read(ends[0], &end.exec_error, sizeof(end.exec_error)) < 0 && errno == EINTR)
		;
	(void)close(ends[0]);

	/* The interrupt that ended the program is not meant to cut the report short; the next one
	 * is. */
	drop_pending(&signals, watch);
	(void)sigprocmask(SIG_SETMASK, &own, NULL);
	*ret_end = end;
	return 0;
}

void run_end_alike(int wait_status)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};
	struct rlimit none = {0};
	sigset_t only;
	int number;

	if (WIFEXITED(wait_status))
		exit(WEXITSTATUS(wait_status));

	/* The program left its core dump, if any was wanted; ours would hide it. */
	number = WTERMSIG(wait_status);
	(void)fflush(NULL);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)sigaction(number, &standard, NULL);
	(void)sigemptyset(&only);
	(void)sigaddset(&only, number);
	(void)sigprocmask(SIG_UNBLOCK, &only, NULL);
	(void)raise(number);
	_exit(128 +
	      number); /* a signal that does not end a process cannot have ended one; be safe */
}
