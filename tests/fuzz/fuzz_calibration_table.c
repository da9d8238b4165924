// SPDX-License-Identifier: MIT
/*
 * The reader of calibration tables, on any bytes, and the comparison of what it accepts with
 * itself: nothing may differ.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calibrate/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int quiet;
	struct table table;
	char path[64];
	int file;

	if (!quiet) {
		/* Every refusal is a line of its own; the fuzzer's words go to the descriptor and
		 * are kept. */
		stderr = stdout = fopen("/dev/null", "we");
		if (!stderr)
			abort();
		quiet = 1;
	}
	file = memfd_create("table", MFD_CLOEXEC);
	if (file < 0 || write(file, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	for (int partial = 0; partial < 2; partial++) {
		if (table_read(&table, path, partial))
			continue;
		/*
		 * A name said twice with different words differs from itself; said once it cannot.
		 */
		if (table.count && table.count < 32 && table_compare(&table, &table) >= table.count)
			abort();
		table_clear(&table);
	}
	close(file);
	return 0;
}
