// SPDX-License-Identifier: MIT
/*
 * Driver libraries: what they are called, and where to probe them. watch_found.c finds them in mappings.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "probe_site.h"
#include "watch_internal.h"

enum { REJECTED_LIMIT = 4096 };

bool identity_matches(const struct file_identity *file, dev_t device, ino_t inode)
{
	for (size_t i = 0; i < file->count; i++) {
		if (file->identity[i].inode == inode && file->identity[i].device == device)
			return true;
	}
	return false;
}

void identity_add(struct file_identity *file, dev_t device, ino_t inode)
{
	if (!inode || file->count == IDENTITIES || identity_matches(file, device, inode))
		return;
	file->identity[file->count++] = (struct identity){device, inode};
}

void identities_note(struct identities *identities, dev_t device, ino_t inode)
{
	struct identity *grown;

	for (size_t i = 0; i < identities->count; i++) {
		if (identities->items[i].inode == inode && identities->items[i].device == device)
			return;
	}
	if (identities->count >= IDENTITIES_LIMIT)
		return;
	grown = reallocarray(identities->items, identities->count + 1, sizeof(*grown));
	if (!grown)
		return;
	identities->items = grown;
	grown[identities->count++] = (struct identity){device, inode};
}

/* What our own mapping at that address is called in /proc/self/maps. */
static void identify_mapping(struct file_identity *file, uint64_t address)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t room = 0;

	if (!maps)
		return;
	while (getline(&line, &room, maps) > 0) {
		unsigned int major, minor;
		uint64_t start, inode;

		if (sscanf(line, "%" SCNx64 "-%*x %*s %*x %x:%x %" SCNu64, &start, &major, &minor,
			   &inode) == 4 &&
		    start == address) {
			identity_add(file, makedev(major, minor), inode);
			break;
		}
	}
	free(line);
	fclose(maps);
}

/* All names of an open file: mapping it tells what mappings are called. */
void identify(struct watch *watch, struct file_identity *file, int descriptor,
	      const struct stat *status)
{
	long page = sysconf(_SC_PAGESIZE);
	void *memory;

	*file = (struct file_identity){0};
	identity_add(file, status->st_dev, status->st_ino);
	/* Executable, since only such mappings are told; where that is not allowed, no process can have
	 * one either. */
	memory = mmap(NULL, (size_t)page, PROT_READ | PROT_EXEC, MAP_PRIVATE, descriptor, 0);
	if (memory == MAP_FAILED)
		return;
	identify_mapping(file, (uint64_t)(uintptr_t)memory);
	if (watch->mappings) {
		watch->own = (struct identity){0};
		watch->own_address = (uint64_t)(uintptr_t)memory;
		watch->lost_mappings +=
			mappings_drain(watch->mappings, watch->places, process_note, watch);
		identity_add(file, watch->own.device, watch->own.inode);
		watch->own_address = 0;
	}
	munmap(memory, (size_t)page);
}

