/* SPDX-License-Identifier: MIT */
/*
 * What a case expects, what has to succeed, and what it says: stdout, compared with what it is without the rewrite.
 */
#ifndef STREAMS_CHECK_H
#define STREAMS_CHECK_H

#include "../expect.h"

/* A status that is compared with what it is without the rewrite. */
#define SAY(call) printf("%d: %s: %d\n", __LINE__, #call, (int)(call))

#endif
