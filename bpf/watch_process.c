// SPDX-License-Identifier: MIT
/* Processes seen, and whose call a return address tells. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "alive.h"
#include "watch_internal.h"

#define SCAN_NS UINT64_C(50000000)
#define FIND_NS UINT64_C(500000000) /* every process of the machine */

struct process *process_find(const struct watch *watch, pid_t id)
{
	struct process *process = watch->bucket[(unsigned int)id % PROCESS_BUCKETS];

	/* An id that is used again means the later one. */
	while (process && process->public.id != id)
		process = process->older;
	return process;
}

static void name_program(const struct watch *watch, struct process *process, uint64_t when_ns,
			 const char *name)
{
	const struct process *parent = process_find(watch, process->public.parent);
	pid_t id = process->public.id, speaker;
	char link[64], path[4096];
	const char *program = name;
	ssize_t length;

	/* One that has ended already: by its mappings; or it is still what its parent was. */
	if (places_program(watch->places, process->public.id, when_ns))
		program = places_program(watch->places, process->public.id, when_ns);
	else if (!process->public.program && parent && parent->public.program)
		program = parent->public.program;
	snprintf(link, sizeof(link), "/proc/%d/exe", id);
	length = readlink(link, path, sizeof(path) - 1);
	speaker = length < 0 ? alive_thread(id) : 0;
	if (speaker && speaker != id) {
		snprintf(link, sizeof(link), "/proc/%d/exe", speaker);
		length = readlink(link, path, sizeof(path) - 1);
	}
	if (length > 0) {
		path[length] = 0;
		program = path;
	}
	program = strdup(program ? program : ""); /* it may be the one that is there */
	free((char *)process->public.program);
	process->public.program = program;
}

struct process *process_new(struct watch *watch, pid_t id, pid_t parent, uint64_t since_ns,
			    const char *name)
{
	struct process *process = calloc(1, sizeof(*process)), **grown;

	if (!process)
		return NULL;
	grown = reallocarray(watch->process, watch->processes + 1, sizeof(struct process *));
	if (!grown) {
		free(process);
		return NULL;
	}
	watch->process = grown;
	watch->process[watch->processes++] = process;
	watch->alive++;
	process->public = (struct watch_process){.id = id, .parent = parent, .since_ns = since_ns};
	process->older = watch->bucket[(unsigned int)id % PROCESS_BUCKETS];
	watch->bucket[(unsigned int)id % PROCESS_BUCKETS] = process;
	name_program(watch, process, since_ns, name);
	if (!watch->mappings && parent)
		places_fork(watch->places, id, parent, since_ns);
	return process;
}

void process_end(struct watch *watch, struct process *process, uint64_t ns)
{
	if (!process || process->public.ended_ns)
		return;
	process->public.ended_ns = ns;
	watch->alive--;
}

void process_note(pid_t id, const struct place *place, void *data)
{
	struct watch *watch = data;
	struct pending *grown, new = {id, *place};

	if (id == getpid()) {
		if (place->start == watch->own_address)
			watch->own = (struct identity){place->device, place->inode};
		return;
	}
	if (!library_is_named(watch, place))
		return;
	grown = reallocarray(watch->pending, watch->pendings + 1, sizeof(*grown));
	if (grown)
		watch->pending = grown;
	new.place.path = grown ? strdup(place->path) : NULL;
	if (new.place.path)
		watch->pending[watch->pendings++] = new;
	else
		watch->lost_mappings++;
}

void process_scan_all(struct watch *watch)
{
	uint64_t now = watch_now_ns();

	if (now - watch->scanned_ns < SCAN_NS)
		return;
	watch->scanned_ns = now;
	watch->must_scan = false;
	if (watch->options.all && now - watch->found_ns > FIND_NS) {
		roots_find(watch);
		watch->found_ns = watch_now_ns();
	}
	for (size_t i = 0; i < watch->processes; i++) {
		if (!watch->process[i]->public.ended_ns)
			(void)places_scan(watch->places, watch->process[i]->public.id, process_note,
					  watch);
	}
}

