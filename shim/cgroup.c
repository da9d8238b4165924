// SPDX-License-Identifier: MIT
/*
 * Control groups (cgroup.h).
 */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "uncancelled.h"

static bool read_text(const char *path, char *ret_text, size_t size)
{
	int fd = uncancelled_open(path, O_RDONLY | O_CLOEXEC, 0);
	ssize_t length;

	if (fd < 0)
		return false;
	length = uncancelled_read(fd, ret_text, size - 1);
	uncancelled_close(fd);
	if (length <= 0)
		return false;
	ret_text[length] = '\0';
	return true;
}

bool cgroup_read(const char *folder, const char *file, char *ret_text, size_t size)
{
	char path[1200];

	return snprintf(path, sizeof(path), "%s/%s", folder, file) < (int)sizeof(path) &&
	       read_text(path, ret_text, size);
}

static void walk_up(const char *mount, const char *group, bool unified, cgroup_look *look,
		    void *data)
{
	char folder[1100], *slash;
	size_t least = strlen(mount);

	/* Of a name that is too long its parents are looked at all the same. */
	snprintf(folder, sizeof(folder), "%s%s", mount, group);
	for (;;) {
		look(data, folder, unified);
		slash = strrchr(folder + least, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

/* Is the controller one of a list like "cpu,cpuacct"? */
static bool is_among(const char *list, size_t length, const char *controller)
{
	size_t wanted = strlen(controller), word;

	for (;;) {
		word = strcspn(list, ",:");
		if (word == wanted && !strncmp(list, controller, wanted))
			return true;
		if (word >= length)
			return false;
		list += word + 1;
		length -= word + 1;
	}
}

/* "NUMBER:CONTROLLERS:GROUP"; those of version 2 have no controllers. */
static void look_at(const char *line, const char *controller, cgroup_look *look, void *data)
{
	const char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
	char mount[64];

	if (!group)
		return;
	list++;
	if (!strncmp(line, "0::", 3)) {
		walk_up("/sys/fs/cgroup", group + 1, true, look, data);
	} else if (is_among(list, (size_t)(group - list), controller)) {
		snprintf(mount, sizeof(mount), "/sys/fs/cgroup/%s", controller);
		walk_up(mount, group + 1, false, look, data);
	}
}

void cgroup_walk(const char *controller, cgroup_look *look, void *data)
{
	char text[4096], *line, *next;
	int saved = errno;

	if (!read_text("/proc/self/cgroup", text, sizeof(text)))
		text[0] = '\0';
	for (line = text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		look_at(line, controller, look, data);
	}
	errno = saved;
}
