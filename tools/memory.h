// SPDX-License-Identifier: MIT
/*
 * Memory of the command `slipstream`: allocation that either works or ends the command with one
 * line. Used by every file in tools/ (never by the preloaded library, which may not exit).
 */
#ifndef SLIPSTREAM_TOOLS_MEMORY_H
#define SLIPSTREAM_TOOLS_MEMORY_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))
#define ARRAY_SIZE(array)   (sizeof(array) / sizeof((array)[0]))

extern int command_failure_status; /* exit status of own failures; main() sets it per sub-command */

static inline void memory_freep(void *pointer)
{
	free(*(void **)pointer);
}

static inline void memory_fclosep(FILE **file)
{
	if (*file)
		(void)fclose(*file);
}

static inline void memory_closep(int *descriptor)
{
	if (*descriptor >= 0)
		(void)close(*descriptor);
}

#define _cleanup_free_   _cleanup_(memory_freep)
#define _cleanup_fclose_ _cleanup_(memory_fclosep)
#define _cleanup_close_  _cleanup_(memory_closep)

static inline void *memory_check(void *pointer)
{
	if (!pointer) {
		(void)fputs("slipstream: out of memory\n", stderr);
		exit(command_failure_status);
	}
	return pointer;
}

static inline void *memory_new(size_t size)
{
	return memory_check(calloc(1, size ? size : 1));
}

static inline char *memory_copy(const char *text)
{
	return memory_check(strdup(text));
}

/* Room for one more element behind `count` ones; the array doubles. The old one is gone. */
static inline void *memory_grow(void *array, size_t count, size_t *capacity, size_t element)
{
	if (count < *capacity)
		return array;
	*capacity = *capacity ? *capacity * 2 : 16;
	return memory_check(reallocarray(array, *capacity, element));
}

/* As asprintf(3); the caller frees. */
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *memory_vformat(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

#endif