void process_look_at(struct watch *watch)
{
	/* Looking at one may read more messages, which note more. */
	for (size_t i = 0; i < watch->pendings; i++) {
		struct pending pending = watch->pending[i];

		if (watch->options.all || process_find(watch, pending.process))
			library_consider(watch, pending.process, &pending.place);
		free(pending.place.path);
	}
	watch->pendings = 0;
}

/* Mappings that came before the process was known to be watched. */
static bool note_known(const struct place *place, void *data)
{
	const struct {
		struct watch *watch;
		pid_t id;
	} *of = data;

	process_note(of->id, place, of->watch);
	return false;
}

/* Its messages may have been read before the record that it is watched. */
static void look_at_known(struct watch *watch, pid_t id)
{
	struct {
		struct watch *watch;
		pid_t id;
	} of = {watch, id};

	(void)places_any(watch->places, id, UINT64_MAX, note_known, &of);
	process_look_at(watch);
}

int process_look(struct watch *watch, pid_t id)
{
	int r;

	look_at_known(watch, id);
	r = places_scan(watch->places, id, process_note, watch);
	process_look_at(watch);
	return r;
}

void process_take(struct watch *watch, const struct process_record *record)
{
	struct process *process = process_find(watch, (pid_t)record->process);
	char name[sizeof(record->name) + 1] = "";

	memcpy(name, record->name, sizeof(record->name));
	switch (record->kind) {
	case RECORD_FORK:
	case RECORD_FIRST:
		process_end(watch, process,
			    record->ns); /* the last of that id, if its end was lost */
		process = process_new(watch, (pid_t)record->process, (pid_t)record->other,
				      record->ns, name);
		if (process && record->kind == RECORD_FIRST)
			(void)process_look(watch, process->public.id);
		else if (process)
			look_at_known(watch, process->public.id);
		break;
	case RECORD_EXEC:
		if (!process)
			break;
		if (!watch->mappings)
			places_exec(watch->places, process->public.id, record->ns);
		name_program(watch, process, record->ns, name);
		(void)process_look(watch, process->public.id);
		break;
	case RECORD_EXIT:
		process_end(watch, process, record->ns);
		break;
	default:
		break;
	}
}

static void look_again(struct watch *watch, struct process *process)
{
	name_program(watch, process, UINT64_MAX, process->public.program);
	(void)process_look(watch, process->public.id);
}

void process_resync(struct watch *watch)
{
	int map = bpf_map__fd(watch->skeleton->maps.watched);
	__u32 key, *previous = NULL;
	struct watched watched;

	while (!bpf_map_get_next_key(map, previous, &key)) {
		struct process *process = process_find(watch, (pid_t)key);

		previous = &key;
		if (bpf_map_lookup_elem(map, &key, &watched))
			continue;
		if (!process ||
		    (process->public.ended_ns && process->public.ended_ns < watched.since_ns))
			process = process_new(watch, (pid_t)key, 0, watched.since_ns, NULL);
		if (watched.ended_ns)
			process_end(watch, process, watched.ended_ns);
		/* What it has mapped, and what program it runs, was told while nobody knew it, or by records that were lost. */
		else if (process)
			look_again(watch, process);
	}
}

/* Whose mappings are kept: of all that were watched, since addresses of ended ones are asked for too; with `all` of whoever lives. */
static bool keep(pid_t id, void *data)
{
	struct watch *watch = data;
	struct process *process = process_find(watch, id);

	if (process)
		return true;
	return watch->options.all && (!kill(id, 0) || errno == EPERM);
}

/* What has ended makes room in the kernel's table, and what nobody watches is forgotten. */
void process_prune(struct watch *watch)
{
	int map = bpf_map__fd(watch->skeleton->maps.watched);

	places_prune(watch->places, keep, watch);
	for (size_t i = 0; i < watch->processes; i++) {
		struct process *process = watch->process[i];
		__u32 key = (__u32)process->public.id;
		struct watched watched;

		if (!process->public.ended_ns || process->forgotten)
			continue;
		process->forgotten = true;
		/* Its entry may be that of another of the same id by now. */
		if (!bpf_map_lookup_elem(map, &key, &watched) && watched.ended_ns)
			bpf_map_delete_elem(map, &key);
	}
}

