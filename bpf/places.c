// SPDX-License-Identifier: MIT
/* Mappings of processes by time: a table of histories by process id. */
#include "places.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "alive.h"

enum {
	BUCKETS = 4096,
	PLACES_OF_ONE = 16384, /* of one process: what maps code again and again is cut off there */
	GENERATIONS = 32,      /* of forks that are followed back */
};

/* A begin of a process: `parent` 0: a program was started. */
struct begin {
	uint64_t ns;
	pid_t parent;
};

struct history {
	struct history *next;
	pid_t process;
	struct begin *begin;
	size_t begins;
	struct place *place; /* in the order of coming */
	size_t places;
};

struct places {
	struct history *bucket[BUCKETS];
	uint64_t changes;
};

struct places *places_new(void)
{
	return calloc(1, sizeof(struct places));
}

static void free_history(struct history *history)
{
	for (size_t i = 0; i < history->places; i++)
		free(history->place[i].path);
	free(history->place);
	free(history->begin);
	free(history);
}

void places_done(struct places *places)
{
	if (!places)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		while (places->bucket[i]) {
			struct history *history = places->bucket[i];

			places->bucket[i] = history->next;
			free_history(history);
		}
	}
	free(places);
}

static struct history *find(const struct places *places, pid_t process)
{
	struct history *history = places->bucket[(unsigned int)process % BUCKETS];

	while (history && history->process != process)
		history = history->next;
	return history;
}

static struct history *take(struct places *places, pid_t process)
{
	struct history *history = find(places, process);

	if (history)
		return history;
	history = calloc(1, sizeof(*history));
	if (!history)
		return NULL;
	history->process = process;
	history->next = places->bucket[(unsigned int)process % BUCKETS];
	places->bucket[(unsigned int)process % BUCKETS] = history;
	return history;
}

/* Room for one more in an array that doubles. */
static int grow(void **array, size_t count, size_t size)
{
	void *grown;

	if (count & (count - 1))
		return 0;
	grown = reallocarray(*array, count ? count * 2 : 1, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	return 0;
}

static int add_begin(struct places *places, pid_t process, pid_t parent, uint64_t ns)
{
	struct history *history = take(places, process);

	if (!history || grow((void **)&history->begin, history->begins, sizeof(*history->begin)))
		return -ENOMEM;
	history->begin[history->begins++] = (struct begin){ns, parent};
	places->changes++;
	return 0;
}

int places_fork(struct places *places, pid_t process, pid_t parent, uint64_t ns)
{
	return parent == process ? 0 : add_begin(places, process, parent, ns);
}

int places_exec(struct places *places, pid_t process, uint64_t ns)
{
	return add_begin(places, process, 0, ns);
}

/* The last begin up to that time, NULL: none known. */
static const struct begin *begin_of(const struct history *history, uint64_t when_ns)
{
	const struct begin *last = NULL;

	for (size_t i = 0; i < history->begins; i++) {
		const struct begin *begin = &history->begin[i];

		if (begin->ns <= when_ns && (!last || begin->ns >= last->ns))
			last = begin;
	}
	return last;
}

int places_map(struct places *places, pid_t process, const struct place *place, size_t length)
{
	struct history *history = take(places, process);
	const struct begin *begin;
	struct place *new;

	if (!history)
		return -ENOMEM;
	begin = begin_of(history, place->since_ns);
	/* A library's parts come one by one, and are told again when their rights change. */
	for (size_t i = history->places; i > 0 && i + 8 > history->places; i--) {
		const struct place *old = &history->place[i - 1];

		if (old->start == place->start && old->end == place->end &&
		    old->inode == place->inode && old->device == place->device &&
		    old->offset == place->offset && old->since_ns <= place->since_ns &&
		    (!begin || old->since_ns >= begin->ns))
			return 0;
	}
	if (history->places >= PLACES_OF_ONE)
		return -ENOSPC;
	if (grow((void **)&history->place, history->places, sizeof(*history->place)))
		return -ENOMEM;
	new = &history->place[history->places];
	*new = *place;
	new->path = strndup(place->path, length);
	if (!new->path)
		return -ENOMEM;
	history->places++;
	places->changes++;
	return 0;
}

static const struct place *newest(const struct history *history, uint64_t address, uint64_t from_ns,
				  uint64_t when_ns)
{
	const struct place *found = NULL;

	for (size_t i = 0; i < history->places; i++) {
		const struct place *place = &history->place[i];

		if (address >= place->start && address < place->end && place->since_ns >= from_ns &&
		    place->since_ns <= when_ns && (!found || place->since_ns >= found->since_ns))
			found = place;
	}
	return found;
}

const struct place *places_find(const struct places *places, pid_t process, uint64_t address,
				uint64_t when_ns)
{
	for (int generation = 0; generation < GENERATIONS; generation++) {
		const struct history *history = find(places, process);
		const struct begin *begin = history ? begin_of(history, when_ns) : NULL;
		const struct place *place;

		if (!history)
			return NULL;
		place = newest(history, address, begin ? begin->ns : 0, when_ns);
		if (place || !begin || !begin->parent)
			return place;
		process = begin->parent;
		when_ns = begin->ns;
	}
	return NULL;
}

bool places_any(const struct places *places, pid_t process, uint64_t when_ns,
		bool (*test)(const struct place *place, void *data), void *data)
{
	for (int generation = 0; generation < GENERATIONS; generation++) {
		const struct history *history = find(places, process);
		const struct begin *begin = history ? begin_of(history, when_ns) : NULL;

		for (size_t i = 0; history && i < history->places; i++) {
			const struct place *place = &history->place[i];

			if (place->since_ns <= when_ns &&
			    (!begin || place->since_ns >= begin->ns) && test(place, data))
				return true;
		}
		if (!begin || !begin->parent)
			return false;
		process = begin->parent;
		when_ns = begin->ns;
	}
	return false;
}

const char *places_program(const struct places *places, pid_t process, uint64_t when_ns)
{
	for (int generation = 0; generation < GENERATIONS; generation++) {
		const struct history *history = find(places, process);
		const struct begin *begin = history ? begin_of(history, when_ns) : NULL;
		const struct place *first = NULL;

		if (!begin)
			return NULL;
		if (begin->parent) {
			process = begin->parent;
			when_ns = begin->ns;
			continue;
		}
		for (size_t i = 0; i < history->places; i++) {
			const struct place *place = &history->place[i];

			if (place->since_ns >= begin->ns && place->since_ns <= when_ns &&
			    place->inode && (!first || place->since_ns < first->since_ns))
				first = place;
		}
		return first ? first->path : NULL;
	}
	return NULL;
}

/* Lines of the file, or -errno. */
static int read_maps(pid_t thread, bool (*each)(const struct place *place, void *data), void *data,
		     bool *ret_stopped)
{
	char path[64], *line = NULL;
	size_t room = 0;
	int lines = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", thread);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (!*ret_stopped && getline(&line, &room, file) > 0) {
		struct place place = {0};
		unsigned int major, minor;
		uint64_t inode;
		char mode[8];
		int at = 0;

		lines++;
		/* The path is the rest of the line, blanks and all; a newline in it is \012 there. */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n",
			   &place.start, &place.end, mode, &place.offset, &major, &minor, &inode,
			   &at) < 7 ||
		    mode[2] != 'x')
			continue;
		place.device = makedev(major, minor);
		place.inode = inode;
		line[strcspn(line, "\n")] = 0;
		place.path = at && inode ? line + at : "";
		*ret_stopped = each(&place, data);
	}
	free(line);
	fclose(file);
	return lines;
}

