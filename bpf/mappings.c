// SPDX-License-Identifier: MIT
/* perf_event_open() of a dummy event on every processor, and its ring buffers. */
#include "mappings.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { PAGES = 64, MESSAGE_LIMIT = 65536 }; /* pages of each ring; a message's size is 16 bits */

struct processor {
	int event;
	struct perf_event_mmap_page *page;
	uint64_t lost; /* by the last look */
};

struct mappings {
	size_t page_size, count;
	bool counts_losses; /* the kernel does (6.0); else it tells with the next message that has room, if one comes */
	struct processor *processor;
	unsigned char *message; /* one that goes around the ring's end */
};

/* Behind every message, with sample_id_all. */
struct trailer {
	uint32_t process, thread;
	uint64_t ns;
};

static int open_one(struct mappings *mappings, int number)
{
	struct perf_event_attr attributes = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attributes),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.exclude_kernel = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.read_format = mappings->counts_losses ? PERF_FORMAT_LOST : 0,
	};
	struct processor *processor = &mappings->processor[mappings->count];
	void *memory;

	processor->event = (int)syscall(SYS_perf_event_open, &attributes, -1, number, -1,
					PERF_FLAG_FD_CLOEXEC);
	if (processor->event < 0 && errno == EINVAL && mappings->counts_losses &&
	    !mappings->count) {
		mappings->counts_losses = false;
		return open_one(mappings, number);
	}
	if (processor->event < 0)
		return -errno;
	memory = mmap(NULL, (PAGES + 1) * mappings->page_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		      processor->event, 0);
	if (memory == MAP_FAILED) {
		int r = -errno;

		close(processor->event);
		return r;
	}
	processor->page = memory;
	mappings->count++;
	return 0;
}

int mappings_open(struct mappings **ret_mappings)
{
	long processors = sysconf(_SC_NPROCESSORS_CONF);
	struct mappings *mappings = calloc(1, sizeof(*mappings));
	int r = -ENOMEM;

	if (!mappings)
		return -ENOMEM;
	mappings->page_size = (size_t)sysconf(_SC_PAGESIZE);
	mappings->counts_losses = true;
	mappings->processor = calloc((size_t)processors, sizeof(*mappings->processor));
	mappings->message = malloc(MESSAGE_LIMIT);
	if (mappings->processor && mappings->message) {
		for (int i = 0; i < processors; i++) {
			r = open_one(mappings, i);
			if (r && r != -ENODEV) /* a processor that is off */
				break;
			r = 0;
		}
	}
	if (!r && !mappings->count)
		r = -ENODEV;
	if (r) {
		mappings_done(mappings);
		return r;
	}
	*ret_mappings = mappings;
	return 0;
}

void mappings_done(struct mappings *mappings)
{
	if (!mappings)
		return;
	for (size_t i = 0; i < mappings->count; i++) {
		munmap(mappings->processor[i].page, (PAGES + 1) * mappings->page_size);
		close(mappings->processor[i].event);
	}
	free(mappings->processor);
	free(mappings->message);
	free(mappings);
}

struct drain {
	struct places *places;
	void (*each)(pid_t process, const struct place *place, void *data);
	void *data;
	bool counts_losses;
	uint64_t lost;
};

struct mapping_message {
	struct perf_event_header header;
	uint32_t process, thread;
	uint64_t start, length, offset;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint32_t protection, flags;
	char path[];
};

static void take_mapping(struct drain *drain, const struct mapping_message *message, size_t size,
			 uint64_t ns)
{
	size_t room = size - sizeof(*message);
	struct place place = {
		.since_ns = ns,
		.start = message->start,
		.end = message->start + message->length,
		.offset = message->offset,
		.device = makedev(message->major, message->minor),
		.inode = message->inode,
		.path = (char *)message->path,
	};
	size_t length = strnlen(message->path, room);

	if (!place.inode) /* "//anon", "[vdso]" */
		length = 0;
	/* Without room for it nobody knows later what stood there; a library is found all the same. */
	if (places_map(drain->places, (pid_t)message->process, &place, length))
		drain->lost++;
	if (!drain->each || length == room)
		return;
	if (!length)
		place.path = "";
	drain->each((pid_t)message->process, &place, drain->data);
}

static void take(struct drain *drain, const struct perf_event_header *header)
{
	const struct trailer *trailer =
		(const void *)((const char *)header + header->size - sizeof(*trailer));
	size_t size = header->size - sizeof(*trailer);
	const uint32_t *ids = (const void *)(header + 1); /* process, parent, thread, ... */

	if (header->size < sizeof(*header) + sizeof(*trailer))
		return;
	switch (header->type) {
	case PERF_RECORD_MMAP2:
		if (size > sizeof(struct mapping_message))
			take_mapping(drain, (const void *)header, size, trailer->ns);
		break;
	case PERF_RECORD_FORK:
		if (size >= sizeof(*header) + 24)
			places_fork(drain->places, (pid_t)ids[0], (pid_t)ids[1], trailer->ns);
		break;
	case PERF_RECORD_COMM:
		if (header->misc & PERF_RECORD_MISC_COMM_EXEC)
			places_exec(drain->places, (pid_t)ids[0], trailer->ns);
		break;
	case PERF_RECORD_LOST:
		if (size >= sizeof(*header) + 16 && !drain->counts_losses)
			drain->lost += ((const uint64_t *)(header + 1))[1];
		break;
	default:
		break;
	}
}

/* A ring that was never full has lost nothing. */
static void count_losses(struct processor *processor, size_t used, size_t size, struct drain *drain)
{
	uint64_t counts[2]; /* of events, which are none; of lost messages */

	if (!drain->counts_losses || used < size - MESSAGE_LIMIT ||
	    read(processor->event, counts, sizeof(counts)) != sizeof(counts))
		return;
	drain->lost += counts[1] - processor->lost;
	processor->lost = counts[1];
}

static void drain_one(struct mappings *mappings, struct processor *processor, struct drain *drain)
{
	const unsigned char *ring = (unsigned char *)processor->page + mappings->page_size;
	size_t size = PAGES * mappings->page_size;
	/* Pairs with the kernel's release of the head: what lies before it is written. */
	uint64_t head = __atomic_load_n(&processor->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = processor->page->data_tail, used = head - tail;

	while (tail < head) {
		size_t at = tail % size;
		const struct perf_event_header *header = (const void *)(ring + at);
		size_t length = header->size, first = size - at;

		if (length < sizeof(*header))
			break;
		if (first < length) {
			memcpy(mappings->message, ring + at, first);
			memcpy(mappings->message + first, ring, length - first);
			header = (const void *)mappings->message;
		}
		take(drain, header);
		tail += length;
	}
	/* Pairs with the kernel's load: it writes there only once all has been read. */
	__atomic_store_n(&processor->page->data_tail, tail, __ATOMIC_RELEASE);
	count_losses(processor, used, size, drain);
}

uint64_t mappings_drain(struct mappings *mappings, struct places *places,
			void (*each)(pid_t process, const struct place *place, void *data),
			void *data)
{
	struct drain drain = {
		.places = places,
		.each = each,
		.data = data,
		.counts_losses = mappings->counts_losses,
	};

	for (size_t i = 0; i < mappings->count; i++)
		drain_one(mappings, &mappings->processor[i], &drain);
	return drain.lost;
}
