// SPDX-License-Identifier: MIT
/*
 * Keeper (keeper.h). Called by trace.c and session.c.
 *
 * It is forked from the tracer and talks with it over a socket pair. The tracer's death, SIGKILL
 * included, closes the socket; the keeper then ends the daemons as at an orderly end. It lives in a
 * process session of its own, so that a Ctrl-C in the terminal reaches neither it nor the daemons:
 * those are needed until the last event is written. As a subreaper it inherits what the session daemon
 * leaves behind (consumer daemons), and knows all of them by the number of its session. Should the
 * keeper be killed itself, the kernel ends the daemons it started (PR_SET_PDEATHSIG).
 */
#include "keeper.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "memory.h"

#define TEXT_MAX    512
#define DESCRIPTORS 65536 /* as LTTng's manual expects for root's daemon */
#define LOOK_MS     20    /* between two looks at something that is expected soon */
#define ORPHANED_S  5     /* daemons whose tracer is gone have nobody who would wait longer */

enum message {
	CALL_BEGINS = 'B', /* tracer: a call begins; no answer */
	CALL_ENDS = 'E',   /* tracer: it came back; answered by KEPT or KILLED */
	END = 'Q',         /* tracer: end everything; answered by the end of the keeper */
	READY = 'R',       /* keeper: the daemons answer */
	FAILED = 'F',      /* keeper: they do not; a line follows */
	KEPT = 'O',        /* keeper: the call came back in time */
	KILLED = 'X',      /* keeper: it did not, the daemons are gone */
};

struct keeper {
	pid_t pid;
	int socket; /* -1: the keeper is gone */
};

/* ---- The keeper's own side ---- */

struct keeping {
	const struct keeper_plan *plan;
	int socket;
	pid_t sessiond, relayd; /* 0: none, or reaped */
	int end_s;              /* the patience with each at the end */
};

static int64_t now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	(void)nanosleep(&time, NULL);
}

static void tell(const struct keeping *keeping, enum message kind, const char *text)
{
	char line[TEXT_MAX];

	(void)snprintf(line, sizeof(line), "%c%s", kind, text);
	(void)send(keeping->socket, line, strlen(line), MSG_NOSIGNAL);
}

/* False: no child is left. */
static bool reap(struct keeping *keeping)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		if (pid == keeping->sessiond)
			keeping->sessiond = 0;
		if (pid == keeping->relayd)
			keeping->relayd = 0;
	}
	return pid == 0 || errno != ECHILD;
}

static bool is_of_session(pid_t pid, pid_t session)
{
	char path[64], line[512], *tail;
	_cleanup_fclose_ FILE *file = NULL;
	int found = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		return false;
	tail = strrchr(line, ')'); /* the name before it may hold anything */
	return tail && sscanf(tail + 1, " %*c %*d %*d %d", &found) == 1 && found == session;
}

static void kill_all(void)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid > 0 && pid != getpid() && is_of_session(pid, getpid()))
			(void)kill(pid, SIGKILL);
	}
	if (folder)
		(void)closedir(folder);
}

/* Ends one daemon; false: it did not end in time. */
static bool end_one(struct keeping *keeping, const pid_t *daemon)
{
	int64_t limit = now_ms() + keeping->end_s * 1000;

	if (*daemon)
		(void)kill(*daemon, SIGTERM);
	for (; *daemon; pause_ms(LOOK_MS)) {
		(void)reap(keeping);
		if (now_ms() > limit)
			return false;
	}
	return true;
}

static void end_all(struct keeping *keeping)
{
	int64_t limit;

	/* The relay daemon last: the consumer still sends to it. */
	if (end_one(keeping, &keeping->sessiond) && end_one(keeping, &keeping->relayd)) {
		limit = now_ms() + keeping->end_s * 1000;
		while (reap(keeping) && now_ms() < limit)
			pause_ms(LOOK_MS);
	}
	while (reap(keeping)) {
		kill_all();
		pause_ms(LOOK_MS);
	}
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status;
	(void)kind;
	(void)walk;
	(void)remove(path);
	return 0;
}

static pid_t start_daemon(const struct keeper_plan *plan, char **arguments)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};
	pid_t keeper = getpid(), pid = fork();
	sigset_t none;
	char *run;

	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != keeper)
		_exit(1);
	for (int number = 1; number < SIGRTMIN; number++)
		(void)sigaction(number, &standard, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)unsetenv("LD_PRELOAD"); /* the program's */
	(void)setenv("LTTNG_HOME", plan->home, 1);
	run = memory_format("%s/.lttng", plan->home);
	(void)setenv("LTTNG_RUNDIR", run, 1); /* from 2.14 on; the same folder */
	if (plan->preload)
		(void)setenv("LD_PRELOAD", plan->preload, 1);
	(void)execv(arguments[0], arguments);
	(void)fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
	_exit(1);
}

static bool relayd_answers(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	_cleanup_close_ int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return !connect(descriptor, (struct sockaddr *)&address, sizeof(address));
}

static const char *start_relayd(struct keeping *keeping)
{
	const struct keeper_plan *plan = keeping->plan;
	int64_t limit = now_ms() + plan->timeout_s * 1000;

	if (!plan->relayd)
		return NULL;
	keeping->relayd = start_daemon(plan, plan->relayd);
	if (keeping->relayd < 0) {
		keeping->relayd = 0;
		return "lttng-relayd: cannot start a process";
	}
	for (; !relayd_answers(plan->relayd_port); pause_ms(LOOK_MS)) {
		(void)reap(keeping);
		if (!keeping->relayd)
			return "lttng-relayd ended at its start";
		if (now_ms() > limit)
			return "lttng-relayd does not answer";
	}
	return NULL;
}

