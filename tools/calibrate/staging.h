// SPDX-License-Identifier: MIT
/*
 * Staged copies: from which size on the copies of mode fix are not slower than the driver's own, for each kind of copy that
 * shim/rewrite/staging_sizes.c tells apart.
 *
 * Measured in a process of its own that has the library preloaded (staging_environment()), with both sides in it: each function by the library's
 * wrapper, and by the driver's own address. What is measured by turns has the same pace. tests/bench/sides.h says why that is sound.
 */
#ifndef SLIPSTREAM_CALIBRATE_STAGING_H
#define SLIPSTREAM_CALIBRATE_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAGING_UNIT          "staging"
#define STAGING_UNIT_UNWAITED "staging unwaited" /* its process leaves waits out (relax=order) */

/* Is it a unit of this page? */
bool staging_is_unit(const char *unit);

/*
 * staging_start.c. The parent, once: a folder for the record files. False: told on stderr. The child, before it executes: preloads the library
 * and sets all that it goes by, whatever the user's settings are. The parent, behind the child: what it left goes.
 */
bool staging_open(void);
void staging_environment(const char *unit);
void staging_close(void);

extern bool staging_explains; /* tell the medians of each size on stderr */

/* In such a process: runs the unit's steps. Needs gpu_open(). The exit status, as measure_unit(). */
int staging_measure(const char *unit);

/* staging_judge.c: medians of one size, ns: until the call returned, and until its stream was done. */
struct staging_figures {
	uint64_t call, whole;
};

/*
 * Is the staged copy not slower than the driver's, but for 5 % or 0.3 us? `kernel`: what both waited for besides, the time of a kernel that was
 * before them in the stream; 5 % are of the rest.
 */
bool staging_is_as_fast(struct staging_figures staged, struct staging_figures driver,
			uint64_t kernel);
/* The same of the call alone. */
bool staging_is_call_as_fast(uint64_t staged, uint64_t driver, uint64_t kernel);

/* The smallest size from which on all are as fast; CALIBRATION_NEVER: the largest is not. Sizes in ascending order. */
uint64_t staging_from(const size_t *sizes, const bool *is_as_fast, unsigned int count);

#endif
