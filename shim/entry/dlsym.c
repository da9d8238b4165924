// SPDX-License-Identifier: MIT
/*
 * dlsym: what the hook answers.
 *
 * Called by hooks_x86_64.S for every look-up of the process. Relies on libc.h for glibc's dlsym.
 * Names that are not the driver's cost a hash at most and go on to glibc by a jump; nothing here
 * allocates, locks, waits or calls into the C library for them. For the driver's names glibc is
 * asked first, with the program's own arguments, so that its answer, its error text and its
 * clearing of the error state are what the program sees; only an address inside the driver's image
 * is replaced.
 *
 * Our own exported names must not be an answer: a program that probes for the driver would find one
 * where there is none. Where glibc answers with one of ours, the next object behind us is asked
 * instead.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>

#include "driver/find.h"
#include "entry/entry.h"
#include "entry/hook.h"
#include "entry/names.h"
#include "libc.h"

void *dlsym(void *handle, const char *name) ENTRY_EXPORT;

/* The start of the object an address lies in; NULL if in none. */
static const void *object_of(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) ? info.dli_fbase : NULL;
}

static bool is_ours(const void *address)
{
	return address && object_of(address) == object_of(entry_wrappers);
}

/* True if the object at `later` comes behind the object at `earlier` in the order of loading, which
 * RTLD_NEXT follows. */
static bool comes_after(const void *later, const void *earlier)
{
	struct link_map *from = NULL, *to = NULL;
	Dl_info info;

	if (!dladdr1(earlier, &info, (void **)&from, RTLD_DL_LINKMAP) ||
	    !dladdr1(later, &info, (void **)&to, RTLD_DL_LINKMAP))
		return false;
	for (from = from->l_next; from; from = from->l_next)
		if (from == to)
			return true;
	return false;
}

/* RTLD_DEFAULT also searches what the caller's own group brought in; we can ask only for the
 * caller's object and its dependencies. */
static void *in_group_of(const void *caller, const char *name)
{
	struct link_map *map = NULL;
	void *handle, *address = NULL;
	Dl_info info;

	if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map->l_name[0])
		return NULL;
	handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		address = libc_dlsym(handle, name);
		dlclose(handle);
	}
	return address;
}

/* What glibc would have said to this caller without us. */
static void *honest_answer(void *handle, const char *name, const void *caller)
{
	void *address;

	if (handle == RTLD_NEXT) {
		/* The next object behind us that has it. Right for a caller before us; for one
		 * behind us only if that object is behind it too. */
		return libc_dlsym(RTLD_NEXT, name);
	}
	address = libc_dlsym(handle, name);
	if (!is_ours(address))
		return address;
	/* RTLD_DEFAULT, the main program's handle, or our own. */
	address = libc_dlsym(RTLD_NEXT, name);
	if (!address && handle == RTLD_DEFAULT && driver_find())
		address = in_group_of(caller, name);
	if (!address)
		address = libc_dlsym(RTLD_NEXT, name); /* leaves the right error text */
	return address;
}

/* `dlsym` itself was looked up: who asks glibc for it should not get past us. */
static struct hook_answer answer_dlsym(void *handle)
{
	void *address;

	if (handle == RTLD_NEXT)
		return (struct hook_answer){libc_dlsym_address(), 1};
	address = libc_dlsym(handle, "dlsym");
	if (address == libc_dlsym_address() && !entry_off)
		address = (void *)dlsym;
	return (struct hook_answer){address, 0};
}

static void note_second_driver(const void *address)
{
	Dl_info info;

	if (dladdr(address, &info) && info.dli_fname && driver_is_name(info.dli_fname)) {
		emit_note(NOTE_SECOND_DRIVER, info.dli_fname);
		state_unseen();
		legacy_retreat();
	}
}

/* A name of the driver's, or one that may be. */
static struct hook_answer answer_driver_name(void *handle, const char *name, const void *caller,
					     int function)
{
	const struct hook_answer untouched = {libc_dlsym_address(), 1};
	int saved = errno;
	void *address;

	entry_setup();
	/* First: the real look-up then leaves dlerror()'s state as the program expects it. */
	driver_find();
	errno = saved;
	if (driver_contains(caller))
		return untouched; /* the driver looks itself up (WSL) */
	if (function < 0 && handle == RTLD_NEXT)
		return untouched;
	if (handle == RTLD_NEXT && comes_after(caller, entry_wrappers)) {
		address = libc_dlsym(RTLD_NEXT, name);
		if (!address || !comes_after(address, caller))
			/* Another interposer behind us: its own next is none of ours. */
			return untouched;
	} else {
		address = honest_answer(handle, name, caller);
	}
	if (address && !entry_off) {
		if (driver_contains(address))
			address = entry_substitute(address, name);
		else
			note_second_driver(address);
	}
	return (struct hook_answer){address, 0};
}

LIBC_EARLY struct hook_answer entry_dlsym(void *handle, const char *name, const void *caller)
{
	int function = entry_function(name);

	if (entry_unlikely(function >= 0) || entry_looks_like_driver_name(name))
		return answer_driver_name(handle, name, caller, function);
	if (entry_unlikely(name && entry_same_name(name, "dlsym")))
		return answer_dlsym(handle);
	return (struct hook_answer){libc_dlsym_address(), 1};
}