/* With --sig-parent the daemon sends SIGUSR1 once it can be called. */
static const char *start_sessiond(struct keeping *keeping, const sigset_t *signals)
{
	const struct keeper_plan *plan = keeping->plan;
	struct timespec step = {.tv_nsec = 100000000};
	int64_t limit = now_ms() + plan->timeout_s * 1000;
	/* No tracing group: the sockets are for one user. */
	char *arguments[] = {(char *)plan->sessiond, "--no-kernel", "--sig-parent", "--group=-",
			     NULL};

	if (!plan->sessiond)
		return NULL;
	keeping->sessiond = start_daemon(plan, arguments);
	if (keeping->sessiond < 0) {
		keeping->sessiond = 0;
		return "lttng-sessiond: cannot start a process";
	}
	while (sigtimedwait(signals, NULL, &step) != SIGUSR1) {
		(void)reap(keeping);
		if (!keeping->sessiond)
			return "lttng-sessiond ended at its start";
		if (now_ms() > limit)
			return "lttng-sessiond does not answer";
	}
	return NULL;
}

/* Until the tracer says so, or is gone. */
static void serve(struct keeping *keeping)
{
	struct pollfd wait = {.fd = keeping->socket, .events = POLLIN};
	int64_t limit = 0; /* 0: no call is under way */
	bool killed = false;

	for (;;) {
		int left = limit ? (int)(limit - now_ms()) : -1;
		int ready = limit && left <= 0 ? 0 : poll(&wait, 1, left);
		char kind;

		if (ready < 0)
			continue;
		if (!ready) {
			killed = true;
			limit = 0;
			kill_all();
			continue;
		}
		if (recv(keeping->socket, &kind, 1, 0) != 1) {
			if (keeping->end_s > ORPHANED_S)
				keeping->end_s = ORPHANED_S;
			return;
		}
		if (kind == END)
			return;
		(void)reap(keeping);
		if (kind == CALL_BEGINS)
			limit = now_ms() + keeping->plan->timeout_s * 1000;
		if (kind == CALL_ENDS) {
			limit = 0;
			tell(keeping, killed ? KILLED : KEPT, "");
		}
	}
}

static void redirect(const char *log)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	(void)dup2(null, STDIN_FILENO);
	(void)dup2(null, STDOUT_FILENO);
	(void)dup2(file >= 0 ? file : null, STDERR_FILENO);
}

static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	/*
	 * The daemon holds several for each traced process. No more than it could use: at their
	 * start the daemons close every number up to the limit, which may be a thousand million.
	 */
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void keep(const struct keeper_plan *plan, int socket)
{
	struct keeping keeping = {
		.plan = plan, .socket = STDERR_FILENO + 1, .end_s = plan->timeout_s};
	const char *error;
	sigset_t signals;

	(void)setsid();
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)prctl(PR_SET_NAME, "slip-keeper");
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGQUIT, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL); /* children are reaped here, whatever we inherited */
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGUSR1);
	(void)sigprocmask(SIG_SETMASK, &signals, NULL);
	redirect(plan->log);
	/* Whoever reads a pipe of the tracer's must see its end. */
	if (socket != keeping.socket)
		(void)dup3(socket, keeping.socket, O_CLOEXEC);
	(void)close_range((unsigned int)keeping.socket + 1, ~0U, 0);
	(void)chdir("/");
	raise_descriptor_limit();

	error = start_relayd(&keeping);
	if (!error)
		error = start_sessiond(&keeping, &signals);
	tell(&keeping, error ? FAILED : READY, error ? error : "");
	if (!error)
		serve(&keeping);
	end_all(&keeping);
	(void)nftw(plan->home, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- The tracer's side ---- */

/* The kind of the message, its text in `text`; 0: the keeper is gone. */
static char hear(struct keeper *keeper, char text[TEXT_MAX])
{
	ssize_t got;

	if (keeper->socket < 0)
		return 0;
	do
		got = recv(keeper->socket, text, TEXT_MAX - 1, 0);
	while (got < 0 && errno == EINTR);
	if (got <= 0) {
		(void)close(keeper->socket);
		keeper->socket = -1;
		return 0;
	}
	text[got] = '\0';
	return text[0];
}

static void ask(struct keeper *keeper, enum message kind)
{
	char byte = (char)kind;

	if (keeper->socket >= 0)
		(void)send(keeper->socket, &byte, 1, MSG_NOSIGNAL);
}

int keeper_start(const struct keeper_plan *plan, struct keeper **ret_keeper, char **reterr_text)
{
	struct keeper *keeper = memory_new(sizeof(*keeper));
	char text[TEXT_MAX];
	int ends[2], error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ||
	    (keeper->pid = fork()) < 0) {
		error = errno;
		*reterr_text = memory_format("cannot start a process: %s", strerror(error));
		free(keeper);
		return -error;
	}
	if (!keeper->pid) {
		keep(plan, ends[1]);
		_exit(0);
	}
	(void)close(ends[1]);
	keeper->socket = ends[0];
	if (hear(keeper, text) == READY) {
		*ret_keeper = keeper;
		return 0;
	}
	*reterr_text =
		memory_copy(keeper->socket >= 0 ? text + 1 : "the keeper of the daemons ended");
	keeper_end(keeper);
	return -EIO;
}

void keeper_call_begins(struct keeper *keeper)
{
	ask(keeper, CALL_BEGINS);
}

bool keeper_call_ends(struct keeper *keeper)
{
	char text[TEXT_MAX];

	ask(keeper, CALL_ENDS);
	return hear(keeper, text) == KEPT;
}

void keeper_end(struct keeper *keeper)
{
	char text[TEXT_MAX];

	if (!keeper)
		return;
	ask(keeper, END);
	while (hear(keeper, text))
		;
	while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(keeper);
}
