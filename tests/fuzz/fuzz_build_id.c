// SPDX-License-Identifier: MIT
/*
 * Fuzzer of the build id note parser of shim/sync/image.c: any bytes as a note segment.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sync/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t id[IMAGE_BUILD_ID_MAX];
	uint32_t length;
	size_t align, i;

	for (align = 0; align <= 8; align += 4) {
		memset(id, 0x55, sizeof(id));
		length = image_build_id_note(data, size, align, id);
		if (length > sizeof(id) || length > size)
			abort();
		for (i = length; i < sizeof(id); i++) {
			if (id[i] != 0x55)
				abort();
		}
	}
	return 0;
}
