// SPDX-License-Identifier: MIT
/*
 * Dumped (dumped.h). Called by snapshot.c and trace.c. Relies on shim/emit/record.h (dump_ns) and on
 * held.c.
 *
 * A process whose last dump began when the buffers for definitions of all processors were whole is whole
 * itself: what it defined later lies behind that dump. Which processor a dump was made on is not known, so
 * a process may be whole that is named here, but none that is not named lacks anything.
 */
#include "dumped.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "ask.h"
#include "held.h"
#include "memory.h"
#include "record_read.h"

#define EVENT_BYTES 80 /* of a definition with its contexts, rather more than they have */
#define DUMPS       3  /* of each process: the first, one that was asked for, the last */

static void read_one(int folder, const char *name, struct dumped *dumped)
{
	struct record_header header;
	struct stat status;
	ssize_t length = -1;
	int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);

	if (file < 0)
		return;
	if (!fstat(file, &status) && S_ISREG(status.st_mode))
		length = pread(file, &header, sizeof(header), 0);
	(void)close(file);
	if (length != (ssize_t)sizeof(header) || header.head.type != RECORD_HEADER ||
	    header.magic != RECORD_MAGIC || header.version != RECORD_VERSION ||
	    header.head.size < sizeof(header) || !header.dump_ns[0])
		return;
	dumped->processes = memory_grow(dumped->processes, dumped->count, &dumped->capacity,
					sizeof(dumped->processes[0]));
	dumped->processes[dumped->count++] = (struct dumped_process){
		.pid = header.pid,
		.dump_ns = {header.dump_ns[0], header.dump_ns[1]},
		.dump_events = header.dump_events,
		.end_ns = header.state == RECORD_STATE_EXITED ? header.end_ns : 0,
	};
}

void dumped_read(const char *folder, struct dumped *ret_dumped)
{
	DIR *stream = opendir(folder);
	struct dirent *entry;

	dumped_done(ret_dumped);
	while (stream && (entry = readdir(stream)))
		if (record_file_is_named(entry->d_name))
			read_one(dirfd(stream), entry->d_name, ret_dumped);
	if (stream)
		(void)closedir(stream);
}

void dumped_done(struct dumped *dumped)
{
	free(dumped->processes);
	*dumped = (struct dumped){0};
}

/* Behind the snapshot's end nothing is in it: then the dump before the last one counts. */
static bool has_definitions(const struct dumped_process *process, const struct held *held)
{
	if (!held->any_definitions)
		return false;
	if (!held->definitions_since_ns)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(process->dump_ns); i++)
		if (process->dump_ns[i] && process->dump_ns[i] <= held->end_ns &&
		    process->dump_ns[i] >= held->definitions_since_ns)
			return true;
	return process->dump_ns[0] > held->end_ns && !process->dump_ns[1];
}

/* One that had ended before is named by no event. */
static bool matters(const struct dumped_process *process, const struct held *held)
{
	return !process->end_ns || process->end_ns >= held->first_event_ns;
}

char *dumped_missing(const struct dumped *dumped, const struct held *held, uint64_t *ret_size)
{
	_cleanup_free_ uint32_t *pids = memory_new((dumped->count + 1) * sizeof(*pids));
	uint64_t bytes = 0, size = 1;
	size_t count = 0;

	for (size_t i = 0; i < dumped->count; i++) {
		const struct dumped_process *process = &dumped->processes[i];

		if (!matters(process, held))
			continue;
		bytes += process->dump_events * EVENT_BYTES * DUMPS;
		if (!has_definitions(process, held))
			pids[count++] = process->pid;
	}
	while (size < bytes)
		size *= 2;
	*ret_size = size;
	return ask_names(pids, count);
}
