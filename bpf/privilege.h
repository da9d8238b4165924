// SPDX-License-Identifier: MIT
/* Which rights watching needs, and which of them the loader lacks. Reads /proc/self/status only. */
#ifndef SLIPSTREAM_PRIVILEGE_H
#define SLIPSTREAM_PRIVILEGE_H

#include <stdbool.h>

#include "watch.h"

enum privilege {
	PRIVILEGE_SYS_PTRACE = 19,
	PRIVILEGE_SYS_ADMIN = 21,
	PRIVILEGE_PERFMON = 38,
	PRIVILEGE_BPF = 39
};

/* That one itself, whatever may stand for it. */
bool privilege_has(enum privilege privilege);

/* Fills `error` for a refused step: which capability is missing, or that none is and what else refuses.
 * Returns -number. */
int privilege_explain(struct watch_error *error, int number, const char *step, bool single);

#endif
