// SPDX-License-Identifier: MIT
/*
 * Fuzzer of shim/sync/unwind.c: any bytes as a function's call frame information, and its
 * expressions run. What it reads through is our own memory at best, so that only a fault or a read
 * beyond the bytes can go wrong.
 */
#include "../../shim/sync/unwind.c"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const struct module_range *module_range_find(const struct module_table *table, uint64_t address)
{
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame frame = {.known = (1 << UNWIND_REGISTERS) - 1};
	struct description description = {.start = 0x1000};
	struct unwind_rule rule = {.stamp = 0};
	struct reader reader;
	uint8_t *common, *own;
	size_t common_size, own_size;
	struct row row;
	struct unwind_trace trace = {.from = 1};
	uint64_t value, origin;
	int i;

	if (size < 12 || size > 1024)
		return 0;
	/* Copies of their own, so that a read beyond them is found. */
	common_size = 4 + data[0] % (size - 10);
	own_size = size - 2 - common_size;
	if (own_size < 4)
		return 0;
	common = malloc(common_size);
	own = malloc(own_size);
	memcpy(common, data + 2, common_size);
	memcpy(own, data + 2 + common_size, own_size);
	for (i = 0; i < UNWIND_REGISTERS; i++)
		frame.registers[i] = (uint64_t)(uintptr_t)&frame;
	reader_start(&reader, false);
	if (describe(common, common_size, own, own_size, 0x1000 + data[1], &description, &row)) {
		if (row.base == 255)
			evaluate(&reader, &trace, &frame, row.expression, row.length, false, 0,
				 &value);
		for (i = 0; i < UNWIND_REGISTERS; i++)
			restore(&reader, &trace, &frame, &row.values[i], (uint64_t)(uintptr_t)&row,
				&value, &origin);
		keep_rule(&rule, &row, 0x1000, 1, description.is_signal);
		if (rule.stamp)
			step_by_rule(&reader, &trace, &rule, &frame);
	}
	free(common);
	free(own);
	return 0;
}
