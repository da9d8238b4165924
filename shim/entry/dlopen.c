// SPDX-License-Identifier: MIT
/*
 * dlopen and dlmopen: changes nothing, and notes the two ways of opening a library whose calls we
 * then cannot see: RTLD_DEEPBIND (it finds the C library's dlsym, and its own driver's functions,
 * before ours) and another namespace (we are not in it).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "entry/entry.h"
#include "entry/hook.h"
#include "libc.h"

static void *real_dlopen, *real_dlmopen;

static void note(const char *how, const char *file)
{
	char text[300];
	int saved = errno;

	snprintf(text, sizeof(text), "%s: %.200s", how, file);
	if (entry_setup())
		emit_note(NOTE_PASS_THROUGH, text);
	state_unseen();
	legacy_retreat();
	errno = saved;
}

LIBC_EARLY struct hook_answer entry_dlopen(const char *file, int flags)
{
	if (entry_unlikely(flags & RTLD_DEEPBIND) && file)
		note("opened with RTLD_DEEPBIND, its calls may pass us by", file);
	return (struct hook_answer){libc_function(&real_dlopen, "dlopen"), 1};
}

LIBC_EARLY struct hook_answer entry_dlmopen(long space, const char *file, int flags)
{
	if (space != LM_ID_BASE && file)
		note("opened in another namespace, its calls pass us by", file);
	return (struct hook_answer){libc_function(&real_dlmopen, "dlmopen"), 1};
}
