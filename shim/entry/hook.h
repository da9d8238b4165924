// SPDX-License-Identifier: MIT
/*
 * Between hooks_x86_64.S and the C files that decide: what a hook does next.
 */
#ifndef SLIPSTREAM_ENTRY_HOOK_H
#define SLIPSTREAM_ENTRY_HOOK_H

#include <stdint.h>

/* Returned in rax and rdx. */
struct hook_answer {
	void *address;
	uint64_t jump; /* 1: to `address`, with the program's arguments; 0: return it */
};

struct hook_answer entry_dlsym(void *handle, const char *name, const void *caller)
	__attribute__((visibility("hidden")));
struct hook_answer entry_dlopen(const char *file, int flags) __attribute__((visibility("hidden")));
struct hook_answer entry_dlmopen(long space, const char *file, int flags)
	__attribute__((visibility("hidden")));

#endif
