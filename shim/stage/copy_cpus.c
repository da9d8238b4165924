// SPDX-License-Identifier: MIT
/*
 * Copy CPUs: how many processors this process may use (copy_threads.h). Called when the copy threads are started. Relies on the control
 * groups' files where they are commonly mounted; what cannot be read sets no limit. Allocates nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/copy_threads.h"

static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, text, size - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	return true;
}

static void lower(unsigned int *cpus, long long quota, long long period)
{
	if (quota > 0 && period > 0 && (quota + period - 1) / period < *cpus)
		*cpus = (unsigned int)((quota + period - 1) / period);
}

/* "QUOTA PERIOD" of version 2; "max": none. */
static void lower_by_max(unsigned int *cpus, const char *folder)
{
	char path[1200], text[64], *end;
	long long quota;

	if (snprintf(path, sizeof(path), "%s/cpu.max", folder) >= (int)sizeof(path) ||
	    !read_text(path, text, sizeof(text)))
		return;
	quota = strtoll(text, &end, 10);
	if (end != text)
		lower(cpus, quota, strtoll(end, NULL, 10));
}

/* Two files of version 1; -1: none. */
static void lower_by_quota(unsigned int *cpus, const char *folder)
{
	char path[1200], text[64];
	long long quota;

	if (snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder) >= (int)sizeof(path) ||
	    !read_text(path, text, sizeof(text)))
		return;
	quota = strtoll(text, NULL, 10);
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
	if (read_text(path, text, sizeof(text)))
		lower(cpus, quota, strtoll(text, NULL, 10));
}

/* The group and all above it. */
static void lower_by_groups(unsigned int *cpus, const char *mount, char *group,
			    void (*look)(unsigned int *cpus, const char *folder))
{
	char folder[1100], *slash;

	for (;;) {
		if (snprintf(folder, sizeof(folder), "%s%s", mount, group) < (int)sizeof(folder))
			look(cpus, folder);
		slash = strrchr(group, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

static bool is_cpu_group(const char *line)
{
	return strstr(line, ":cpu,") || strstr(line, ":cpu:") || strstr(line, ",cpu:") ||
	       strstr(line, ",cpu,");
}

unsigned int copy_cpus(void)
{
	char text[4096], group[1024], *line, *next;
	unsigned int cpus;
	int saved = errno;
	cpu_set_t set;

	/* Fails where there are more processors than the set has room for: that is enough, then. */
	cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned int)CPU_COUNT(&set) : 64;
	if (read_text("/proc/self/cgroup", text, sizeof(text))) {
		for (line = text; line && *line; line = next) {
			next = strchr(line, '\n');
			if (next)
				*next++ = '\0';
			if (strncmp(line, "0::", 3) == 0) {
				snprintf(group, sizeof(group), "%s", line + 3);
				lower_by_groups(&cpus, "/sys/fs/cgroup", group, lower_by_max);
			} else if (is_cpu_group(line)) {
				snprintf(group, sizeof(group), "%s",
					 strchr(strchr(line, ':') + 1, ':') + 1);
				lower_by_groups(&cpus, "/sys/fs/cgroup/cpu", group, lower_by_quota);
			}
		}
	}
	errno = saved;
	return cpus ? cpus : 1;
}
