// SPDX-License-Identifier: MIT
/*
 * Names that may be the driver's without being in our table.
 */
#ifndef SLIPSTREAM_ENTRY_NAMES_H
#define SLIPSTREAM_ENTRY_NAMES_H

#include <stdbool.h>

/* cu and a capital letter: no name of cudart, cudnn or cublas. */
bool entry_looks_like_driver_name(const char *name);

#endif
