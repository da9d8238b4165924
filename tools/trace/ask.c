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
	       header->head.size >= offsetof(struct record_header, dump_ns);
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

static int by_number(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left;
	uint32_t b = *(const uint32_t *)right;

	return a < b ? -1 : a > b;
}

char *ask_names(uint32_t *pids, size_t count)
{
	char *text = NULL;

	if (!count)
		return NULL;
	qsort(pids, count, sizeof(pids[0]), by_number);
	for (size_t i = 0; i < count && i < NAMED_MAX; i++) {
		char *longer = memory_format("%s%s%" PRIu32,
					     text         ? text
					     : count == 1 ? "process "
							  : "processes ",
					     text ? ", " : "", pids[i]);

		free(text);
		text = longer;
	}
	if (count > NAMED_MAX) {
		_cleanup_free_ char *few = text;

		text = memory_format("%s and %zu more", few, count - NAMED_MAX);
	}
	return text;
}

/* It may have ended meanwhile, without exit handlers too. */
static bool is_silent(const struct process *process)
{
	return !process->answered &&
	       process_runs(process->pid, process->start_ns, process_now_ns());
}

static char *say_silent(const struct asking *asking)
{
	_cleanup_free_ uint32_t *pids = memory_new((asking->count + 1) * sizeof(*pids));
	_cleanup_free_ char *names = NULL;
	size_t count = 0;

	for (size_t i = 0; i < asking->count; i++)
		if (is_silent(&asking->processes[i]))
			pids[count++] = asking->processes[i].pid;
	names = ask_names(pids, count);
	if (!names)
		return NULL;
	return memory_format("%s did not repeat %s definitions within %d ms (idle, in a long call, "
			     "or just at it)",
			     names, count == 1 ? "its" : "their", ASK_MS);
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
