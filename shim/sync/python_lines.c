// SPDX-License-Identifier: MIT
/*
 * Decoders of CPython's line tables (python_lines.h). Called by python.c and its fuzzer.
 */
#include "sync/python_lines.h"

#include <stdbool.h>

void python_lines_start(struct python_lines *lines, int64_t offset, int32_t first_line)
{
	lines->offset = offset;
	lines->position = 0;
	lines->line = first_line;
}

static int64_t found(int64_t line, int32_t *ret_line)
{
	*ret_line = line > 0 && line <= INT32_MAX ? (int32_t)line : 0;
	return -1;
}

int64_t python_lines_pairs(struct python_lines *lines, const uint8_t *table, size_t size,
			   int32_t *ret_line)
{
	size_t used;

	if (lines->offset < 0)
		return found(lines->line, ret_line);
	for (used = 0; used + 2 <= size; used += 2) {
		int8_t delta = (int8_t)table[used + 1];

		/* -128: these bytes have no line; the running line stays. */
		if (delta != -128)
			lines->line += delta;
		lines->position += table[used];
		if (lines->offset < lines->position)
			return found(delta == -128 ? 0 : lines->line, ret_line);
	}
	return (int64_t)used;
}

/* A signed number in groups of 6 bits, lowest first, 0x40 says that more follow, the lowest bit is
 * the sign. */
static bool signed_number(const uint8_t *table, size_t size, int64_t *ret_number)
{
	uint64_t number = 0;
	unsigned int shift = 0;
	size_t i;

	for (i = 0; i < size; i++) {
		if (shift < 60)
			number |= (uint64_t)(table[i] & 0x3f) << shift;
		shift += 6;
		if (!(table[i] & 0x40)) {
			*ret_number = number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
			return true;
		}
	}
	return false;
}

int64_t python_lines_locations(struct python_lines *lines, const uint8_t *table, size_t size,
			       int32_t *ret_line)
{
	size_t used = 0, next;

	if (lines->offset < 0)
		return found(lines->line, ret_line);
	while (used < size) {
		unsigned int kind = table[used] >> 3 & 15;
		int64_t delta = 0;

		/* An entry ends where the next byte has the top bit set; one cut off by the piece's
		 * end may go on. */
		for (next = used + 1; next < size && !(table[next] & 0x80); next++)
			;
		if (kind >= 10 && kind <= 12)
			delta = kind - 10;
		else if ((kind == 13 || kind == 14) &&
			 !signed_number(table + used + 1, next - used - 1, &delta)) {
			if (next == size)
				break;
			delta = 0; /* an entry without its number: corrupt, go on as best we can */
		}
		/* The piece may have been cut within what we do not read (columns): that costs
		 * nothing if this entry is the one. */
		if (lines->offset < lines->position + 2 * ((table[used] & 7) + 1))
			return found(kind == 15 ? 0 : lines->line + delta, ret_line);
		if (next == size)
			break;
		/*
		 * Lines far outside any file only come from corrupt tables; keeps the sum in range.
		 */
		if (delta > INT32_MAX || delta < -INT32_MAX)
			delta = 0;
		lines->line += delta;
		lines->position += 2 * ((table[used] & 7) + 1);
		used = next;
	}
	return (int64_t)used;
}
