// SPDX-License-Identifier: MIT
/* Living threads (alive.h). Called by the watch and by the writer. */
#include "alive.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXITING 0x4 /* PF_EXITING of the kernel: set before it tells anybody of the end */

static bool is_process(pid_t id)
{
	char path[64], line[256];
	int group = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", id);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Tgid: %d", &group) == 1)
			break;
	}
	if (file)
		fclose(file);
	return group == id;
}

static bool is_alive(pid_t process, pid_t thread)
{
	char path[64], line[1024];
	unsigned int flags = EXITING;
	const char *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", process, thread);
	file = fopen(path, "re");
	if (!file)
		return false;
	line[fread(line, 1, sizeof(line) - 1, file)] = 0;
	fclose(file);
	/* The name of the program may hold anything; it ends with the last bracket. */
	at = strrchr(line, ')');
	if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		return false;
	return !(flags & EXITING);
}

pid_t alive_thread(pid_t process)
{
	struct dirent *entry;
	pid_t found = 0;
	char path[64];
	DIR *threads;

	if (process <= 0 || !is_process(process))
		return 0;
	if (is_alive(process, process))
		return process;
	snprintf(path, sizeof(path), "/proc/%d/task", process);
	threads = opendir(path);
	while (threads && !found && (entry = readdir(threads))) {
		pid_t thread = atoi(entry->d_name);

		if (thread > 0 && is_alive(process, thread))
			found = thread;
	}
	if (threads)
		closedir(threads);
	return found;
}
