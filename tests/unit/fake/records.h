// SPDX-License-Identifier: MIT
/*
 * Walks the records that emit made, for tests: in memory, or in a file read back. Checks the layout
 * rules of record.h on the way and fails the test where one is broken.
 */
#ifndef SLIPSTREAM_FAKE_RECORDS_H
#define SLIPSTREAM_FAKE_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "emit/record.h"

struct records {
	const unsigned char *base;
	size_t size;
	size_t offset;
};

/* The next published record, NULL at the end. Pads are checked and left out. */
const struct record *records_next(struct records *records);

/* Number of records of a type. */
unsigned int records_count(const unsigned char *base, size_t size, enum record_type type);

const char *records_string(const unsigned char *base, size_t size, uint32_t id);

/* The n-th wait record of a rule, NULL: none. */
const struct record_wait *records_wait(const unsigned char *base, size_t size, uint32_t rule,
				       unsigned int n);

#endif
