// SPDX-License-Identifier: MIT
/*
 * Which capabilities this process has, and which of them watching from the kernel needs. Reads /proc/self/status only, loads nothing. For the
 * watch (watch.h) and for the doctor, which has nothing else of it.
 */
#ifndef SLIPSTREAM_CAPABILITY_H
#define SLIPSTREAM_CAPABILITY_H

#include <stdbool.h>

enum capability {
	CAPABILITY_SYS_PTRACE = 19,
	CAPABILITY_SYS_ADMIN = 21,
	CAPABILITY_PERFMON = 38,
	CAPABILITY_BPF = 39,
};

/* That one itself, whatever may stand for it. */
bool capability_is_there(enum capability capability);

/* Capability that watching would need and this process lacks, NULL: none. `single`: without common probes.
 * `ret_what` becomes what it is needed for. */
const char *watch_missing_capability(bool single, const char **ret_what);

#endif
