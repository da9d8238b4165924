// SPDX-License-Identifier: MIT
/*
 * Copy CPUs: how many processors this process may use (copy_threads.h). Called when the copy threads are started. Relies on cgroup.h; what
 * cannot be read sets no limit. Allocates nothing.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "cgroup.h"
#include "stage/copy_threads.h"

static void lower(unsigned int *cpus, long long quota, long long period)
{
	if (quota > 0 && period > 0 && (quota + period - 1) / period < *cpus)
		*cpus = (unsigned int)((quota + period - 1) / period);
}

/* "QUOTA PERIOD" of version 2; "max": none. */
static void lower_by_max(unsigned int *cpus, const char *folder)
{
	char text[64], *end;
	long long quota;

	if (!cgroup_read(folder, "cpu.max", text, sizeof(text)))
		return;
	quota = strtoll(text, &end, 10);
	if (end != text)
		lower(cpus, quota, strtoll(end, NULL, 10));
}

/* Two files of version 1; -1: none. */
static void lower_by_quota(unsigned int *cpus, const char *folder)
{
	char text[64];
	long long quota;

	if (!cgroup_read(folder, "cpu.cfs_quota_us", text, sizeof(text)))
		return;
	quota = strtoll(text, NULL, 10);
	if (cgroup_read(folder, "cpu.cfs_period_us", text, sizeof(text)))
		lower(cpus, quota, strtoll(text, NULL, 10));
}

static void look(void *data, const char *folder, bool unified)
{
	if (unified)
		lower_by_max(data, folder);
	else
		lower_by_quota(data, folder);
}

unsigned int copy_cpus(void)
{
	unsigned int cpus;
	int saved = errno;
	cpu_set_t set;

	/* Fails where there are more processors than the set has room for: that is enough, then. */
	cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned int)CPU_COUNT(&set) : 64;
	cgroup_walk("cpu", look, &cpus);
	errno = saved;
	return cpus ? cpus : 1;
}
