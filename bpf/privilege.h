// SPDX-License-Identifier: MIT
/* What is told where the kernel refuses a step of the watch. */
#ifndef SLIPSTREAM_PRIVILEGE_H
#define SLIPSTREAM_PRIVILEGE_H

#include "watch.h"

/* Fills `error` for a refused step: which capability is missing, or that none is and what else refuses.
 * Returns -number. */
int privilege_explain(struct watch_error *error, int number, const char *step, bool single);

#endif
