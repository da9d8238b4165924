/* SPDX-License-Identifier: MIT */
/*
 * The scopes that every form of the header test walks through, as C and as C++; and what the
 * provider must have seen. Kept free of other includes, so that the header is seen to need none.
 */
#ifndef TESTS_HEADER_SCOPES_H
#define TESTS_HEADER_SCOPES_H

#include <slipstream/slipstream.h>

/* Leaves by return from the inner scope: the scopes must close inside out. */
static inline int scopes_leave_early(int leave)
{
	SLIPSTREAM_REGION("outer");
	{
		SLIPSTREAM_ALLOW_SYNC("wanted");
		if (leave)
			return 1;
	}
	{
		SLIPSTREAM_REGION("second");
	}
	return 0;
}

static inline int scopes_walk(void)
{
	int i, result = 0;

	for (i = 0; i < 2; i++) {
		SLIPSTREAM_REGION("loop");
		if (i == 0)
			continue;
		result++;
	}
	slipstream_region_begin("plain");
	slipstream_allow_begin("because");
	slipstream_allow_end();
	slipstream_region_end();
	slipstream_step();
	return result + scopes_leave_early(0) + scopes_leave_early(1);
}

#define SCOPES_RESULT 2
/* `step`: what the provider writes of a step; an older one has none. */
#define SCOPES_JOURNAL(step)                                                                       \
	"(loop ) (loop ) (plain <because > ) " step                                                \
	"(outer <wanted > (second ) ) (outer <wanted > ) "

#endif
