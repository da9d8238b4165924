// SPDX-License-Identifier: MIT
/*
 * Names that may be the driver's without being in our table.
 */
#ifndef SLIPSTREAM_ENTRY_NAMES_H
#define SLIPSTREAM_ENTRY_NAMES_H

#include <stdbool.h>

#include "libc.h"

/* strcmp() may be a sanitizer's, which is looking its own functions up by dlsym at this moment and
 * cannot be called yet. */
LIBC_EARLY static inline bool entry_same_name(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return *a == *b;
}

/* cu and a capital letter: no name of cudart, cudnn or cublas. */
bool entry_looks_like_driver_name(const char *name);

#endif
