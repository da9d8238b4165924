// SPDX-License-Identifier: MIT
/*
 * Sizes: from how many bytes on a staged copy is faster than the driver's own. Called first by every copy's hook, so it looks at nothing
 * else. Relies on calibration.h for what was measured on this machine.
 *
 * The default is where staging won whatever the copy threads were doing (H200, driver 580.159). Up to 2 MiB it wins by a third in a loop, but a program
 * that copies now and then finds the threads asleep, and they are awake later than the driver is done: 222 against 125 us for 1 MiB.
 *
 * A calibration table has a size for each copy that is told apart here (`slipstream calibrate` asks for both, too). It is gone by where it was
 * measured on devices and a driver like those that are there, and where the user asked for no size: then for each copy of which it says one.
 */
#include <string.h>

#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "rewrite/staging.h"
#include "sync/calibration.h"

#define MIB ((uint64_t)1 << 20)

/*
 * A copy of more than one chunk waits for its stream, as the driver's own does from here on. Between the two the driver was not seen to, and
 * may be relied on not to.
 */
#define DRIVER_WAITS (16 * MIB)

/*
 * The source is read while something else is waited for, so it need not be read faster than by the driver. H200, 1 MiB behind 100 us of kernels, over and
 * over: 154 us a time, 249 by the driver (tests/bench/twins.py --programs upload-small). Of less the threads are awake too late.
 */
#define READ_FIRST_FROM (MIB / 2)

/* Of the calibration; NULL: the default. Written before staging begins, constant then. */
static const struct calibration_stage *measured;
uint64_t staging_least, staging_read_first_from;

/* Is this driver and each device what the table was measured on? */
static bool is_measured_here(const struct calibration_stage *stage)
{
	int version = 0, count = 0;
	char name[CALIBRATION_GPU];
	CUdevice device;

	if (!driver.cuDriverGetVersion || !driver.cuDeviceGetCount || !driver.cuDeviceGetName)
		return false;
	if (driver.cuDriverGetVersion(&version) != CUDA_SUCCESS || version != stage->driver ||
	    driver.cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return false;
	for (device = 0; device < count; device++) {
		name[0] = '\0';
		if (driver.cuDeviceGetName(name, sizeof(name), device) != CUDA_SUCCESS)
			return false;
		name[sizeof(name) - 1] = '\0';
		if (strcmp(name, stage->gpu) != 0)
			return false;
	}
	return count > 0;
}

/* Sets `measured`. */
static void choose(void)
{
	const struct calibration_stage *stage = calibration_stage();

	measured = NULL;
	if (!stage || !(config.fix & CONFIG_FIX_STAGING))
		return;
	if (config_is_chosen(&config.stage_from)) {
		emit_note(NOTE_SIZES, "not the calibration's: SLIPSTREAM_STAGE_FROM is set");
	} else if (!is_measured_here(stage)) {
		emit_note(NOTE_SIZES, "not the calibration's: it was measured on another GPU or "
				      "driver");
	} else {
		measured = stage;
		emit_note(NOTE_SIZES, "the calibration's");
	}
}

void staging_sizes_start(void)
{
	unsigned int copy;

	choose();
	staging_least = config.stage_from;
	staging_read_first_from =
		config_is_chosen(&config.stage_from) ? config.stage_from : READ_FIRST_FROM;
	for (copy = 0; measured && copy < CALIBRATION_COPIES; copy++)
		if (copy != CALIBRATION_UNWAITED && measured->copies & (1U << copy) &&
		    measured->from[copy] < staging_least)
			staging_least = measured->from[copy];
}

static bool is_from(unsigned int copy, uint64_t fallback, uint64_t bytes)
{
	if (measured && measured->copies & (1U << copy))
		fallback = measured->from[copy];
	return bytes && bytes >= fallback;
}

bool staging_wins(bool is_to_device, bool async, bool busy, bool waits, uint64_t bytes)
{
	if (is_to_device && async && busy && bytes > stage_chunk_bytes() && bytes < DRIVER_WAITS)
		return false;
	/* Where a wait is left out, each byte that is not waited for wins. More than a chunk waits all the same. */
	if (busy && !waits && bytes <= stage_chunk_bytes())
		return is_from(CALIBRATION_UNWAITED, 1, bytes);
	return is_from(calibration_copy(is_to_device, async, busy), config.stage_from, bytes);
}
