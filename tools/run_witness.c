// SPDX-License-Identifier: MIT
/*
 * Run, witness: slipstream-witness beside a program, or beside running ones. It is the part with
 * privileges, so it does nothing but watch and write. A socket between the two: it says there when it
 * watches; that socket's end is its own end, however we ended. Called by run and attach.
 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "command.h"
#include "memory.h"
#include "place.h"
#include "run.h"

#define DIED     -1    /* by a signal */
#define READY_MS 60000 /* to find and probe the libraries of many processes */

extern char **environ;

struct run_witness {
	pid_t pid;
	int control;
};

static volatile sig_atomic_t is_stopped;
static sigset_t mask_before; /* of run_witness_hold_signals() */

/* Ours without what is preloaded: that would be in the tracer, too. */
static char **environment(void)
{
	size_t count = 0;
	char **variables;

	while (environ[count])
		count++;
	variables = memory_new((count + 1) * sizeof(*variables));
	count = 0;
	for (char **variable = environ; *variable; variable++)
		if (strncmp(*variable, "LD_PRELOAD=", 11) != 0)
			variables[count++] = *variable;
	return variables;
}

static char **compose(const char *name, char *const *arguments, pid_t process, int control)
{
	size_t count = 0;
	char **all;

	while (arguments[count])
		count++;
	all = memory_new((count + 6) * sizeof(*all));
	all[0] = memory_copy("slipstream-witness");
	all[1] = memory_copy("watch");
	all[2] = memory_format("--control=%d", control);
	all[3] = memory_format("--name=%s", name);
	for (size_t i = 0; i < count; i++)
		all[4 + i] = memory_copy(arguments[i]);
	if (process)
		all[4 + count] = memory_format("%d", process);
	return all;
}

static int spawn(const char *path, char **arguments, int control, pid_t *ret_pid)
{
	_cleanup_free_ char **variables = environment();
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, standard;
	int error;

	(void)sigemptyset(&none);
	(void)sigemptyset(&standard);
	(void)sigaddset(&standard, SIGCHLD);
	(void)sigaddset(&standard, SIGTERM);
	posix_spawn_file_actions_init(&actions);
	/* The same number: only the mark that closes it is taken away. */
	posix_spawn_file_actions_adddup2(&actions, control, control);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &standard);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	error = posix_spawn(ret_pid, path, &actions, &attributes, arguments, variables);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

/* What it says first; "" if it ended, NULL if it says nothing. */
static const char *first_word(int control, char line[64])
{
	struct pollfd wanted = {.fd = control, .events = POLLIN};
	size_t length = 0;
	int found;

	line[0] = '\0';
	do
		found = poll(&wanted, 1, READY_MS);
	while (found < 0 && errno == EINTR);
	if (found <= 0)
		return NULL;
	while (length < 63) {
		ssize_t got = read(control, line + length, 1);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0 || line[length] == '\n')
			break;
		length++;
	}
	line[length] = '\0';
	return line;
}

/* 0 also where somebody else has waited for it: it has closed its socket by itself then. */
static int status_of(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : DIED;
}

static int give_up(struct run_witness *witness, const char *said)
{
	int status;

	if (!said) {
		command_say("slipstream-witness does not answer");
		(void)kill(witness->pid, SIGKILL);
	}
	(void)close(witness->control);
	status = status_of(witness->pid);
	/* With any other status it has told why. */
	if (said && (!status || status == DIED))
		command_say("slipstream-witness ended before it watched");
	free(witness);
	return status && status != DIED ? status : EXIT_FAILURE;
}

int run_witness_start(const char *name, char *const *arguments, pid_t process,
		      struct run_witness **ret_witness)
{
	_cleanup_free_ char *path = place_program("../bpf", "slipstream-witness");
	struct run_witness *witness;
	const char *said;
	char line[64], **all;
	int ends[2], error;

