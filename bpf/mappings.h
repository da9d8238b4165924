// SPDX-License-Identifier: MIT
/*
 * The kernel's messages about new code mappings, forks and started programs on the whole machine: a
 * software event on every processor, as perf uses it. Needs CAP_PERFMON; without it mappings are read
 * from /proc/PID/maps, and those of processes that end soon are not known. One thread.
 */
#ifndef SLIPSTREAM_MAPPINGS_H
#define SLIPSTREAM_MAPPINGS_H

#include <stdint.h>

#include "places.h"

struct mappings;

/* 0 or -errno: EPERM or EACCES without the capability. */
int mappings_open(struct mappings **ret_mappings);
/*
 * Hands over what has come: into `places`, mappings also to `each`. Returns the number of messages that
 * were lost because nobody came in time, or that `places` had no room for.
 */
uint64_t mappings_drain(struct mappings *mappings, struct places *places,
			void (*each)(pid_t process, const struct place *place, void *data),
			void *data);
void mappings_done(struct mappings *mappings);

#endif
