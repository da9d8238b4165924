// SPDX-License-Identifier: MIT
/*
 * Ask (ask.h). Called by snapshot.c and by `slipstream trace --dump`. Relies on shim/emit/record.h: the
 * time of asking goes into dump_wanted of each live record file, and comes back in dump_done.
 *
 * The files are read and written, not mapped: one that somebody cuts off meanwhile is then a short read
 * and no SIGBUS. Which process it is, and when it began, is taken from the file's name, as a file that its
 * process could not write is there by name alone.
 */
#include "ask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>

#include "memory.h"
#include "process_state.h"
#include "record_read.h"

#define LOOK_NS   1000000
#define NAMED_MAX 8 /* processes that the line names */

struct process {
	uint32_t pid;
	uint64_t start_ns;
	int file; /* -1: cannot be asked */
	bool answered;
};

struct asking {
	struct process *processes;
	size_t count, capacity;
	uint64_t asked_ns; /* what they are to answer */
};

static bool is_of_dumps(const struct record_header *header, ssize_t length)
{
	return length == (ssize_t)sizeof(*header) && header->head.type == RECORD_HEADER &&
	       header->magic == RECORD_MAGIC && header->version == RECORD_VERSION &&
	       header->head.size >= sizeof(*header);
}

/* Looks at the answer. An exiting process has sent its last dump, or is just at it. */
static void look(struct process *process, uint64_t asked_ns)
{
	struct record_header header;
	ssize_t length = pread(process->file, &header, sizeof(header), 0);

	if (!is_of_dumps(&header, length))
		return;
	process->answered = header.state == RECORD_STATE_EXITED || header.dump_done >= asked_ns;
}

static void ask(int folder, const char *name, struct process *process, uint64_t asked_ns)
{
	struct stat status;

	process->file =
		openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	if (process->file < 0)
		return;
	if (!fstat(process->file, &status) && S_ISREG(status.st_mode)) {
		struct record_header header;
		ssize_t length = pread(process->file, &header, sizeof(header), 0);

		if (is_of_dumps(&header, length) &&
		    pwrite(process->file, &asked_ns, sizeof(asked_ns),
			   offsetof(struct record_header, dump_wanted)) ==
			    (ssize_t)sizeof(asked_ns)) {
			look(process, asked_ns);
			return;
		}
	}
	(void)close(process->file);
	process->file = -1;
}

/*
 * Where this process is to stand; NULL: nowhere. One that became another program by exec() has a file of
 * each, of which the last is its own now.
 */
static struct process *place_of(struct asking *asking, uint32_t pid, uint64_t start_ns)
{
	for (size_t i = 0; i < asking->count; i++) {
		struct process *process = &asking->processes[i];

		if (process->pid != pid)
			continue;
		if (process->start_ns >= start_ns)
			return NULL;
		if (process->file >= 0)
			(void)close(process->file);
		return process;
	}
	asking->processes = memory_grow(asking->processes, asking->count, &asking->capacity,
					sizeof(asking->processes[0]));
	return &asking->processes[asking->count++];
}

static void ask_all(struct asking *asking, DIR *stream)
{
	struct dirent *entry;

	while ((entry = readdir(stream))) {
		struct process *process;
		uint64_t start_ns;
		uint32_t pid;

		if (!record_file_is_named(entry->d_name) ||
		    sscanf(entry->d_name, "%" SCNu32 "-%" SCNu64, &pid, &start_ns) != 2 ||
		    !process_runs(pid, start_ns, asking->asked_ns))
			continue;
		process = place_of(asking, pid, start_ns);
		if (!process)
			continue;
		*process = (struct process){.pid = pid, .start_ns = start_ns};
		ask(dirfd(stream), entry->d_name, process, asking->asked_ns);
	}
}

/* True: somebody may still answer. */
static bool look_at_all(struct asking *asking)
{
	bool any = false;

	for (size_t i = 0; i < asking->count; i++) {
		struct process *process = &asking->processes[i];

		if (process->file >= 0 && !process->answered)
			look(process, asking->asked_ns);
		any |= process->file >= 0 && !process->answered;
	}
	return any;
}

static int by_pid(const void *left, const void *right)
{
	uint32_t a = ((const struct process *)left)->pid;
	uint32_t b = ((const struct process *)right)->pid;

	return a < b ? -1 : a > b;
}

/* It may have ended meanwhile, without exit handlers too. */
static bool is_silent(const struct process *process)
{
	return !process->answered &&
	       process_runs(process->pid, process->start_ns, process_now_ns());
}

static char *say_silent(struct asking *asking)
{
	char *text = NULL;
	size_t silent = 0;

	if (asking->count)
		qsort(asking->processes, asking->count, sizeof(asking->processes[0]), by_pid);
	for (size_t i = 0; i < asking->count; i++) {
		char *longer;

		if (!is_silent(&asking->processes[i]) || silent++ >= NAMED_MAX)
			continue;
		longer = memory_format("%s%s%" PRIu32, text ? text : "", text ? ", " : "",
				       asking->processes[i].pid);
		free(text);
		text = longer;
	}
	if (text) {
		_cleanup_free_ char *pids = text, *more = NULL;

		if (silent > NAMED_MAX)
			more = memory_format(" and %zu more", silent - NAMED_MAX);
		text = memory_format("process%s %s%s did not repeat %s definitions within %d ms "
				     "(idle, or in a long call)",
				     silent == 1 ? "" : "es", pids, more ? more : "",
				     silent == 1 ? "its" : "their", ASK_MS);
	}
	return text;
}

int ask_for_dumps(const char *folder, size_t *ret_asked, char **ret_silent)
{
	static const struct timespec pause = {.tv_nsec = LOOK_NS};
	struct asking asking = {.asked_ns = process_now_ns()};
	uint64_t limit_ns = asking.asked_ns + ASK_MS * UINT64_C(1000000);
	DIR *stream = opendir(folder);

	if (!stream)
		return -errno;
	ask_all(&asking, stream);
	(void)closedir(stream);
	while (look_at_all(&asking) && process_now_ns() < limit_ns)
		(void)nanosleep(&pause, NULL);
	*ret_silent = say_silent(&asking);
	*ret_asked = asking.count;
	for (size_t i = 0; i < asking.count; i++)
		if (asking.processes[i].file >= 0)
			(void)close(asking.processes[i].file);
	free(asking.processes);
	return 0;
}