	if (!path) {
		command_say("slipstream-witness is not part of this build (Debian packages clang, "
			    "bpftool, libbpf-dev)");
		return EXIT_FAILURE;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		command_say("no socket: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	witness = memory_new(sizeof(*witness));
	witness->control = ends[0];
	all = compose(name, arguments, process, ends[1]);
	error = spawn(path, all, ends[1], &witness->pid);
	for (char **each = all; *each; each++)
		free(*each);
	free(all);
	(void)close(ends[1]);
	if (error) {
		command_say("cannot start %s: %s", path, strerror(error));
		(void)close(ends[0]);
		free(witness);
		return EXIT_FAILURE;
	}
	said = first_word(witness->control, line);
	if (!said || strcmp(said, "ready") != 0)
		return give_up(witness, said);
	*ret_witness = witness;
	return 0;
}

/* Until its end of the socket is closed: then it has written all. */
static void wait_for_end(const struct run_witness *witness, const sigset_t *mask)
{
	struct pollfd wanted = {.fd = witness->control, .events = POLLIN};
	char byte;
	ssize_t got;

	for (;;) {
		if (is_stopped)
			(void)shutdown(witness->control, SHUT_WR);
		/* Signals come while it waits here, and nowhere else. */
		if (ppoll(&wanted, 1, NULL, mask) < 0)
			continue;
		got = read(witness->control, &byte, 1);
		if (!got || (got < 0 && errno != EINTR))
			return;
	}
}

int run_witness_end(struct run_witness *witness)
{
	int status;

	(void)shutdown(witness->control, SHUT_WR);
	wait_for_end(witness, NULL);
	(void)close(witness->control);
	status = status_of(witness->pid);
	free(witness);
	if (status != DIED)
		return status;
	command_say("slipstream-witness was killed: what it saw is lost");
	return EXIT_FAILURE;
}

static void handle_stop(int number)
{
	(void)number;
	is_stopped = 1;
}

void run_witness_hold_signals(void)
{
	struct sigaction stop = {.sa_handler = handle_stop};
	sigset_t own;

	(void)sigemptyset(&own);
	(void)sigaddset(&own, SIGINT);
	(void)sigaddset(&own, SIGTERM);
	(void)sigaddset(&own, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &own, &mask_before);
	(void)sigaction(SIGINT, &stop, NULL);
	(void)sigaction(SIGTERM, &stop, NULL);
	(void)sigaction(SIGHUP, &stop, NULL);
}

int run_witness_wait(struct run_witness *witness)
{
	int status;

	wait_for_end(witness, &mask_before);
	status = run_witness_end(witness);
	/* What is started next can be stopped; we go on to clear up. */
	(void)sigprocmask(SIG_SETMASK, &mask_before, NULL);
	return status;
}

/* ---- beside a program ---- */

void run_beside_init(struct run_beside *beside, const char *folder, const char *trace)
{
	*beside = (struct run_beside){
		.summary = memory_format("%s/witness.json", folder),
		.text = trace ? memory_format("%s/witness.trace", folder) : NULL,
		.trace = trace ? memory_copy(trace) : NULL,
	};
}

void run_beside_start(void *context, pid_t process)
{
	struct run_beside *beside = context;
	_cleanup_free_ char *tried = NULL;
	_cleanup_free_ char *library = place_library(&tried);
	_cleanup_free_ char *summary = memory_format("--summary=%s", beside->summary);
	_cleanup_free_ char *text = memory_format("--trace=%s", beside->text ? beside->text : "");
	_cleanup_free_ char *path = memory_format("--shim-path=%s", library ? library : "");
	const char *slash = library ? strrchr(library, '/') : NULL;
	_cleanup_free_ char *name = memory_format("--shim=%s", slash ? slash + 1 : "");
	char *arguments[6] = {"--program", summary};
	size_t count = 2;

	if (beside->text)
		arguments[count++] = text;
	if (slash) {
		arguments[count++] = path;
		arguments[count++] = name;
	}
	(void)unlink(beside->summary);
	if (run_witness_start(command_name, arguments, process, &beside->witness))
		command_say("--witness: the program runs unwatched");
}

json_t *run_beside_end(struct run_beside *beside)
{
	json_t *object = NULL;
	int status;

	if (beside->witness) {
		status = run_witness_end(beside->witness);
		object = json_load_file(beside->summary, 0, NULL);
		(void)unlink(beside->summary);
		/* Else it has told why. */
		if (!object && !status)
			command_say("--witness: what was seen is lost");
		if (beside->text && !status)
			(void)run_witness_convert(beside->text, beside->trace);
		else if (beside->text)
			(void)unlink(beside->text); /* a part that nobody would know as one */
	}
	free(beside->summary);
	free(beside->text);
	free(beside->trace);
	*beside = (struct run_beside){0};
	return object;
}

int run_witness_convert(const char *text, const char *trace)
{
	_cleanup_free_ char *path = place_program("../tracing/analysis", "slipstream-analyze");
	char *arguments[] = {path, "convert", (char *)text, (char *)trace, NULL};
	int error, status;
	pid_t pid;

	if (!path) {
		command_say("slipstream-analyze is not part of this build: the trace stays text, "
			    "in %s",
			    text);
		return EXIT_FAILURE;
	}
	error = posix_spawn(&pid, path, NULL, NULL, arguments, environ);
	if (error) {
		command_say("cannot start %s: %s", path, strerror(error));
		return EXIT_FAILURE;
	}
	status = status_of(pid);
	if (!status)
		(void)unlink(text);
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
