// SPDX-License-Identifier: MIT
/*
 * Fuzzer of shim/sync/python_lines.c: any bytes as a line table, any place looked for. The answer
 * must not depend on the pieces in which the table is given, and both decoders must end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sync/python_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef int64_t decoder(struct python_lines *, const uint8_t *, size_t, int32_t *);

static int32_t look_up(decoder *decode, const uint8_t *table, size_t size, int64_t offset,
		       size_t piece)
{
	struct python_lines lines;
	int32_t line = -1;
	int64_t used;
	size_t at;

	python_lines_start(&lines, offset, 1000);
	for (at = 0; at < size; at += (size_t)used) {
		size_t part = size - at < piece ? size - at : piece;
		/* A copy of its own, so that a read beyond the piece is found. */
		uint8_t *bytes = malloc(part);

		memcpy(bytes, table + at, part);
		used = decode(&lines, bytes, part, &line);
		free(bytes);
		if (used < 0) {
			if (line < 0)
				abort();
			return line;
		}
		if ((size_t)used > part)
			abort();
		if (!used)
			return -2;
	}
	return -3;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int16_t offset;

	if (size < sizeof(offset) || size > 4096)
		return 0;
	memcpy(&offset, data, sizeof(offset));
	data += sizeof(offset);
	size -= sizeof(offset);
	if (look_up(python_lines_pairs, data, size, offset, 512) !=
	    look_up(python_lines_pairs, data, size, offset, 4096))
		abort();
	look_up(python_lines_pairs, data, size, offset, 1);
	look_up(python_lines_locations, data, size, offset, 4096);
	look_up(python_lines_locations, data, size, offset, 512);
	look_up(python_lines_locations, data, size, offset, 7);
	return 0;
}
