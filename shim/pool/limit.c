// SPDX-License-Identifier: MIT
/*
 * Limit: how much memory the pool may hold (pool.h). Called once, after cuInit. Relies on cgroup.h; what cannot be read sets no limit.
 * Allocates nothing.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cgroup.h"
#include "config.h"
#include "pool/pool.h"

static void lower(void *data, const char *folder, bool unified)
{
	uint64_t *limit = data, number;
	char text[64], *end;

	if (!cgroup_read(folder, unified ? "memory.max" : "memory.limit_in_bytes", text,
			 sizeof(text)))
		return;
	number = strtoull(text, &end, 10); /* "max": no number */
	if (end != text && number < *limit)
		*limit = number;
}

uint64_t pool_limit_of(uint64_t setting)
{
	uint64_t limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	if (!(setting & CONFIG_PERCENT))
		return setting;
	cgroup_walk("memory", lower, &limit);
	return limit / 100 * (setting & ~CONFIG_PERCENT);
}