static bool is_shim(const struct place *place, void *data)
{
	const struct watch *watch = data;

	return shim_find(watch, place->device, place->inode) != NULL;
}

static bool is_library(const struct watch *watch, const struct place *place)
{
	for (size_t i = 0; i < watch->libraries; i++) {
		if (identity_matches(&watch->library[i].identity, place->device, place->inode))
			return true;
	}
	return false;
}

/* A compiler's .part, .cold or .isra piece belongs to its function. */
static int covers(const struct image_function *function, void *name)
{
	size_t length = strcspn(function->name, ".");

	return strlen(name) == length && !strncmp(function->name, name, length);
}

static uint8_t whose(struct watch *watch, uint32_t function, uint64_t address,
		     const struct place *place)
{
	const struct shim *shim;
	uint64_t offset;

	if (!place)
		return WATCH_BY_UNKNOWN;
	if (is_library(watch, place))
		return WATCH_BY_LIBRARY;
	shim = shim_find(watch, place->device, place->inode);
	if (!shim)
		return WATCH_BY_PROGRAM;
	if (!shim->is_read)
		return WATCH_BY_UNKNOWN;
	offset = address - place->start + place->offset;
	return image_cover(&shim->image, offset, covers, (char *)watch_functions[function].name)
		       ? WATCH_BY_WRAPPER
		       : WATCH_BY_SHIM;
}

void process_whose(struct watch *watch, pid_t id, uint32_t function, uint64_t return_address,
		   uint64_t when_ns, uint8_t *ret_by, bool *ret_shim)
{
	uint64_t changes = places_changes(watch->places);
	uint64_t mixed = (return_address ^ (uint64_t)id * 31 ^ (uint64_t)function << 3) *
			 UINT64_C(0x9e3779b97f4a7c15);
	struct answer *answer = &watch->answer[mixed >> 54];
	const struct place *place;

	if (answer->process != id || answer->function != function || answer->changes != changes ||
	    answer->return_address != return_address) {
		/* The call ends just before the return address; the next byte may be another's. */
		place = places_find(watch->places, id, return_address - 1, when_ns);
		/* Told since the last look; or never, and it still lives. */
		if (!place && watch->mappings) {
			watch->lost_mappings +=
				mappings_drain(watch->mappings, watch->places, process_note, watch);
			place = places_find(watch->places, id, return_address - 1, when_ns);
		}
		if (!place && places_scan(watch->places, id, process_note, watch) == 0)
			place = places_find(watch->places, id, return_address - 1, when_ns);
		*answer = (struct answer){
			.process = id,
			.function = function,
			.return_address = return_address,
			.by = whose(watch, function, return_address - 1, place),
			.shim = places_any(watch->places, id, when_ns, is_shim, watch),
			.changes = places_changes(watch->places),
		};
	}
	*ret_by = answer->by;
	*ret_shim = answer->shim;
}

const struct watch_process *watch_process_of(struct watch *watch, pid_t id)
{
	struct process *process = process_find(watch, id);

	if (!process)
		return NULL;
	if (!process->public.shim)
		process->public.shim = places_any(watch->places, id, UINT64_MAX, is_shim, watch);
	return &process->public;
}

const struct watch_process *watch_process_at(struct watch *watch, size_t index)
{
	struct process *process = index < watch->processes ? watch->process[index] : NULL;

	if (process && !process->public.shim)
		process->public.shim =
			places_any(watch->places, process->public.id,
				   process->public.ended_ns ? process->public.ended_ns : UINT64_MAX,
				   is_shim, watch);
	return process ? &process->public : NULL;
}

int watch_place_of(struct watch *watch, pid_t process, uint64_t address, uint64_t when_ns,
		   struct watch_place *ret_place)
{
	const struct place *place = places_find(watch->places, process, address, when_ns);

	if (!place)
		return -ENOENT;
	*ret_place = (struct watch_place){
		.path = place->path,
		.device = place->device,
		.inode = place->inode,
		.start = place->start,
		.end = place->end,
		.offset = address - place->start + place->offset,
	};
	return 0;
}
