// SPDX-License-Identifier: MIT
/*
 * shim/sync/image.c, reader.c, python_lines.c and the table of python_layout.c: what reads bytes
 * that may be anything.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "config.h"
#include "fake_emit.h"
#include "sync/image.h"
#include "sync/python_layout.h"
#include "sync/python_lines.h"
#include "sync/reader.h"

struct config config = {.python = true, .stack_depth = 32};

static void test_note(void **state)
{
	uint8_t bytes[256] = {0}, id[IMAGE_BUILD_ID_MAX];
	uint32_t head[3] = {4, 20, NT_GNU_BUILD_ID}, other[3] = {5, 3, 1};
	uint32_t huge[3] = {4, 0xfffffff0, NT_GNU_BUILD_ID};
	uint8_t exact[36];
	size_t size;

	/* Another note first, its name and content padded to 4. */
	memcpy(bytes, other, 12);
	memcpy(bytes + 24, head, 12);
	memcpy(bytes + 36, "GNU", 4);
	memset(bytes + 40, 0xab, 20);
	assert_int_equal(image_build_id_note(bytes, 60, 4, id), 20);
	assert_int_equal(id[0], 0xab);
	assert_int_equal(id[19], 0xab);
	/* One byte short, and every shorter size. */
	for (size = 0; size < 60; size++)
		assert_int_equal(image_build_id_note(bytes, size, 4, id), 0);
	/* Sizes that would wrap 32 bits. */
	memcpy(exact, huge, 12);
	memcpy(exact + 12, "GNU", 4);
	assert_int_equal(image_build_id_note(exact, sizeof(exact), 4, id), 0);
	memset(exact, 0xff, sizeof(exact));
	assert_int_equal(image_build_id_note(exact, sizeof(exact), 8, id), 0);
	/* Padded to 8. */
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, other, 12);
	memcpy(bytes + 32, head, 12);
	memcpy(bytes + 44, "GNU", 4);
	memset(bytes + 48, 0xcd, 20);
	assert_int_equal(image_build_id_note(bytes, 68, 8, id), 20);
	assert_int_equal(image_build_id_note(bytes, 68, 4, id), 0);
	/* A longer id than we keep. */
	head[1] = 100;
	memcpy(bytes, head, 12);
	memcpy(bytes + 12, "GNU", 4);
	assert_int_equal(image_build_id_note(bytes, 116, 4, id), IMAGE_BUILD_ID_MAX);
}

static int symbols_checked;

static int check_image(struct dl_phdr_info *info, size_t size, void *data)
{
	if (strstr(info->dlpi_name, "/libc.so")) {
		assert_ptr_equal((void *)image_symbol(info, "getpid"),
				 dlsym(RTLD_DEFAULT, "getpid"));
		assert_ptr_equal((void *)image_symbol(info, "environ"),
				 dlsym(RTLD_DEFAULT, "environ"));
		assert_int_equal(image_symbol(info, "no_such_symbol_here"), 0);
		assert_int_equal(image_symbol(info, ""), 0);
		symbols_checked += 1;
	} else {
		/* Used by others, defined in libc alone. */
		assert_int_equal(image_symbol(info, "getpid"), 0);
		symbols_checked += 100;
	}
	return 0;
}

static void test_symbol(void **state)
{
	dl_iterate_phdr(check_image, NULL);
	assert_int_equal(symbols_checked % 100, 1);
	assert_true(symbols_checked > 200);
}

static void test_reader(void **state)
{
	uint8_t *pages =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct reader reader;
	uint8_t bytes[8192];
	uint64_t at;
	int way;

	assert_true(pages != MAP_FAILED);
	at = (uint64_t)(uintptr_t)pages;
	memset(pages, 7, 2 * 4096);
	munmap(pages + 2 * 4096, 4096);
	/* Exact, quick, and exact where that is refused. */
	for (way = 0; way < 3; way++) {
		reader_force(way == 2 ? READER_REFUSED : READER_AS_ASKED);
		reader_start(&reader, way != 1);
		assert_int_equal(reader.exact, way == 0);
		memset(bytes, 0, sizeof(bytes));
		assert_int_equal(reader_copy(&reader, bytes, at + 4090, 12), 0);
		assert_int_equal(bytes[0] + bytes[11], 14);
		assert_int_equal(bytes[12], 0);
		assert_int_equal(reader_copy(&reader, bytes, at, 8192), 0);
		assert_int_equal(reader_copy(&reader, bytes, at, 8193), -EFAULT);
		assert_int_equal(reader_copy(&reader, bytes, at + 8191, 2), -EFAULT);
		assert_int_equal(reader_copy(&reader, bytes, at + 8191, 1), 0);
		assert_int_equal(reader_copy(&reader, bytes, at + 8192, 1), -EFAULT);
		assert_int_equal(reader_copy(&reader, bytes, 0, 8), -EFAULT);
		assert_int_equal(reader_copy(&reader, bytes, 8, 8), -EFAULT);
		assert_int_equal(reader_copy(&reader, bytes, UINT64_MAX - 3, 8), -EFAULT);
		assert_int_equal(reader_copy(&reader, bytes, UINT64_C(1) << 60, 8), -EFAULT);
		/* More than is there: what the page has, never an error for the rest. */
		assert_int_equal(reader_copy_some(&reader, bytes, at + 8192 - 100, 50, 400), 100);
		assert_int_equal(reader_copy_some(&reader, bytes, at, 50, 400), 400);
		assert_int_equal(reader_copy_some(&reader, bytes, at + 8192 - 20, 50, 400),
				 -EFAULT);
		assert_int_equal(reader_copy_some(&reader, bytes, UINT64_MAX - 10, 50, 400),
				 -EFAULT);
	}
	reader_force(READER_AS_ASKED);
	munmap(pages, 2 * 4096);
}