static int by_offset(const void *a, const void *b)
{
	const struct probe *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

/* Which functions of the image are wanted, and where each is probed. */
static int choose(struct watch *watch, struct library *library, const struct image *image)
{
	size_t count = 0, kept = 0;
	struct probe *probe = calloc(image->count ? image->count : 1, sizeof(*probe));

	if (!probe)
		return -ENOMEM;
	for (size_t i = 0; i < image->count; i++) {
		const struct image_function *function = &image->function[i];
		int index = watch_function_index(function->name);
		unsigned char code[16];
		unsigned int skip = 0;
		ssize_t length;

		if (index < 0 || !watch->wanted[index])
			continue;
		length = pread(library->file, code, sizeof(code), (off_t)function->offset);
		probe[count].site =
			(uint8_t)probe_site(code, length > 0 ? (size_t)length : 0, &skip);
		probe[count].offset = function->offset + skip;
		probe[count++].function = (uint32_t)index;
	}
	qsort(probe, count, sizeof(*probe), by_offset);
	for (size_t i = 0; i < count; i++) {
		if (kept && probe[kept - 1].offset == probe[i].offset)
			continue; /* another name of the same function */
		if (probe[i].site == WATCH_SITE_STEPPED) {
			/* Who named the functions wants them. */
			if (watch_functions[probe[i].function].frequent &&
			    !watch->options.stepped && !watch->options.function_count) {
				library->public.skipped++;
				continue;
			}
			library->public.stepped++;
		}
		probe[kept++] = probe[i];
	}
	library->probe = probe;
	library->probes = kept;
	library->public.probed = (uint32_t)kept;
	return 0;
}

static void reject(struct watch *watch, const struct file_identity *identity)
{
	struct file_identity *grown;

	if (watch->rejecteds >= REJECTED_LIMIT)
		return;
	grown = reallocarray(watch->rejected, watch->rejecteds + 1, sizeof(*grown));
	if (!grown)
		return;
	watch->rejected = grown;
	watch->rejected[watch->rejecteds++] = *identity;
}

/* A path as a line shows it: what it has of control characters does not reach a terminal. */
static char *shown(const char *path)
{
	char *copy = strdup(path);

	for (char *at = copy; at && *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	}
	return copy;
}

static void say_sites(const struct watch *watch, const struct library *library)
{
	if (library->public.stepped)
		watch_say(
			watch,
			"%s: %u of %u functions begin with an instruction that is single-stepped: "
			"each call costs some 12 us there, 2 us elsewhere",
			library->public.path, library->public.stepped, library->public.probed);
	if (library->public.skipped)
		watch_say(
			watch,
			"%s: %u such functions are called often and are not watched; name them to "
			"watch them",
			library->public.path, library->public.skipped);
}

static int attach(struct watch *watch, struct library *library, struct watch_error *error)
{
	int r = attach_probes(watch, library->file, library->probe, library->probes, error);
	size_t kept;

	if (!r || r == -EPERM || r == -EACCES || r == -ENOMEM)
		return r;
	kept = attach_sieve(watch, library->file, library->probe, library->probes);
	if (!kept || kept == library->probes)
		return r;
	watch_say(watch,
		  "%s: functions that the kernel refuses to probe, and which are not watched: %zu",
		  library->public.path, library->probes - kept);
	watch->unwatched_functions += library->probes - kept;
	library->probes = kept;
	library->public.probed = (uint32_t)kept;
	r = attach_probes(watch, library->file, library->probe, library->probes, error);
	if (!r && error)
		*error = (struct watch_error){0};
	return r;
}

int library_add(struct watch *watch, int file, const char *path, struct watch_error *error)
{
	struct library library = {.file = file}, *grown;
	struct image image;
	struct stat status;
	int r;

	if (fstat(file, &status) || !S_ISREG(status.st_mode)) {
		close(file);
		return -EINVAL;
	}
	for (size_t i = 0; i < watch->libraries; i++) {
		if (identity_matches(&watch->library[i].identity, status.st_dev, status.st_ino)) {
			close(file);
			return 1;
		}
	}
	identify(watch, &library.identity, file, &status);
	r = watch->libraries >= LIBRARY_LIMIT ? -ENOSPC : image_read(&image, file, "cu", 1);
	if (!r) {
		r = choose(watch, &library, &image);
		image_done(&image);
	}
	if (!r && !library.probes)
		r = -ENOENT;
	library.public.path = shown(path);
	library.public.device = status.st_dev;
	library.public.inode = status.st_ino;
	grown = r ? NULL
		  : reallocarray(watch->library, watch->libraries + 1, sizeof(*watch->library));
	if (!r && (!grown || !library.public.path))
		r = -ENOMEM;
	if (grown)
		watch->library = grown;
	if (!r)
		r = attach(watch, &library, error);
	if (r) {
		if (error && !error->number)
			*error = (struct watch_error){.number = -r};
		if (r == -EINVAL || r == -ENOENT) {
			reject(watch, &library.identity);
			if (error && !error->text[0])
				snprintf(error->text, sizeof(error->text),
					 "%.300s: no driver library: it exports none of the "
					 "functions",
					 library.public.path ? library.public.path : "?");
		}
		library_done(&library);
		return r;
	}
	say_sites(watch, &library);
	watch->library[watch->libraries++] = library;
	return 0;
}

int library_add_path(struct watch *watch, const char *path, struct watch_error *error)
{
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r;

	if (file < 0) {
		r = -errno;
		if (error) {
			error->number = -r;
			snprintf(error->text, sizeof(error->text), "%.300s: %s", path,
				 strerror(-r));
		}
		return r;
	}
	r = library_add(watch, file, path, error);
	return r > 0 ? 0 : r;
}

void library_done(struct library *library)
{
	if (library->file >= 0)
		close(library->file);
	free(library->probe);
	free((char *)library->public.path);
}
