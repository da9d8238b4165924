// SPDX-License-Identifier: MIT
/*
 * Driver libraries in mappings: opening exactly the file that a process has mapped.
 *
 * What another process maps is under its control: its name, its bytes, and what lies at its path by the
 * time we look. So a file is opened without following links out of the process's own root, must be a
 * regular one, must be the very file of the mapping (by device and inode), and is probed through the
 * open descriptor; a name is only ever shown.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alive.h"
#include "watch_internal.h"

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
	const struct shim *known = shim_find(watch, place->device, place->inode);
	int file;

	if (known && known->is_read)
		return;
	file = open_mapped(process, place);
	if (file >= 0) {
		shim_add(watch, file);
		close(file);
	}
	shim_note(watch, place->device, place->inode);
	if (file < 0 && watch->options.claimed)
		identities_note(&watch->unheard, place->device, place->inode);
}

/* Told of a process that lives; with `all` one word stands for everybody. */
static void say_refused(struct watch *watch, pid_t process, const struct place *place, int number)
{
	bool is_right = (number == EACCES || number == EPERM) &&
			!capability_is_there(CAPABILITY_SYS_PTRACE);

	identities_note(&watch->unwatched, place->device, place->inode);
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
static void add_found(struct watch *watch, pid_t process, const struct place *place, int file,
		      const char *path)
{
	struct watch_error error = {0};
	int r = library_add(watch, file, path, &error);

	if (!r) {
		watch_say(watch, "found %s", watch->library[watch->libraries - 1].public.path);
	} else if (r > 0 || r == -EINVAL || r == -ENOENT) {
		return; /* known, or none */
	} else if (r == -ENOSPC) {
		if (!watch->libraries_said)
			watch_say(watch,
				  "process %d: more than %d driver libraries: this one and later "
				  "ones "
				  "are not watched",
				  process, LIBRARY_LIMIT);
		watch->libraries_said = true;
	} else {
		watch_say(watch, "process %d: its driver library is not watched: %s", process,
			  error.text[0] ? error.text : strerror(-r));
	}
	if (r)
		identities_note(&watch->unwatched, place->device, place->inode);
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
		say_refused(watch, process, place, -file);
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
		identities_note(&watch->unwatched, place->device, place->inode);
		close(file);
		return;
	}
	if (asprintf(&path, "/proc/%d/root%s", process, place->path) < 0) {
		close(file);
		return;
	}
	add_found(watch, process, place, file, path);
	free(path);
}
