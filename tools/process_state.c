// SPDX-License-Identifier: MIT
/*
 * Process state (process_state.h): from /proc, since the record file of a killed process looks like
 * that of a live one. Called by the report; relies on /proc being there, else every process without
 * an end counts as gone.
 */
#include "process_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "memory.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now = {0};

	(void)clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t process_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

bool process_runs(uint32_t pid, uint64_t start_ns, uint64_t now_ns)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[64], line[1024], state;
	uint64_t ticks, born_ns, suspended_ns;
	const char *rest;
	size_t length;

	if (start_ns > now_ns)
		return false; /* from another boot */
	(void)snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	length = fread(line, 1, sizeof(line) - 1, file);
	line[length] = '\0';
	rest = strrchr(line, ')'); /* the name before it may hold anything */
	if (!rest || sscanf(rest,
			    ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			    "%*s %*s %" SCNu64,
			    &state, &ticks) != 2)
		return false;
	if (state == 'Z' || state == 'X')
		return false;

	/* Field 22 counts from boot, sleep included; the records' clock leaves sleep out. One tick
	 * of slack for rounding. */
	born_ns = ticks * (NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
	suspended_ns = clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC);
	return born_ns <= start_ns + suspended_ns + NS_PER_SECOND / 50;
}
