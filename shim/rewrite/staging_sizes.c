// SPDX-License-Identifier: MIT
/*
 * Sizes: from how many bytes on a staged copy is faster than the driver's own. Called first by every copy's hook, so it looks at nothing
 * else. The figures are where the two met on an H200 (driver 580.159); below them the driver copies through a buffer of its own in one
 * go, for which there is no better way.
 */
#include "rewrite/staging.h"

#define KIB ((uint64_t)1024)

/* Bytes from which on staging wins, idle and busy. */
struct least {
	uint64_t idle, busy;
};

static const struct least to_device = {128 * KIB, 128 * KIB};
static const struct least to_device_async = {128 * KIB, 128 * KIB};
static const struct least from_device = {256 * KIB, 256 * KIB};
static const struct least from_device_async = {256 * KIB, 256 * KIB};

/*
 * A copy of more than one chunk waits for its stream, as the driver's own does from here on. Between the two the driver was not seen to, and
 * may be relied on not to.
 */
#define DRIVER_WAITS (16 * 1024 * KIB)

/* Where a wait is left out, each byte that is not waited for wins. */
#define LEAST_WITHOUT_WAIT 1

bool staging_wins(bool is_to_device, bool async, bool busy, bool waits, uint64_t bytes)
{
	const struct least *least = is_to_device ? async ? &to_device_async : &to_device
				    : async      ? &from_device_async
						 : &from_device;

	if (is_to_device && async && busy && bytes > stage_chunk_bytes() && bytes < DRIVER_WAITS)
		return false;
	if (busy && !waits)
		return bytes >= LEAST_WITHOUT_WAIT;
	return bytes >= (busy ? least->busy : least->idle);
}
