// SPDX-License-Identifier: MIT
/*
 * Where a function's entry can be probed, and what that costs: the kernel emulates some instructions
 * in its trap, and steps through all others out of line, which takes some 15 times as long. Used by
 * the watch's libraries. No state.
 */
#ifndef SLIPSTREAM_PROBE_SITE_H
#define SLIPSTREAM_PROBE_SITE_H

#include <stddef.h>

#include "watch.h"

/*
 * Looks at the first bytes of a function. `ret_skip` becomes how far behind its begin the probe should
 * sit: 4 where a landing pad (endbr64) stands before a cheap instruction, else 0. Arguments and the
 * return address lie where they do at the entry in either case. Bytes that end too early, or code of
 * another machine: WATCH_SITE_STEPPED at 0.
 */
enum watch_site probe_site(const unsigned char *code, size_t size, unsigned int *ret_skip);

#endif
