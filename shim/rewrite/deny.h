// SPDX-License-Identifier: MIT
/*
 * Deny: call sites at which mode fix makes no rewrite (SLIPSTREAM_DENY=FILE). Called by every rewrite, with one line, behind all its other
 * objections and right before it does anything in the driver's place:
 *
 *	if (rewrite_denied(call, CONFIG_FIX_PINNED))
 *		return false;
 *
 * What a denied call does is the rewrite's own matter: the driver's way, with the driver's waits. Without a list this is one load. With
 * one, even an empty one, the stack is taken, and each site that asks is left in the record file (RECORD_REWRITE_SITE) with the number of
 * its calls: `slipstream bisect` searches among them, and the report names their keys.
 *
 * The file's form is deny_list.h's. A file that cannot be read or has a bad line turns all rewrites off, which a note says: who
 * denies a site wants it denied.
 */
#ifndef SLIPSTREAM_REWRITE_DENY_H
#define SLIPSTREAM_REWRITE_DENY_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

struct call;

/* Not 0: there is a list. Written once, before rewrite_on. */
extern uint32_t deny_on;

/* Slow way of rewrite_denied(). Any thread, no lock held; takes the stack; keeps errno. */
bool deny_ask(const struct call *call, enum config_fix rewrite);

/* Must this call be left to the driver? Counts it at its site, denied or not. `rewrite`: one bit. */
static inline bool rewrite_denied(const struct call *call, enum config_fix rewrite)
{
	return __builtin_expect(__atomic_load_n(&deny_on, __ATOMIC_RELAXED), 0) &&
	       deny_ask(call, rewrite);
}

/* Reads the list, if the settings name one. Once, before the first rewrite. NULL, or why no rewrite may be made: a constant text. */
const char *deny_start(void);

#endif
