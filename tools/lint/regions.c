// SPDX-License-Identifier: MIT
/*
 * Lint, regions: what the record files say of each region, merged over processes by its path, and whether a name means it. Called by lint.c before
 * anything is judged, by collect.c and remarks.c for the paths, by budget.c and results.c.
 *
 * A path has the names from the outermost region to the innermost, joined by a character that no one types: names may have slashes.
 */
#include <fnmatch.h>

#include "lint/config.h"
#include "lint/lint.h"
#include "memory.h"
#include "report_order.h"
#include "sum.h"

#define JOINT '\x1f'
/* The library goes no further in either; but a record may be hostile, and its parents go in circles. */
#define DEPTH_MAX  40
#define LENGTH_MAX 64

struct path {
	const struct record_file *file;
	uint32_t id;
	const char *text;
};

static const struct record_region *region_of(const struct record_file *file, uint32_t id)
{
	return (const void *)record_find(&file->regions, id);
}

static bool has_figures(const struct record_region *region)
{
	return region->head.size >= sizeof(*region);
}

static char *make_path(const struct record_file *file, uint32_t id)
{
	char *path = memory_copy("");

	for (unsigned int depth = 0; id && depth < DEPTH_MAX; depth++) {
		const struct record_region *region = region_of(file, id);
		const char *name = region ? record_string_text(file, region->name) : NULL;
		char *longer;

		if (!name)
			break;
		longer = memory_format("%.*s%s%s", LENGTH_MAX, name,
				       *path ? (char[]){JOINT, '\0'} : "", path);
		free(path);
		path = longer;
		id = has_figures(region) ? region->parent : 0;
	}
	return path;
}

static int place_identity(const void *left, const void *right)
{
	const struct path *l = left, *r = right;
	int order = (l->file > r->file) - (l->file < r->file);

	return order ? order : (l->id > r->id) - (l->id < r->id);
}

const char *lint_region_path(struct lint *lint, const struct record_file *file, uint32_t id)
{
	struct path key = {.file = file, .id = id}, *path;

	if (!id)
		return "";
	path = report_list_find_or_add(&lint->paths, &key, sizeof(key), place_identity);
	if (!path->text) {
		char *text = make_path(file, id);

		report_text_list_add(&lint->texts, text);
		path->text = text;
	}
	return path->text;
}

bool lint_region_fits(const char *pattern, const char *path)
{
	while (*path) {
		size_t length = strcspn(path, (char[]){JOINT, '\0'});
		_cleanup_free_ char *name = memory_check(strndup(path, length));

		if (*name && !fnmatch(pattern, name, 0))
			return true;
		path += length;
		path += *path == JOINT;
	}
	return false;
}

static const char *innermost(const char *path)
{
	const char *last = strrchr(path, JOINT);

	return last ? last + 1 : path;
}

bool lint_region_is_named(const char *pattern, const char *path)
{
	return *path && !fnmatch(pattern, innermost(path), 0);
}

char *lint_region_words(const char *path)
{
	char *words = memory_copy(path);

	for (char *c = words; *c; c++)
		if (*c == JOINT)
			*c = '/';
	return words;
}

/* ---- figures ---- */

static int path_identity(const void *left, const void *right)
{
	return strcmp(((const struct lint_region *)left)->path,
		      ((const struct lint_region *)right)->path);
}

static int path_sort(const void *left, const void *right)
{
	return path_identity(*(void *const *)left, *(void *const *)right);
}

static void raise(struct lint_most *most, uint64_t value, uint64_t entry, uint64_t entries)
{
	if (value > most->value)
		*most = (struct lint_most){.value = value, .entry = entry, .entries = entries};
}

static void add_region(struct lint *lint, const struct record_file *file,
		       const struct record_region *record)
{
	struct lint_region key = {.path = lint_region_path(lint, file, record->id)}, *region;

	region = report_list_find_or_add(&lint->regions, &key, sizeof(key), path_identity);
	if (!has_figures(record)) {
		region->is_uncounted = true;
		return;
	}
	sum_add(&region->entries, record->entries);
	sum_add(&region->waiting, record->waiting);
	raise(&region->implicit, record->implicit, record->implicit_entry, record->entries);
	raise(&region->explicit, record->explicit, record->explicit_entry, record->entries);
	raise(&region->blocked, record->blocked_ns, record->blocked_entry, record->entries);
}

void lint_collect_regions(struct lint *lint)
{
	for (size_t i = 0; i < lint->report->process_count; i++) {
		const struct record_file *file = lint->report->processes[i].file;

		for (size_t k = 0; k < file->regions.count; k++)
			add_region(lint, file, (const void *)file->regions.records[k]);
	}
	report_list_sort(&lint->regions, path_sort);
}

uint64_t lint_region_entries(const struct lint *lint, const char *path, enum lint_per per)
{
	uint64_t entries = 0;

	if (per == LINT_PER_RUN || !*path)
		return 1;
	if (per == LINT_PER_STEP && !lint_region_fits(LINT_STEP, path))
		return 1;
	for (size_t i = 0; i < lint->regions.count; i++) {
		const struct lint_region *region = lint->regions.items[i];

		if (per == LINT_PER_STEP ? lint_region_is_named(LINT_STEP, region->path)
					 : !strcmp(region->path, path))
			sum_add(&entries, region->entries);
	}
	return entries ? entries : 1;
}
