// SPDX-License-Identifier: MIT
/*
 * The shim's files: known by name or by a path that was given, so that its calls are told from others;
 * and its USDT probes, if somebody wants to hear what it claims. Every copy is probed by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "usdt_notes.h"
#include "watch_internal.h"

enum { SHIM_LIMIT = 64 };

/* enum probe_kind; -1: nobody hears that one. */
static int kind_of(const struct usdt_note *note)
{
	static const char *const names[PROBE_KINDS] = {
		[PROBE_SCOPE_ENTER] = "scope_enter",
		[PROBE_SCOPE_EXIT] = "scope_exit",
		[PROBE_REWRITE] = "rewrite",
	};

	for (int kind = 0; kind < PROBE_KINDS; kind++) {
		if (!strcmp(note->name, names[kind]))
			return note->arguments.count == PROBE_ARGUMENTS ? kind : -1;
	}
	return -1;
}

static int fill_probe(struct watch *watch, int kind, const struct usdt_note *note,
		      struct probe *ret_probe)
{
	__u32 slot = (__u32)watch->probe_slots;

	if (slot >= PROBE_SLOTS)
		return -ENOSPC;
	if (bpf_map_update_elem(bpf_map__fd(watch->skeleton->maps.probe_shapes), &slot,
				&note->arguments, BPF_ANY))
		return -errno;
	watch->probe_slots++;
	*ret_probe = (struct probe){.offset = note->offset,
				    .semaphore = note->semaphore,
				    .function = slot,
				    .kind = (uint8_t)kind};
	return 0;
}

/* Ends before beginnings: a scope that is seen to begin is seen to end. */
static void attach_notes(struct watch *watch, int file, const struct stat *status)
{
	static const int order[] = {PROBE_SCOPE_EXIT, PROBE_REWRITE, PROBE_SCOPE_ENTER};
	struct usdt_note note[USDT_NOTES];
	struct probe probe[USDT_NOTES];
	int count = usdt_read(file, "slipstream", note), r = 0;
	size_t probes = 0;

	_Static_assert((int)USDT_NOTES <= (int)USDT_PROBES, "all notes fit");
	for (size_t o = 0; o < sizeof(order) / sizeof(order[0]); o++) {
		for (int i = 0; i < count && !r; i++) {
			if (kind_of(&note[i]) != order[o])
				continue;
			r = fill_probe(watch, order[o], &note[i], &probe[probes]);
			probes += !r;
		}
	}
	if (!r)
		r = attach_usdt(watch, file, probe, probes);
	if (r)
		watch_say(watch, "the shim's probes cannot be used: %s", strerror(-r));
	else if (!probes)
		watch_say(watch, "the shim has no probes for tracers: what it claims is not heard");
	if (r || !probes)
		identities_note(&watch->unheard, status->st_dev, status->st_ino);
}

const struct shim *shim_find(const struct watch *watch, dev_t device, ino_t inode)
{
	for (size_t i = 0; i < watch->shim_count; i++) {
		if (identity_matches(&watch->shims[i].identity, device, inode))
			return &watch->shims[i];
	}
	return NULL;
}

/* NULL: no room. */
static struct shim *new_shim(struct watch *watch, const struct file_identity *identity)
{
	struct shim *grown;

	if (watch->shim_count == SHIM_LIMIT) {
		if (!watch->shims_said)
			watch_say(watch,
				  "more than %d files of the preload library: calls by others are "
				  "taken for the program's",
				  SHIM_LIMIT);
		watch->shims_said = true;
		return NULL;
	}
	grown = reallocarray(watch->shims, watch->shim_count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	watch->shims = grown;
	grown += watch->shim_count++;
	*grown = (struct shim){.identity = *identity};
	return grown;
}

void shim_note(struct watch *watch, dev_t device, ino_t inode)
{
	struct file_identity identity = {0};

	if (shim_find(watch, device, inode))
		return;
	identity_add(&identity, device, inode);
	(void)new_shim(watch, &identity);
}

void shim_add(struct watch *watch, int file)
{
	struct file_identity identity;
	struct shim *shim = NULL;
	struct stat status;

	if (fstat(file, &status) || !S_ISREG(status.st_mode))
		return;
	identify(watch, &identity, file, &status);
	for (size_t i = 0; i < identity.count && !shim; i++)
		shim = (struct shim *)shim_find(watch, identity.identity[i].device,
						identity.identity[i].inode);
	if (!shim)
		shim = new_shim(watch, &identity);
	if (!shim && watch->options.claimed)
		identities_note(&watch->unheard, status.st_dev, status.st_ino);
	if (!shim || shim->is_read)
		return;
	for (size_t i = 0; i < identity.count; i++)
		identity_add(&shim->identity, identity.identity[i].device,
			     identity.identity[i].inode);
	shim->is_read = !image_read(&shim->image, file, "", 0);
	if (watch->options.claimed)
		attach_notes(watch, file, &status);
}

void shims_done(struct watch *watch)
{
	for (size_t i = 0; i < watch->shim_count; i++)
		image_done(&watch->shims[i].image);
	free(watch->shims);
}

void shim_add_path(struct watch *watch, const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (file < 0)
		return;
	shim_add(watch, file);
	close(file);
}
