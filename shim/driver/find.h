// SPDX-License-Identifier: MIT
/*
 * What finding the driver leaves behind, for entry: where its image lies and how it is called. The
 * functions themselves are in driver.h.
 */
#ifndef SLIPSTREAM_DRIVER_FIND_H
#define SLIPSTREAM_DRIVER_FIND_H

#include <stdbool.h>
#include <stdint.h>

#define DRIVER_PATH_MAX 1024

/* Written once by the finder that set `naming`; `found` is stored last (release) and read first
 * (acquire). */
struct driver_image {
	uint32_t found, naming;
	uintptr_t start, end; /* of its mapping */
	char path[DRIVER_PATH_MAX];
};

extern struct driver_image driver_image __attribute__((visibility("hidden")));

/* True if the address lies in the driver's image. */
bool driver_contains(const void *address);
/* True if a file of this name is some libcuda. */
bool driver_is_name(const char *path);

#endif
