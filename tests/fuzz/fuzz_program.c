// SPDX-License-Identifier: MIT
/*
 * Fuzzer of tools/program.c: any bytes as the file of the program to be run, an ELF image or a script.
 * It is looked at, never started. What is found is text that ends, and of a file that is there.
 */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct program program;
	char path[64];
	int file;

	file = memfd_create("program", MFD_CLOEXEC);
	CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	CHECK(!program_inspect(path, &program));
	CHECK(!strcmp(program.path, path) && *program.image);
	CHECK(!program.interpreter || strlen(program.interpreter) <= PATH_MAX);
	CHECK(!program.blind_spot || *program.blind_spot);
	if (program.is_elf)
		CHECK(size >= 4 && !memcmp(data, "\177ELF", 4) && !strcmp(program.image, path));
	if (strcmp(program.image, path))
		CHECK(size >= 3 && !memcmp(data, "#!", 2));
	program_done(&program);
	CHECK(!program.path && !program.image && !program.interpreter && !program.blind_spot);
	close(file);
	return 0;
}
