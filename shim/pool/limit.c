// SPDX-License-Identifier: MIT
/*
 * Limit: how much memory the pool may hold (pool.h). Called once, after cuInit. Relies on /proc and on the control groups' files where
 * they are commonly mounted; what cannot be read sets no limit. Allocates nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "pool/pool.h"

/* False: no such file, or nothing in it. */
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

static void lower(uint64_t *limit, const char *path)
{
	char text[64], *end;
	uint64_t number;

	if (!read_text(path, text, sizeof(text)))
		return;
	number = strtoull(text, &end, 10); /* "max": no number */
	if (end != text && number < *limit)
		*limit = number;
}

/* The group and all above it. */
static void lower_by_groups(uint64_t *limit, const char *mount, const char *file, char *group)
{
	char path[1200], *slash;

	for (;;) {
		if (snprintf(path, sizeof(path), "%s%s/%s", mount, group, file) < (int)sizeof(path))
			lower(limit, path);
		slash = strrchr(group, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

uint64_t pool_limit_of(uint64_t setting)
{
	uint64_t limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	char text[4096], group[1024], *line, *next;
	int saved = errno;

	if (!(setting & CONFIG_PERCENT))
		return setting;
	if (read_text("/proc/self/cgroup", text, sizeof(text))) {
		for (line = text; line && *line; line = next) {
			next = strchr(line, '\n');
			if (next)
				*next++ = '\0';
			if (strncmp(line, "0::", 3) == 0) {
				snprintf(group, sizeof(group), "%s", line + 3);
				lower_by_groups(&limit, "/sys/fs/cgroup", "memory.max", group);
			} else if (strstr(line, ":memory:")) {
				snprintf(group, sizeof(group), "%s", strstr(line, ":memory:") + 8);
				lower_by_groups(&limit, "/sys/fs/cgroup/memory",
						"memory.limit_in_bytes", group);
			}
		}
	}
	errno = saved;
	return limit / 100 * (setting & ~CONFIG_PERCENT);
}
