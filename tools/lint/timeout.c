// SPDX-License-Identifier: MIT
/*
 * Lint, --timeout: a program that has not ended in time is ended, and what it started with it, by SIGKILL: nothing else ends what stands still inside a driver.
 * Called by command.c through run_wait()'s watch, about once a second. What the program was inside then is in the record files (remarks.c).
 */
#include "lint/timeout.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "process_state.h"

struct process {
	pid_t pid, parent;
};

/* Its parent, 0 where it is gone. The name before it may hold anything. */
static pid_t parent_of(const char *pid)
{
	_cleanup_free_ char *path = memory_format("/proc/%s/stat", pid);
	char text[512];
	FILE *file = fopen(path, "re");
	size_t length;
	const char *end;
	int parent = 0;

	if (!file)
		return 0;
	length = fread(text, 1, sizeof(text) - 1, file);
	(void)fclose(file);
	text[length] = '\0';
	end = strrchr(text, ')');
	if (!end || sscanf(end + 1, " %*c %d", &parent) != 1)
		return 0;
	return parent;
}

/* All processes of the machine that we can see; the caller frees. */
static struct process *processes(size_t *ret_count)
{
	struct process *found = NULL;
	struct dirent *entry;
	DIR *folder = opendir("/proc");
	size_t count = 0;

	while (folder && (entry = readdir(folder))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		found = memory_check(reallocarray(found, count + 1, sizeof(*found)));
		found[count++] = (struct process){.pid = (pid_t)atoi(entry->d_name),
						  .parent = parent_of(entry->d_name)};
	}
	if (folder)
		(void)closedir(folder);
	*ret_count = count;
	return found;
}

static void end_with(const struct process *all, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (all[i].parent == pid)
			end_with(all, count, all[i].pid);
	(void)kill(pid, SIGKILL);
}

static void started(void *context, pid_t pid)
{
	struct lint_timeout *timeout = context;

	timeout->pid = pid;
	timeout->deadline_ns = process_now_ns() + timeout->after_ns;
}

static void tick(void *context)
{
	struct lint_timeout *timeout = context;
	uint64_t now_ns = process_now_ns();
	struct process *all;
	size_t count;

	if (timeout->ended_ns || now_ns < timeout->deadline_ns)
		return;
	timeout->ended_ns = now_ns;
	all = processes(&count);
	end_with(all, count, timeout->pid);
	free(all);
}

void lint_timeout_watch(struct lint_timeout *timeout, struct run_watch *ret_watch)
{
	*ret_watch = (struct run_watch){.tick = tick, .started = started, .context = timeout};
}
