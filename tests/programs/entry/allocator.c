// SPDX-License-Identifier: MIT
/*
 * An allocator put in front of the C library's, which finds that one by dlsym at its first use: a
 * dlsym hook that allocates comes straight back in here. Preloaded.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t size);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void free(void *pointer);

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);
static int looking;

static void look_up(void)
{
	static const char message[] = "allocator: dlsym allocates\n";

	if (looking) {
		(void)!write(STDERR_FILENO, message, sizeof(message) - 1);
		_exit(3);
	}
	looking = 1;
	next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	looking = 0;
}

void *malloc(size_t size)
{
	if (!next_malloc)
		look_up();
	return next_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	void *pointer = malloc(count * size);

	return pointer ? memset(pointer, 0, count * size) : NULL;
}

void free(void *pointer)
{
	if (!next_free)
		look_up();
	next_free(pointer);
}
