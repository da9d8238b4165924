// SPDX-License-Identifier: MIT
/* Finding traces (trace_find.h). Called by `slipstream report` and slipstream-analyze. */
#include "trace_find.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "memory.h"

#define DEPTH_MAX      16                   /* of folders: LTTng's own trees have 7 levels */
#define METADATA_MAGIC UINT32_C(0x75d11d57) /* of a packet of it; it may also be plain text */
#define METADATA_TEXT  "/* CTF 1.8"

static void add(struct trace_places *places, enum trace_kind kind, const char *path)
{
	places->places = memory_grow(places->places, places->count, &places->capacity,
				     sizeof(places->places[0]));
	places->places[places->count++] =
		(struct trace_place){.kind = kind, .path = memory_copy(path)};
}

static bool is_metadata(const char *folder)
{
	_cleanup_free_ char *path = memory_format("%s/metadata", folder);
	_cleanup_close_ int descriptor =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
	char start[sizeof(METADATA_TEXT) - 1];
	struct stat status;
	uint32_t magic;

	if (descriptor < 0 || fstat(descriptor, &status) < 0 || !S_ISREG(status.st_mode))
		return false;
	if (read(descriptor, start, sizeof(start)) < (ssize_t)sizeof(start))
		return false;
	memcpy(&magic, start, sizeof(magic));
	return magic == METADATA_MAGIC || magic == __builtin_bswap32(METADATA_MAGIC) ||
	       !memcmp(start, METADATA_TEXT, sizeof(start));
}

static void search(const char *folder, int depth, struct trace_places *places)
{
	struct dirent **entries;
	int count;

	if (is_metadata(folder)) {
		add(places, TRACE_CTF, folder);
		return;
	}
	if (!depth)
		return;
	count = scandir(folder, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *path = memory_format("%s/%s", folder, entries[i]->d_name);
		struct stat status;

		if (strcmp(entries[i]->d_name, ".") && strcmp(entries[i]->d_name, "..") &&
		    !lstat(path, &status) && S_ISDIR(status.st_mode))
			search(path, depth - 1, places);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

static bool ends_with(const char *text, const char *tail)
{
	size_t length = strlen(text), tail_length = strlen(tail);

	return length > tail_length && !strcmp(text + length - tail_length, tail);
}

void trace_find(const char *path, struct trace_places *places)
{
	struct stat status;

	if (!strncmp(path, "net://", 6) || !strncmp(path, "net4://", 7) ||
	    !strncmp(path, "net6://", 7)) {
		add(places, TRACE_LIVE, path);
	} else if (!stat(path, &status)) {
		if (S_ISDIR(status.st_mode))
			search(path, DEPTH_MAX, places);
		else if (ends_with(path, ".trace"))
			add(places, TRACE_TEXT, path);
	}
}

void trace_places_done(struct trace_places *places)
{
	for (size_t i = 0; i < places->count; i++)
		free(places->places[i].path);
	free(places->places);
	*places = (struct trace_places){0};
}
