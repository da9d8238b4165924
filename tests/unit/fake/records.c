// SPDX-License-Identifier: MIT
/*
 * A second, independent reading of record.h (fake/records.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake/records.h"

const struct record *records_next(struct records *records)
{
	const struct record *record;
	size_t segment_end;

	while (records->offset + sizeof(*record) <= records->size) {
		segment_end = records->offset - records->offset % RECORD_SEGMENT + RECORD_SEGMENT;
		record = (const void *)(records->base + records->offset);
		if (!record->size) {
			assert_int_equal(record->type, RECORD_NONE);
			records->offset = segment_end;
			continue;
		}
		assert_int_equal(record->size % RECORD_ALIGN, 0);
		assert_true(record->size >= sizeof(*record));
		assert_true(records->offset + record->size <= segment_end);
		records->offset += record->size;
		if (record->type == RECORD_PAD)
			assert_int_equal(records->offset, segment_end);
		if (record->type != RECORD_PAD && record->type != RECORD_NONE)
			return record;
	}
	return NULL;
}

unsigned int records_count(const unsigned char *base, size_t size, enum record_type type)
{
	struct records records = {.base = base, .size = size};
	const struct record *record;
	unsigned int count = 0;

	while ((record = records_next(&records)))
		count += record->type == type;
	return count;
}

const char *records_string(const unsigned char *base, size_t size, uint32_t id)
{
	struct records records = {.base = base, .size = size};
	const struct record_string *string;
	const struct record *record;

	while ((record = records_next(&records))) {
		string = (const void *)record;
		if (record->type == RECORD_STRING && string->id == id) {
			assert_int_equal(string->bytes[string->length], '\0');
			return string->bytes;
		}
	}
	return NULL;
}

const struct record_wait *records_wait(const unsigned char *base, size_t size, uint32_t rule,
				       unsigned int n)
{
	struct records records = {.base = base, .size = size};
	const struct record_wait *wait;
	const struct record *record;

	while ((record = records_next(&records))) {
		wait = (const void *)record;
		if (record->type == RECORD_WAIT && wait->rule == rule && n-- == 0)
			return wait;
	}
	return NULL;
}
