// SPDX-License-Identifier: MIT
/*
 * Who is watched from the beginning: the roots that were named, the children that they have already, and with `all` whoever has a driver
 * library mapped. What comes later is told by the kernel (watch_process.c).
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "alive.h"
#include "watch_internal.h"

static int table_of(const struct watch *watch)
{
	return bpf_map__fd(watch->skeleton->maps.watched);
}

/* The kernel may have passed its end before it was in the table: then nobody else will tell. */
static void end_unseen(struct watch *watch, pid_t id)
{
	struct process *process = process_find(watch, id);
	__u32 key = (__u32)id;
	struct watched watched;

	if (!process)
		return;
	process_end(watch, process, watch_now_ns());
	if (bpf_map_lookup_elem(table_of(watch), &key, &watched) || watched.ended_ns)
		return;
	watched.ended_ns = process->public.ended_ns;
	(void)bpf_map_update_elem(table_of(watch), &key, &watched, BPF_EXIST);
}

/* `flags` BPF_NOEXIST: not if it is watched already. -errno; what its mappings gave is in `ret_look`. */
static int begin(struct watch *watch, pid_t id, pid_t parent, __u64 flags, int *ret_look)
{
	struct watched watched = {.since_ns = watch_now_ns()};
	__u32 key = (__u32)id;
	struct process *process;

	if (bpf_map_update_elem(table_of(watch), &key, &watched, flags))
		return -errno;
	process = process_find(watch, id);
	if (!process || process->public.ended_ns)
		process = process_new(watch, id, parent, watched.since_ns, NULL);
	if (!process) {
		(void)bpf_map_delete_elem(table_of(watch), &key);
		return -ENOMEM;
	}
	*ret_look = process_look(watch, id);
	return 0;
}

static void add_children(struct watch *watch, pid_t id);

static void add_child(struct watch *watch, pid_t id, pid_t parent)
{
	int look;

	/* One that was forked since its parent is watched is there already. */
	(void)begin(watch, id, parent, BPF_NOEXIST, &look);
	add_children(watch, id);
	if (!alive_thread(id))
		end_unseen(watch, id);
}

static void add_children(struct watch *watch, pid_t id)
{
	char path[64 + NAME_MAX];
	struct dirent *entry;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", id);
	threads = opendir(path);
	while (threads && (entry = readdir(threads))) {
		FILE *file;
		int child;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", id, entry->d_name);
		file = fopen(path, "re");
		while (file && fscanf(file, "%d", &child) == 1)
			add_child(watch, child, id);
		if (file)
			fclose(file);
	}
	if (threads)
		closedir(threads);
}

int watch_add(struct watch *watch, pid_t id, struct watch_error *error)
{
	int look = 0, r = -ESRCH;

	if (error)
		*error = (struct watch_error){0};
	if (alive_thread(id))
		r = begin(watch, id, 0, BPF_ANY, &look);
	if (r) {
		if (error) {
			error->number = -r;
			snprintf(error->text, sizeof(error->text), "process %d: %s", id,
				 strerror(-r));
		}
		return r;
	}
	add_children(watch, id);
	if (!alive_thread(id))
		end_unseen(watch, id);
	else if (look == -EACCES || look == -EPERM)
		watch_say(
			watch,
			"process %d: its mappings cannot be read (CAP_SYS_PTRACE is missing): only "
			"libraries known otherwise are watched",
			id);
	return 0;
}

static bool is_driver(const struct place *place, void *watch)
{
	return library_is_driver(watch, place);
}

void roots_find(struct watch *watch)
{
	DIR *entries = opendir("/proc");
	struct dirent *entry;

	while (entries && (entry = readdir(entries))) {
		pid_t id = atoi(entry->d_name);
		const struct process *known = id > 0 ? process_find(watch, id) : NULL;

		if (id <= 0 || id == getpid() || (known && !known->public.ended_ns))
			continue;
		/* One that ends meanwhile, or may not be looked into, is none. */
		if (places_read(id, is_driver, watch) > 0)
			(void)watch_add(watch, id, NULL);
	}
	if (entries)
		closedir(entries);
}

int roots_add(struct watch *watch, const struct watch_options *options, struct watch_error *error)
{
	bool is_alone = options->process_count == 1 && !options->all;
	size_t ended = 0;

	for (size_t i = 0; i < options->process_count; i++) {
		int r = watch_add(watch, options->processes[i], error);

		if (r && (r != -ESRCH || is_alone))
			return r;
		if (!r)
			continue;
		ended++;
		watch_say(watch, "process %d has ended: it is not watched", options->processes[i]);
	}
	if (options->all)
		roots_find(watch);
	else if (ended && ended == options->process_count)
		return -ESRCH;
	if (error)
		*error = (struct watch_error){0};
	return 0;
}
