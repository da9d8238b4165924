// SPDX-License-Identifier: MIT
/*
 * Driver libraries: finding them in mappings, opening exactly the file that a process has mapped, and
 * choosing where to probe them.
 *
 * What another process maps is under its control: its name, its bytes, and what lies at its path by the
 * time we look. So a file is opened without following links out of the process's own root, must be a
 * regular one, must be the very file of the mapping (by device and inode), and is probed through the
 * open descriptor; a name is only ever shown.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alive.h"
#include "probe_site.h"
#include "watch_internal.h"

enum { LIBRARY_LIMIT = 64, REJECTED_LIMIT = 4096 };

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
		r = attach_probes(watch, file, library.probe, library.probes, error);
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

/*
 * The very file of a mapping. By the mapping itself where that is allowed (CAP_SYS_ADMIN or
 * CAP_CHECKPOINT_RESTORE); else by name inside the process's root, links kept inside it.
 */
static int open_mapped_of(pid_t process, const struct place *place)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	char path[96];
	int root, file;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, process,
		 place->start, place->end);
	file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file >= 0)
		return file;
	snprintf(path, sizeof(path), "/proc/%d/root", process);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	file = (int)syscall(SYS_openat2, root, place->path, &how, sizeof(how));
	if (file < 0)
		file = -errno;
	close(root);
	return file;
}

static int open_mapped(pid_t process, const struct place *place)
{
	int file = open_mapped_of(process, place);
	pid_t speaker = file == -ENOENT ? alive_thread(process) : 0;

	return speaker && speaker != process ? open_mapped_of(speaker, place) : file;
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* " (deleted)" behind a name does not make it another. */
static bool is_named(const struct place *place, const char *name, bool whole)
{
	const char *file = file_name(place->path);
	size_t length = strlen(name);

	if (strncmp(file, name, length))
		return false;
	return !whole || !file[length] || !strcmp(file + length, " (deleted)");
}

bool library_is_named(const struct watch *watch, const struct place *place)
{
	return place->inode && (is_named(place, watch->shim, true) ||
				(!watch->fixed && is_named(place, "libcuda.so", false)));
}

static bool is_probed(const struct watch *watch, const struct place *place)
{
	for (size_t i = 0; i < watch->libraries; i++) {
		if (identity_matches(&watch->library[i].identity, place->device, place->inode))
			return true;
	}
	return false;
}

bool library_is_driver(const struct watch *watch, const struct place *place)
{
	return place->inode &&
	       (is_probed(watch, place) || (!watch->fixed && is_named(place, "libcuda.so", false)));
}

static bool is_known(const struct watch *watch, const struct place *place)
{
	if (is_probed(watch, place))
		return true;
	for (size_t i = 0; i < watch->rejecteds; i++) {
		if (identity_matches(&watch->rejected[i], place->device, place->inode))
			return true;
	}
	return false;
}

static void consider_shim(struct watch *watch, pid_t process, const struct place *place)
{
	int file;

	if (identity_matches(&watch->shims, place->device, place->inode))
		return;
	file = open_mapped(process, place);
	if (file >= 0) {
		shim_add(watch, file);
		close(file);
	}
	/* Also where it cannot be opened: its calls are its own. */
	identity_add(&watch->shims, place->device, place->inode);
}

/* Of a process that lives. With `all` one word stands for everybody. */
static void say_refused(struct watch *watch, pid_t process, int number)
{
	bool is_right = (number == EACCES || number == EPERM) &&
			!capability_is_there(CAPABILITY_SYS_PTRACE);

	if (kill(process, 0) && errno != EPERM)
		return;
	if (watch->options.all && watch->refused_said)
		return;
	watch->refused_said = true;
	watch_say(watch, "process %d%s: its driver library cannot be opened: %s%s", process,
		  watch->options.all ? ", and maybe others" : "", strerror(number),
		  is_right ? " (CAP_SYS_PTRACE is missing)" : "");
}

/* What is found is probed, or it is said why not: its calls will be missing. */
static void add_found(struct watch *watch, pid_t process, int file, const char *path)
{
	struct watch_error error = {0};
	int r = library_add(watch, file, path, &error);

	if (!r) {
		watch_say(watch, "found %s", watch->library[watch->libraries - 1].public.path);
	} else if (r == -ENOSPC) {
		if (!watch->libraries_said)
			watch_say(watch,
				  "process %d: more than %d driver libraries: this one and later "
				  "ones "
				  "are not watched",
				  process, LIBRARY_LIMIT);
		watch->libraries_said = true;
	} else if (r < 0 && r != -EINVAL && r != -ENOENT) {
		watch_say(watch, "process %d: its driver library is not watched: %s", process,
			  error.text[0] ? error.text : strerror(-r));
	}
}

void library_consider(struct watch *watch, pid_t process, const struct place *place)
{
	struct file_identity identity;
	struct stat status;
	char *path;
	int file;

	if (!place->inode || watch->detached)
		return;
	if (is_named(place, watch->shim, true)) {
		consider_shim(watch, process, place);
		return;
	}
	if (watch->fixed || !is_named(place, "libcuda.so", false) || is_known(watch, place))
		return;
	file = open_mapped(process, place);
	if (file < 0) {
		say_refused(watch, process, -file);
		return;
	}
	/* What lies at that name now must be what the process has mapped. */
	if (fstat(file, &status) || !S_ISREG(status.st_mode)) {
		close(file);
		return;
	}
	identify(watch, &identity, file, &status);
	if (!identity_matches(&identity, place->device, place->inode)) {
		watch_say(watch,
			  "process %d: the file at the name of its driver library is another",
			  process);
		close(file);
		return;
	}
	if (asprintf(&path, "/proc/%d/root%s", process, place->path) < 0) {
		close(file);
		return;
	}
	add_found(watch, process, file, path);
	free(path);
}

/* In a child: a driver runs code when it is loaded, which is nothing to have in here. */
char *library_find(void)
{
	char path[4096] = "", *found = NULL;
	ssize_t length = 0;
	int end[2], status;
	pid_t child;

	if (pipe2(end, O_CLOEXEC))
		return NULL;
	child = fork();
	if (!child) {
		void *library = dlopen("libcuda.so.1", RTLD_LAZY);

		if (library && !dlinfo(library, RTLD_DI_ORIGIN, path)) {
			strncat(path, "/libcuda.so.1", sizeof(path) - strlen(path) - 1);
			length = write(end[1], path, strlen(path));
		}
		_exit(length <= 0);
	}
	close(end[1]);
	if (child > 0) {
		length = read(end[0], path, sizeof(path) - 1);
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		if (length > 0) {
			path[length] = 0;
			found = realpath(path, NULL);
		}
	}
	close(end[0]);
	return found;
}

void library_done(struct library *library)
{
	if (library->file >= 0)
		close(library->file);
	free(library->probe);
	free((char *)library->public.path);
}
