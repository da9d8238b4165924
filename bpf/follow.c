// SPDX-License-Identifier: MIT
/*
 * Following a tree of processes by ptrace. Used by witness.c; relies on /proc.
 */
#include "follow.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPTIONS                                                                                    \
	(PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |     \
	 PTRACE_O_TRACEEXIT)

static struct follow_process *find(const struct follow *follow, pid_t id)
{
	for (size_t i = 0; i < follow->count; i++) {
		if (follow->process[i].id == id)
			return &follow->process[i];
	}
	return NULL;
}

static struct follow_process *take(struct follow *follow, pid_t id)
{
	struct follow_process *process = find(follow, id), *grown;

	if (process)
		return process;
	grown = realloc(follow->process, (follow->count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	follow->process = grown;
	grown[follow->count] = (struct follow_process){.id = id};
	return &grown[follow->count++];
}

static void add_range(struct follow_process *process, const struct follow_range *range,
		      const char *path)
{
	struct follow_range *grown;

	for (size_t i = 0; i < process->count; i++) {
		const struct follow_range *old = &process->range[i];

		if (old->start == range->start && old->end == range->end &&
		    old->offset == range->offset && old->inode == range->inode &&
		    old->device == range->device)
			return;
	}
	grown = realloc(process->range, (process->count + 1) * sizeof(*grown));
	if (!grown)
		return;
	process->range = grown;
	grown[process->count] = *range;
	grown[process->count].path = strdup(path);
	process->count++;
}

/* Thread group and parent of a thread. */
static bool identify(pid_t thread, pid_t *ret_process, pid_t *ret_parent)
{
	char path[64], line[256];
	FILE *file;

	*ret_process = *ret_parent = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", thread);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		(void)sscanf(line, "Tgid: %d", ret_process);
		(void)sscanf(line, "PPid: %d", ret_parent);
	}
	fclose(file);
	return *ret_process != 0;
}

static void look(struct follow *follow, pid_t thread)
{
	struct follow_process *process;
	char path[64], *line = NULL;
	pid_t id, parent;
	size_t room = 0;
	FILE *file;

	if (!identify(thread, &id, &parent))
		return;
	process = take(follow, id);
	if (!process)
		return;
	process->parent = parent;
	snprintf(path, sizeof(path), "/proc/%d/maps", thread);
	file = fopen(path, "re");
	if (!file)
		return;
	while (getline(&line, &room, file) > 0) {
		unsigned int major, minor;
		struct follow_range range;
		uint64_t inode;
		char mode[8];
		int at = 0;

		/* The path is the rest of the line, blanks and all. */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n",
			   &range.start, &range.end, mode, &range.offset, &major, &minor, &inode,
			   &at) < 7 ||
		    mode[2] != 'x')
			continue;
		range.device = makedev(major, minor);
		range.inode = inode;
		line[strcspn(line, "\n")] = 0;
		add_range(process, &range, at ? line + at : "");
	}
	free(line);
	fclose(file);
}

static pid_t start(char **arguments)
{
	int gate[2];
	char byte;
	pid_t child;

	if (pipe(gate))
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (!child) {
		close(gate[1]);
		/* Until the tracer is there. */
		if (read(gate[0], &byte, 1) != 1)
			_exit(125);
		close(gate[0]);
		signal(SIGINT, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
		execvp(arguments[0], arguments);
		fprintf(stderr, "slipstream-witness: %s: %s\n", arguments[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	close(gate[0]);
	if (ptrace(PTRACE_SEIZE, child, NULL, (void *)OPTIONS)) {
		int r = -errno;

		close(gate[1]);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		return r;
	}
	if (write(gate[1], "", 1) != 1)
		kill(child, SIGKILL);
	close(gate[1]);
	return child;
}

static void resume(struct follow *follow, pid_t thread, int status)
{
	int event = status >> 16, signal = WSTOPSIG(status), pass = 0;

	if (event == PTRACE_EVENT_STOP &&
	    (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU)) {
		/*
		 * A job-control stop of the whole process: leave it stopped until it is continued.
		 */
		(void)ptrace(PTRACE_LISTEN, thread, NULL, NULL);
		return;
	}
	if (event == PTRACE_EVENT_EXIT || event == PTRACE_EVENT_EXEC)
		look(follow, thread);
	else if (!event)
		pass = signal;
	(void)ptrace(PTRACE_CONT, thread, NULL, (void *)(intptr_t)pass);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int follow_run(struct follow *ret_follow, char **arguments, int grace_ms)
{
	struct follow follow = {0};
	struct timespec pause = {.tv_nsec = 5000000};
	uint64_t deadline = 0;
	bool ended = false;
	pid_t child;

	child = start(arguments);
	if (child < 0)
		return child;
	for (;;) {
		int status;
		pid_t thread = waitpid(-1, &status, __WALL | (ended ? WNOHANG : 0));

		if (thread < 0 && errno == EINTR)
			continue;
		if (thread < 0)
			break; /* no child left */
		if (!thread) {
			if (now_ms() > deadline)
				break;
			nanosleep(&pause, NULL);
			continue;
		}
		if (WIFSTOPPED(status)) {
			resume(&follow, thread, status);
		} else if (thread == child && (WIFEXITED(status) || WIFSIGNALED(status))) {
			follow.status = status;
			ended = true;
			deadline = now_ms() + (uint64_t)grace_ms;
		}
	}
	/* What outlived the grace has been seen at its exec at least. */
	*ret_follow = follow;
	return ended ? 0 : -ECHILD;
}

void follow_done(struct follow *follow)
{
	for (size_t i = 0; i < follow->count; i++) {
		for (size_t n = 0; n < follow->process[i].count; n++)
			free(follow->process[i].range[n].path);
		free(follow->process[i].range);
	}
	free(follow->process);
	*follow = (struct follow){0};
}

const struct follow_range *follow_range(const struct follow *follow, pid_t id, uint64_t address)
{
	/* A killed process was not seen at its end; a forked one has its parent's mappings. */
	for (int generation = 0; generation < 8; generation++) {
		const struct follow_process *process = find(follow, id);

		if (!process)
			return NULL;
		for (size_t i = process->count; i > 0; i--) {
			const struct follow_range *range = &process->range[i - 1];

			if (address >= range->start && address < range->end)
				return range;
		}
		id = process->parent;
	}
	return NULL;
}
