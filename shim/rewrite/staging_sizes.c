// SPDX-License-Identifier: MIT
/*
 * Sizes: from how many bytes on a staged copy is faster than the driver's own. Called first by every copy's hook, so it looks at nothing
 * else.
 *
 * The default is where staging won whatever the copy threads were doing (H200, driver 580.159). Up to 2 MiB it wins by a third in a loop, but a program
 * that copies now and then finds the threads asleep, and they are awake later than the driver is done: 222 against 125 us for 1 MiB.
 */
#include "config.h"
#include "rewrite/staging.h"

#define MIB ((uint64_t)1 << 20)

/*
 * A copy of more than one chunk waits for its stream, as the driver's own does from here on. Between the two the driver was not seen to, and
 * may be relied on not to.
 */
#define DRIVER_WAITS (16 * MIB)

bool staging_wins(bool is_to_device, bool async, bool busy, bool waits, uint64_t bytes)
{
	if (is_to_device && async && busy && bytes > stage_chunk_bytes() && bytes < DRIVER_WAITS)
		return false;
	/* Where a wait is left out, each byte that is not waited for wins. More than a chunk waits all the same. */
	if (busy && !waits && bytes <= stage_chunk_bytes())
		return bytes > 0;
	return bytes && bytes >= config.stage_from;
}
