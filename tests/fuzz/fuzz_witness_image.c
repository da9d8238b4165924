// SPDX-License-Identifier: MIT
/*
 * Fuzzer of bpf/image.c: any bytes as the ELF file whose functions are to be counted. Functions come in
 * order, have the prefix asked for, and cover the bytes that they say.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static int file = -1;
static char path[] = "/tmp/fuzz-witness-image-XXXXXX";

static void end(void)
{
	(void)unlink(path);
}

/* image_open() wants a path that it can resolve, which a memfd has not. */
static void prepare(void)
{
	file = mkstemp(path);
	CHECK(file >= 0 && !atexit(end));
	/* Every refusal is a line of its own; the fuzzer's words go to the descriptor and are kept. */
	stderr = fopen("/dev/null", "we");
	CHECK(stderr);
}

static int covers(const struct image_function *function, void *data)
{
	uint64_t offset = *(const uint64_t *)data;

	CHECK(offset >= function->offset && offset - function->offset < function->size);
	return 7;
}

static void check(const struct image *image, const char *prefix)
{
	for (size_t i = 0; i < image->count; i++) {
		const struct image_function *function = &image->function[i];
		uint64_t offset = function->offset;

		CHECK(!strncmp(function->name, prefix, strlen(prefix)));
		CHECK(!i || function[-1].address <= function->address);
		CHECK(image_cover(image, offset, covers, &offset) == 7 || !function->size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const prefixes[] = {"cu", ""};
	struct image image;

	if (file < 0)
		prepare();
	CHECK(pwrite(file, data, size, 0) == (ssize_t)size && !ftruncate(file, (off_t)size));
	for (int i = 0; i < 4; i++) {
		if (image_open(&image, path, prefixes[i / 2], i % 2))
			continue;
		check(&image, prefixes[i / 2]);
		image_done(&image);
		CHECK(!image.count && !image.path);
	}
	return 0;
}
