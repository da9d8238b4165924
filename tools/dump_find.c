// SPDX-License-Identifier: MIT
/*
 * Dump, find: the record file of a running process. Called by the dump. The process has the file mapped, so /proc/PID/maps names it, wherever it lies, in
 * another mount namespace too; and the same list says whether the library is loaded at all. Who may not read that list may not see what the
 * process does either.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>

#include "dump.h"
#include "memory.h"
#include "text.h"

#define LIBRARY "libslipstream.so"

/* What /proc/PID/status says of a process. */
struct process {
	uint32_t pid;   /* of the process, if a thread was asked for */
	uint32_t inner; /* of the process, in its own namespace */
	unsigned int user;
	char state;
};

struct found {
	bool library;
	bool others; /* a record file, but another process's */
	bool deleted;
	char *path;   /* NULL: none; the newest */
	char *mapped; /* its name in map_files */
	uint64_t start_ns;
};

static bool read_status(uint32_t pid, struct process *ret_process)
{
	_cleanup_free_ char *path = memory_format("/proc/%" PRIu32 "/status", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	char line[512], *last;

	*ret_process = (struct process){.pid = pid, .inner = pid, .state = '?'};
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		(void)sscanf(line, "Tgid: %" SCNu32, &ret_process->pid);
		(void)sscanf(line, "Uid: %*u %u", &ret_process->user);
		(void)sscanf(line, "State: %c", &ret_process->state);
		if (!strncmp(line, "NStgid:", 7)) {
			last = strrchr(line, '\t');
			ret_process->inner = last ? (uint32_t)strtoul(last, NULL, 10) : pid;
		}
	}
	return true;
}

/* Of a process that ended: its newest file in the folder that this command was given, too; NULL: none. */
static char *find_left(uint32_t pid)
{
	const char *folder = getenv("SLIPSTREAM_OUT");
	DIR *entries = folder && *folder ? opendir(folder) : NULL;
	uint64_t newest = 0, start_ns;
	struct dirent *entry;
	char *path = NULL;
	uint32_t named;

	while (entries && (entry = readdir(entries))) {
		if (!record_file_is_named(entry->d_name) ||
		    sscanf(entry->d_name, "%" SCNu32 "-%" SCNu64, &named, &start_ns) != 2 ||
		    named != pid || start_ns < newest)
			continue;
		newest = start_ns;
		free(path);
		path = memory_format("%s/%s", folder, entry->d_name);
	}
	if (entries)
		(void)closedir(entries);
	return path;
}

static int say_ended(uint32_t pid, bool is_there, char **reterr_text)
{
	_cleanup_free_ char *left = find_left(pid);

	if (left)
		*reterr_text = memory_format("process %" PRIu32
					     " has ended; what it left: slipstream dump %s",
					     pid, left);
	else if (is_there)
		*reterr_text = memory_format("process %" PRIu32 " has ended", pid);
	else
		*reterr_text = memory_format("there is no process %" PRIu32, pid);
	return -ESRCH;
}

static int say_closed(const struct process *process, char **reterr_text)
{
	const struct passwd *user = getpwuid(process->user);

	*reterr_text =
		memory_format("process %" PRIu32 " may not be looked into: it is of user %s; "
			      "only that user and root may, and of some programs root alone",
			      process->pid, user ? user->pw_name : "unknown");
	return -EACCES;
}

/* The path of a line of maps, in place; NULL: it has none. The kernel writes a newline in it as \012. */
static char *path_of(char *line)
{
	char *path = strchr(line, '/'), *from, *to;

	if (!path)
		return NULL;
	path[strcspn(path, "\n")] = '\0';
	for (from = to = path; *from; to++) {
		if (!strncmp(from, "\\012", 4)) {
			*to = '\n';
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
	return path;
}

static bool drop_ending(char *path, const char *ending)
{
	size_t length = strlen(path), tail = strlen(ending);

	if (length < tail || strcmp(path + length - tail, ending))
		return false;
	path[length - tail] = '\0';
	return true;
}

static void look(struct found *found, const struct process *process, char *line)
{
	unsigned long begin = 0, end = 0;
	const char *name;
	uint64_t start_ns;
	uint32_t pid;
	bool deleted;
	char *path;

	(void)sscanf(line, "%lx-%lx", &begin, &end);
	path = path_of(line);
	if (!path)
		return;
	deleted = drop_ending(path, " (deleted)");
	name = strrchr(path, '/') + 1;
	found->library |= !strncmp(name, LIBRARY, strlen(LIBRARY));
	if (!record_file_is_named(name) ||
	    sscanf(name, "%" SCNu32 "-%" SCNu64, &pid, &start_ns) != 2)
		return;
	/* A forked child that has not called the driver yet has its parent's. */
	if (pid != process->inner) {
		found->others = true;
		return;
	}
	if (found->path && start_ns <= found->start_ns)
		return;
	free(found->path);
	free(found->mapped);
	found->path = memory_copy(path);
	found->mapped = memory_format("%lx-%lx", begin, end);
	found->start_ns = start_ns;
	found->deleted = deleted;
}

static const char *why_none(const struct found *found)
{
	if (found->others)
		return "has called no driver function since it was forked";
	if (found->library)
		return "has the library, but no record file: SLIPSTREAM_OUT is not set or cannot "
		       "be written, "
		       "or no driver function was called yet";
	return "runs without the library (start it with slipstream run)";
}

int dump_find(uint32_t *pid, char **ret_path, char **ret_open, char **reterr_text)
{
	_cleanup_free_ char *maps = memory_format("/proc/%" PRIu32 "/maps", *pid);
	struct process process;
	struct found found = {0};
	_cleanup_fclose_ FILE *file = NULL;
	char *line = NULL;
	size_t size = 0;
	bool failed;

	if (!read_status(*pid, &process))
		return say_ended(*pid, false, reterr_text);
	if (process.state == 'Z' || process.state == 'X')
		return say_ended(*pid, true, reterr_text);
	*pid = process.pid;
	errno = 0;
	file = fopen(maps, "re");
	/* Of who may not look into a process the kernel opens the list, but does not read it. */
	while (file && getline(&line, &size, file) >= 0)
		look(&found, &process, line);
	failed = !file || ferror(file);
	free(line);
	*ret_path = found.path;
	if (found.path && found.deleted)
		*ret_open =
			memory_format("/proc/%" PRIu32 "/map_files/%s", process.pid, found.mapped);
	else if (found.path)
		*ret_open = memory_format("/proc/%" PRIu32 "/root%s", process.pid, found.path);
	else if (failed && !read_status(*pid, &process))
		return say_ended(*pid, false, reterr_text);
	else if (failed)
		return say_closed(&process, reterr_text);
	else
		*reterr_text =
			memory_format("process %" PRIu32 " %s", process.pid, why_none(&found));
	free(found.mapped);
	return *reterr_text ? -ENOENT : 0;
}
