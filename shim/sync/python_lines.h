// SPDX-License-Identifier: MIT
/*
 * Line tables of CPython code objects: bytes in, a line number out. Pure functions over hostile
 * bytes.
 */
#ifndef SLIPSTREAM_SYNC_PYTHON_LINES_H
#define SLIPSTREAM_SYNC_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/* State of a walk, so that a long table can be given in pieces. */
struct python_lines {
	int64_t offset;   /* bytes of bytecode looked for; below 0: the function's first line */
	int64_t position; /* bytecode covered so far */
	int64_t line;     /* running line */
};

void python_lines_start(struct python_lines *lines, int64_t offset, int32_t first_line);

/*
 * Takes `size` table bytes. Returns how many of them were used (the rest is the start of an entry
 * cut off by the piece's end: give it again with what follows), or -1 once *ret_line is set: the
 * line, 0 if that place has none. CPython 3.10 pairs.
 */
int64_t python_lines_pairs(struct python_lines *lines, const uint8_t *table, size_t size,
			   int32_t *ret_line);

/* The same for the location table of CPython 3.11 and later. */
int64_t python_lines_locations(struct python_lines *lines, const uint8_t *table, size_t size,
			       int32_t *ret_line);

#endif
