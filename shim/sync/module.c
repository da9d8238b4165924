// SPDX-License-Identifier: MIT
/*
 * Loaded modules (module.h). Called by site.c under its lock, and module_generation() by python.c.
 *
 * dl_iterate_phdr() takes the loader's list lock, which is held only while the list changes, never
 * while constructors run (that is another lock). We hold our own lock meanwhile, but nobody waits
 * for ours without end (site.c gives up), so the two cannot deadlock.
 */
#include "sync/module.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "emit/emit.h"
#include "sync/image.h"

static int read_counters(struct dl_phdr_info *info, size_t size, void *data)
{
	uint64_t *generation = data;

	/* Both counters only grow. Loads get the high half so that a load and an unload never
	 * cancel out. */
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
		*generation = (uint64_t)info->dlpi_adds << 32 ^ (uint64_t)info->dlpi_subs;
	return 1;
}

uint64_t module_generation(void)
{
	uint64_t generation = 0;

	dl_iterate_phdr(read_counters, &generation);
	return generation ? generation : 1;
}

static uint64_t hash_text(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

/* The file's path as a string id: what the loader says, made absolute. */
static uint32_t path_id(const char *name, bool is_program)
{
	char path[4096 + 256];
	size_t length = 0, name_length = strlen(name);

	if (is_program) {
		ssize_t got = readlink("/proc/self/exe", path, sizeof(path));

		return got > 0 ? emit_string(path, (size_t)got) : 0;
	}
	if (*name == '/')
		return emit_string(name, name_length);
	if (!strchr(name, '/')) /* the vdso has a name but no file */
		return emit_string("[vdso]", 6);
	/* Relative when it was loaded: right as long as the program has not changed its folder
	 * since. */
	if (getcwd(path, 4096)) {
		length = strlen(path);
		path[length++] = '/';
	}
	if (name_length > sizeof(path) - length)
		name_length = sizeof(path) - length;
	memcpy(path + length, name, name_length);
	return emit_string(path, length + name_length);
}

static uint32_t make_record(struct module_table *table, struct module_known *known,
			    const char *name, bool is_program)
{
	struct record_module *record;

	record = emit_reserve(sizeof(*record));
	if (!record)
		return 0;
	record->id = table->known_count + 1;
	record->path = known->path = path_id(name, is_program);
	record->base = known->base;
	record->build_id_length = known->build_id_length;
	memcpy(record->build_id, known->build_id, known->build_id_length);
	emit_publish(record, RECORD_MODULE);
	return record->id;
}

struct scan {
	struct module_table *table;
	bool full;
};

static int add_image(struct dl_phdr_info *info, size_t size, void *data)
{
	struct scan *scan = data;
	struct module_table *table = scan->table;
	struct module_known known = {.base = info->dlpi_addr};
	struct module_range range;
	bool is_program = !table->live_count && !*info->dlpi_name;
	uint32_t i;

	image_extent(info, &range.start, &range.end);
	if (!range.end)
		return 0;
	if (table->live_count == MODULE_LIVE_MAX || table->known_count == MODULE_KNOWN_MAX) {
		scan->full = true;
		return 1;
	}
	known.path_hash = hash_text(info->dlpi_name);
	known.build_id_length = image_build_id(info, known.build_id);
	for (i = 0; i < table->known_count; i++) {
		if (!memcmp(&table->known[i], &known, offsetof(struct module_known, id)))
			break;
	}
	if (i == table->known_count) {
		known.id = make_record(table, &known, info->dlpi_name, is_program);
		if (!known.id)
			return 0; /* dropped and counted by emit; its frames stay absolute */
		table->known[table->known_count++] = known;
	}
	range.base = known.base;
	range.frames = image_frames(info);
	range.id = table->known[i].id;
	/* Sorted by address: the loader's order nearly is, so that little moves. */
	for (i = table->live_count; i > 0 && table->live[i - 1].start > range.start; i--)
		;
	memmove(&table->live[i + 1], &table->live[i],
		(table->live_count - i) * sizeof(table->live[0]));
	table->live[i] = range;
	table->live_count++;
	return 0;
}

void module_scan(struct module_table *table, uint64_t generation)
{
	struct scan scan = {.table = table};

	if (table->generation == generation)
		return;
	table->live_count = 0;
	dl_iterate_phdr(add_image, &scan);
	/* Loaded since `generation` was taken: scanned too, and once more next time. */
	table->generation = generation;
	if (scan.full)
		emit_note(NOTE_LOST, "modules: too many loaded");
}

const struct module_range *module_range_find(const struct module_table *table, uint64_t address)
{
	uint32_t low = 0, high = table->live_count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (table->live[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < table->live_count && table->live[low].start <= address ? &table->live[low]
									    : NULL;
}

uint32_t module_find(const struct module_table *table, uint64_t address, uint64_t *ret_offset)
{
	const struct module_range *range = module_range_find(table, address);

	*ret_offset = range ? address - range->base : address;
	return range ? range->id : 0;
}
