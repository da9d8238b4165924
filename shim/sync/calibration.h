// SPDX-License-Identifier: MIT
/*
 * Calibration: the table of idle costs that `slipstream calibrate` writes and the shim loads
 * (SLIPSTREAM_CALIBRATION=file).
 *
 * tools/calibrate/FORMAT.md says what the file holds. Of interest here are the first line, the
 * lines
 *
 *	idle FUNCTION SOURCE DESTINATION SIZE_CLASS NS
 *
 * and the last one, a checksum over all bytes before it. Lines of other kinds are skipped, and so
 * are functions that this build does not know, so that a table outlives a shim. Anything else that
 * does not fit makes the whole file be ignored, with one line on stderr that says where and why.
 */
#ifndef SLIPSTREAM_SYNC_CALIBRATION_H
#define SLIPSTREAM_SYNC_CALIBRATION_H

#include <stddef.h>
#include <stdint.h>

#define CALIBRATION_FIRST_LINE "slipstream-calibration 1"
#define CALIBRATION_SIZE_MAX   ((size_t)4 << 20)

struct calibration_entry {
	uint16_t function;
	uint8_t source_kind, destination_kind; /* enum memory_kind */
	uint8_t size_class;
	uint32_t idle_ns;
};

/*
 * Reads the text. Every entry is given to `take` (which answers 0, or -errno to stop); NULL only
 * checks. 0, or -EINVAL with the line number and what is wrong with it (a constant text).
 */
int calibration_parse(const char *text, size_t size,
		      int (*take)(void *context, const struct calibration_entry *entry),
		      void *context, unsigned int *ret_line, const char **ret_problem);

/* Reads the file for the shim: checks it, then fills the idle table. Prints one line on failure. */
void calibration_load(const char *path);

#endif
