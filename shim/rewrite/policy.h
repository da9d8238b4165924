// SPDX-License-Identifier: MIT
/*
 * Policy: under which tools mode fix makes no rewrite. Who debugs or checks a program wants to see its own calls: a recycled block hides a use after
 * its free from compute-sanitizer, and a call that the driver never sees is in no profile. Observing goes on.
 */
#ifndef SLIPSTREAM_REWRITE_POLICY_H
#define SLIPSTREAM_REWRITE_POLICY_H

#include <stddef.h>

#define POLICY_REASON 160

/*
 * NULL: no sign of any tool; else why no rewrite may be made, in `reason`: "off: ...". Once, at cuInit; a tool that comes later is not seen.
 * Takes the lock of the loader's list; keeps errno.
 */
const char *policy_objection(char reason[POLICY_REASON]);

#endif
