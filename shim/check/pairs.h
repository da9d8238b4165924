// SPDX-License-Identifier: MIT
/*
 * Internal: what is remarked only when it was seen again and again, at the same two places (pairs.c). Once may be the end of a phase, or a measurement.
 * Used by the rules of the room, each with a table of its own.
 */
#ifndef SLIPSTREAM_CHECK_PAIRS_H
#define SLIPSTREAM_CHECK_PAIRS_H

#include <stdint.h>

#include "check/internal.h"

#define CHECK_PAIRS_MAX 256

/* Under check_lock(); zero is empty. */
struct check_pairs {
	struct check_pair {
		struct check_side first, second;
		uint32_t count;
	} pairs[CHECK_PAIRS_MAX];
	uint32_t count;
};

/*
 * Remarks to make of the `count`-th time, where `least` are enough: none at first, all that were seen with the one that is enough, one each from then
 * on.
 */
static inline uint32_t check_remarks_due(uint64_t count, uint32_t least)
{
	if (count < least)
		return 0;
	return count == least ? least : 1;
}

/*
 * Seen once more at these two places: how many remarks to make of it. Places are the same by function and site. With no lock held. `lost`: for
 * check_lost(), where there are too many; none is made then.
 */
uint32_t check_pairs_seen(struct check_pairs *pairs, const struct check_side *first,
			  const struct check_side *second, uint32_t least, const char *lost);

#endif
