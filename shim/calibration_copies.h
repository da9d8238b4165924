// SPDX-License-Identifier: MIT
/*
 * Copies that a calibration tells apart: what the library and `slipstream calibrate` share of the lines `stage` (tools/calibrate/FORMAT.md).
 */
#ifndef SLIPSTREAM_CALIBRATION_COPIES_H
#define SLIPSTREAM_CALIBRATION_COPIES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The copies that staging tells apart: calibration_copy(), and one whose wait for the stream is left out. Names: DIRECTION FORM STATE of a
 * line, in this order.
 */
#define CALIBRATION_COPIES   9
#define CALIBRATION_UNWAITED 8
#define CALIBRATION_COPY_NAMES                                                                     \
	{                                                                                          \
		"to-device sync idle", "to-device sync busy", "to-device async idle",              \
			"to-device async busy", "from-device sync idle", "from-device sync busy",  \
			"from-device async idle", "from-device async busy",                        \
			"to-device sync unwaited"                                                  \
	}

static inline unsigned int calibration_copy(bool to_device, bool async, bool busy)
{
	return (to_device ? 0 : 4) + (async ? 2 : 0) + busy;
}

#define CALIBRATION_NEVER UINT64_MAX

#endif