int places_read(pid_t process, bool (*each)(const struct place *place, void *data), void *data)
{
	bool is_stopped = false;
	int r = read_maps(process, each, data, &is_stopped);

	if (!r) {
		/* Its first thread has ended; or it has no memory, as those of the kernel. */
		pid_t speaker = alive_thread(process);

		if (speaker && speaker != process)
			r = read_maps(speaker, each, data, &is_stopped);
	}
	return r < 0 ? r : is_stopped;
}

struct scan {
	struct places *places;
	pid_t process;
	uint64_t since_ns;
	void (*each)(pid_t process, const struct place *place, void *data);
	void *data;
};

static bool scan_place(const struct place *found, void *data)
{
	const struct scan *scan = data;
	struct place place = *found;
	const struct place *known =
		places_find(scan->places, scan->process, place.start, UINT64_MAX);

	if (known && known->end == place.end && known->inode == place.inode)
		return false;
	place.since_ns = scan->since_ns;
	if (!places_map(scan->places, scan->process, &place, strlen(place.path)) && scan->each)
		scan->each(scan->process, &place, scan->data);
	return false;
}

int places_scan(struct places *places, pid_t process,
		void (*each)(pid_t process, const struct place *place, void *data), void *data)
{
	const struct history *history = find(places, process);
	const struct begin *begin = history ? begin_of(history, UINT64_MAX) : NULL;
	struct scan scan = {places, process, begin ? begin->ns : 0, each, data};

	return places_read(process, scan_place, &scan);
}

void places_prune(struct places *places, bool (*keep)(pid_t process, void *data), void *data)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		struct history **at = &places->bucket[i];

		while (*at) {
			struct history *history = *at;

			if (keep(history->process, data)) {
				at = &history->next;
				continue;
			}
			*at = history->next;
			free_history(history);
			places->changes++;
		}
	}
}

uint64_t places_changes(const struct places *places)
{
	return places->changes;
}
