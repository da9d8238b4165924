// SPDX-License-Identifier: MIT
/*
 * Fuzzer of bpf/usdt_notes.c: any bytes as the ELF file whose probes are wanted, and as the text of a probe's arguments.
 * What is taken lies inside the file and can be read as it is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "usdt_notes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void check_shape(const struct probe_shape *shape)
{
	CHECK(shape->count <= PROBE_ARGUMENTS);
	for (uint32_t i = 0; i < shape->count; i++) {
		const struct probe_argument *argument = &shape->argument[i];

		CHECK(argument->form >= PROBE_CONSTANT && argument->form <= PROBE_MEMORY);
		CHECK(argument->size == 1 || argument->size == 2 || argument->size == 4 ||
		      argument->size == 8);
		CHECK(argument->offset <= 152);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct usdt_note notes[USDT_NOTES];
	static int file = -1;
	struct probe_shape shape;
	char text[256];
	size_t length = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
	int count;

	memcpy(text, data, length);
	text[length] = 0;
	if (usdt_arguments(text, &shape))
		check_shape(&shape);

	if (file < 0)
		file = memfd_create("fuzz-usdt-notes", MFD_CLOEXEC);
	CHECK(file >= 0);
	CHECK(pwrite(file, data, size, 0) == (ssize_t)size && !ftruncate(file, (off_t)size));
	count = usdt_read(file, "slipstream", notes);
	CHECK(count <= USDT_NOTES);
	for (int i = 0; i < count; i++) {
		CHECK(notes[i].offset && strlen(notes[i].name) < sizeof(notes[i].name));
		check_shape(&notes[i].arguments);
	}
	return 0;
}
