// SPDX-License-Identifier: MIT
/*
 * Between hooks_x86_64.S and the C files that decide: what a hook does next.
 */
#ifndef SLIPSTREAM_ENTRY_HOOK_H
#define SLIPSTREAM_ENTRY_HOOK_H

#include <stdint.h>

/*
 * What runs for every look-up of the process runs while a sanitizer's runtime looks up its own
 * functions, too, before any instrumented code may.
 */
#define HOOK_EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

/* Returned in rax and rdx. */
struct hook_answer {
	void *address;
	uint64_t jump; /* 1: to `address`, with the program's arguments; 0: return it */
};

/*
 * glibc's function of this name behind us, remembered in *cache: racing first callers store the
 * same pointer. Where there is none, a function that returns NULL. dlsym.c
 */
void *hook_real(void **cache, const char *name) __attribute__((visibility("hidden")));

struct hook_answer entry_dlsym(void *handle, const char *name, const void *caller)
	__attribute__((visibility("hidden")));
struct hook_answer entry_dlopen(const char *file, int flags) __attribute__((visibility("hidden")));
struct hook_answer entry_dlmopen(long space, const char *file, int flags)
	__attribute__((visibility("hidden")));

#endif
