// SPDX-License-Identifier: MIT
/*
 * Calibration: the table of idle costs, and of sizes from which on staged copies win, that
 * `slipstream calibrate` writes and the shim loads (SLIPSTREAM_CALIBRATION=file).
 *
 * tools/calibrate/FORMAT.md says what the file holds. Of interest here are the first line, the
 * lines
 *
 *	idle FUNCTION SOURCE DESTINATION SIZE_CLASS NS
 *	driver N
 *	gpu NAME
 *	stage DIRECTION FORM STATE FROM
 *
 * and the last one, a checksum over all bytes before it. Lines of other kinds are skipped, and so
 * are functions that this build does not know, so that a table outlives a shim. Anything else that
 * does not fit makes the whole file be ignored, with one line on stderr that says where and why.
 */
#ifndef SLIPSTREAM_SYNC_CALIBRATION_H
#define SLIPSTREAM_SYNC_CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calibration_copies.h"

#define CALIBRATION_FIRST_LINE "slipstream-calibration 1"
#define CALIBRATION_SIZE_MAX   ((size_t)4 << 20)

struct calibration_entry {
	uint16_t function;
	uint8_t source_kind, destination_kind; /* enum memory_kind */
	uint8_t size_class;
	uint32_t idle_ns;
};

#define CALIBRATION_FROM_MAX (UINT64_C(1) << 40)
#define CALIBRATION_GPU      128

struct calibration_stage {
	uint32_t copies;                   /* bit n: there is a line of the n-th */
	uint64_t from[CALIBRATION_COPIES]; /* bytes, or CALIBRATION_NEVER */
	/* What they were measured on. */
	int driver;                /* as cuDriverGetVersion; 0: not said */
	char gpu[CALIBRATION_GPU]; /* empty: not said */
};

/*
 * Reads the text. Every entry is given to `take` (which answers 0, or -errno to stop); NULL only
 * checks. What it says of staged copies goes to ret_stage, if not NULL. 0, or -EINVAL with the line number and what is wrong with it (a
 * constant text); ret_stage then means nothing.
 */
int calibration_parse(const char *text, size_t size,
		      int (*take)(void *context, const struct calibration_entry *entry),
		      void *context, struct calibration_stage *ret_stage, unsigned int *ret_line,
		      const char **ret_problem);

/*
 * Reads the file for the shim: checks it, then fills the idle table and what calibration_stage() returns. Prints one
 * line on failure.
 */
void calibration_load(const char *path);

/* From which sizes on staged copies win, as the loaded file says; NULL: it says nothing of them. Constant after calibration_load(). */
const struct calibration_stage *calibration_stage(void);

#endif
