// SPDX-License-Identifier: MIT
/* Sums of what files and traces say, which may be hostile: they stop at the most that there is, and never wrap. */
#ifndef SLIPSTREAM_TOOLS_SUM_H
#define SLIPSTREAM_TOOLS_SUM_H

#include <stdint.h>

static inline void sum_add(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

#endif
