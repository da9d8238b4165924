// SPDX-License-Identifier: MIT
/*
 * What the symbolizer test looks at: prints where it was called from, and what the right answer is.
 * Built in several ways (meson.build): as a program with and without fixed addresses, stripped,
 * with its debug information in a second file, and as a library.
 *
 * Lines: "id <hex of the build id>", then "<address in the file, hex> <function> <line>[ <function
 * it was inlined into> <line>]".
 */
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "subject.h"
#include "sync/image.h"

static void *here;

static int find(struct dl_phdr_info *info, size_t size, void *data)
{
	uint64_t start, end, *base = data;
	uint8_t id[IMAGE_BUILD_ID_MAX];
	uint32_t length, i;

	image_extent(info, &start, &end);
	if ((uint64_t)(uintptr_t)here < start || (uint64_t)(uintptr_t)here >= end)
		return 0;
	*base = info->dlpi_addr;
	length = image_build_id(info, id);
	printf("id ");
	for (i = 0; i < length; i++)
		printf("%02x", id[i]);
	printf("\n");
	return 1;
}

static uint64_t base;

__attribute__((noinline)) static void mark(const char *rest, int line, const char *outer,
					   int outer_line)
{
	printf("%llx %s %d", (unsigned long long)((uintptr_t)__builtin_return_address(0) - base),
	       rest, line);
	if (outer)
		printf(" %s %d", outer, outer_line);
	printf("\n");
}

#define AFTER __asm__ volatile("" ::: "memory") /* no tail call */

static inline __attribute__((always_inline)) void small(int outer_line)
{
	mark("small", __LINE__, "subject_outer", outer_line);
	AFTER;
}

__attribute__((noinline)) void subject_outer(void)
{
	small(__LINE__);
	AFTER;
}

__attribute__((noinline)) void subject_plain(void)
{
	mark("subject_plain", __LINE__, NULL, 0);
	AFTER;
}

__attribute__((noinline)) void subject_mangled(int number)
{
	mark("demo::Thing::method(int)", __LINE__, NULL, 0);
	AFTER;
}

void subject_run(void)
{
	here = (void *)subject_run;
	dl_iterate_phdr(find, &base);
	subject_plain();
	subject_outer();
	subject_mangled(1);
	AFTER;
}
