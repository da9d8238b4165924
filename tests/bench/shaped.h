/* SPDX-License-Identifier: MIT
 *
 * Copies in two and three dimensions between ordinary memory and the device, by either side (sides.h); used by copies.c. Rows of SHAPED_ROW bytes, with a gap
 * behind each, on either side; in three dimensions SHAPED_PLANES planes, with a row between them. One thread.
 */
#ifndef SLIPSTREAM_BENCH_SHAPED_H
#define SLIPSTREAM_BENCH_SHAPED_H

#include <stdbool.h>
#include <stddef.h>

#include "sides.h"

#define SHAPED_ROW    ((size_t)1024)
#define SHAPED_PLANES 4
#define SHAPED_LEAST  (SHAPED_PLANES * SHAPED_ROW) /* bytes; and all are a multiple of it */

struct shaped {
	unsigned int dimensions; /* 2, 3 */
	bool to_device;
	size_t bytes; /* without gaps */
};

/* Finds the functions. Behind sides_open(). `control`: both sides by the driver's address. */
void shaped_open(bool control);

/* Bytes from the first to the last, gaps included; at most half as much again as `bytes`, and that of the device, too. */
size_t shaped_span(const struct shaped *shaped);

/* `async`: on the stream. */
void shaped_copy(int which, const struct shaped *shaped, bool async, char *host, CUdeviceptr device,
		 CUstream stream);

/* Are the rows the same? */
bool shaped_same(const struct shaped *shaped, const char *one, const char *other);

#endif
