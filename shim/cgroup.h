// SPDX-License-Identifier: MIT
/*
 * Control groups: where the limits of the groups stand that this process is in. Used by the pool, for memory, and by the copy threads, for
 * processors. Relies on /proc and on the groups' files where they are commonly mounted; what cannot be read sets no limit. Any thread;
 * allocates nothing.
 */
#ifndef SLIPSTREAM_CGROUP_H
#define SLIPSTREAM_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* Looks at the files of one group; `folder` is its, `unified`: of version 2, whose files have other names than those of version 1. */
typedef void cgroup_look(void *data, const char *folder, bool unified);

/* The process's group of the controller and all above it: a limit of any of them holds. Keeps errno. */
void cgroup_walk(const char *controller, cgroup_look *look, void *data);

/* For look(): a file's text, with an end mark, cut off behind size - 1 bytes. False: no such file, or nothing in it. */
bool cgroup_read(const char *folder, const char *file, char *ret_text, size_t size);

#endif