typedef int64_t decoder(struct python_lines *, const uint8_t *, size_t, int32_t *);

/* The line at `offset`, with the table given in pieces of `piece` bytes that are refilled as
 * python.c does. */
static int32_t line_at(decoder *decode, const uint8_t *table, size_t size, int64_t offset,
		       size_t piece)
{
	struct python_lines lines;
	int32_t line = -1;
	size_t at;
	int64_t used;

	python_lines_start(&lines, offset, 100);
	for (at = 0; at < size; at += (size_t)used) {
		used = decode(&lines, table + at, size - at < piece ? size - at : piece, &line);
		if (used < 0)
			return line;
		if (!used)
			return -2;
	}
	return -3;
}

static void test_lines(void **state)
{
	/* 3.10: 4 bytes on line +1, 254 on -3, 6 without, 2 on +127. */
	static const uint8_t pairs[] = {4, 1, 254, 0xfd, 6, 0x80, 2, 127};
	/* 3.11: short form, one-line +2, no columns +5, long -20, none, no columns +300, short. */
	static const uint8_t locations[] = {
		0x80 | 0 << 3 | 1,
		0x12, /* 2 units */
		0x80 | 12 << 3 | 0,
		1,
		2, /* 1 unit, +2 */
		0x80 | 13 << 3 | 7,
		10, /* 8 units, +5 */
		0x80 | 14 << 3 | 0,
		41,
		0,
		1,
		1,                  /* 1 unit, -20 */
		0x80 | 15 << 3 | 3, /* 4 units, no line */
		0x80 | 13 << 3 | 0,
		0x40 | (600 & 63),
		600 >> 6, /* 1 unit, +300 */
		0x80 | 9 << 3 | 0,
		0x33, /* 1 unit */
	};
	static const struct {
		int64_t offset;
		int32_t line;
	} want_pairs[] = {{-2, 100}, {0, 101}, {3, 101},   {4, 98},
			  {257, 98}, {258, 0}, {264, 225}, {266, -3}},
	  want[] = {{-2, 100}, {0, 100}, {3, 100}, {4, 102},  {6, 107}, {21, 107},
		    {22, 87},  {24, 0},  {31, 0},  {32, 387}, {34, 387}};
	size_t i, piece;

	for (piece = 2; piece < 9; piece++) {
		for (i = 0; i < sizeof(want_pairs) / sizeof(*want_pairs); i++)
			assert_int_equal(line_at(python_lines_pairs, pairs, sizeof(pairs),
						 want_pairs[i].offset, piece),
					 want_pairs[i].line);
	}
	for (piece = 6; piece < sizeof(locations) + 2; piece++) {
		for (i = 0; i < sizeof(want) / sizeof(*want); i++)
			assert_int_equal(line_at(python_lines_locations, locations,
						 sizeof(locations), want[i].offset, piece),
					 want[i].line);
		assert_true(line_at(python_lines_locations, locations, sizeof(locations), 36,
				    piece) < 0);
	}
}

static void test_layout(void **state)
{
	uint64_t table[PYTHON_DEBUG_WORDS] = {0};
	struct python_layout layout = {0};
	const char *reason = NULL;
	unsigned int i;

	memcpy(table, "xdebugpy", 8);
	table[1] = 0x030d00f0;
	for (i = 3; i < PYTHON_DEBUG_WORDS; i++)
		table[i] = 64 + i;
	table[67] = 64; /* size of the full string, then of the ASCII one */
	table[70] = 40;
	assert_int_equal(python_layout_from_table(table, 0x030d00f0, &layout, &reason), 0);
	assert_int_equal(layout.version, 0x030d);
	assert_int_equal(layout.current_frame, 64 + 23);
	assert_int_equal(layout.code_instructions, 64 + 43);
	assert_int_equal(layout.text_data, 56);
	assert_int_equal(layout.text_ascii_data, 40);
	/* 3.15, a table of another version, a free-threaded build, an offset out of range: refused
	 * with a reason. */
	assert_int_equal(python_layout_from_table(table, 0x030f00f0, &layout, &reason),
			 -EPROTONOSUPPORT);
	assert_string_equal(reason, "version unknown");
	assert_int_equal(python_layout_from_table(table, 0x030e00f0, &layout, &reason),
			 -EPROTONOSUPPORT);
	assert_string_equal(reason, "no table of offsets");
	table[2] = 1;
	assert_int_equal(python_layout_from_table(table, 0x030d00f0, &layout, &reason),
			 -EPROTONOSUPPORT);
	assert_string_equal(reason, "free-threaded build");
	table[2] = 0;
	table[31] = 1 << 20;
	assert_int_equal(python_layout_from_table(table, 0x030d00f0, &layout, &reason),
			 -EPROTONOSUPPORT);
	assert_string_equal(reason, "table of offsets out of range");
	table[31] = 8;
	table[0] = 0;
	assert_int_equal(python_layout_from_table(table, 0x030d00f0, &layout, &reason),
			 -EPROTONOSUPPORT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_note),   cmocka_unit_test(test_symbol),
		cmocka_unit_test(test_reader), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
