// SPDX-License-Identifier: MIT
/*
 * Region: what the public header (include/slipstream/slipstream.h) tells of the calling thread. The
 * four exported functions may be called from any thread at any time, before any driver call too;
 * begin and end nest, deeper than the bound is counted and forgotten.
 */
#ifndef SLIPSTREAM_SYNC_REGION_H
#define SLIPSTREAM_SYNC_REGION_H

#include <stdbool.h>
#include <stdint.h>

void slipstream_region_begin(const char *name);
void slipstream_region_end(void);
void slipstream_allow_begin(const char *reason);
void slipstream_allow_end(void);

/* Id of the calling thread's innermost region, 0: none. */
uint32_t region_current(void);
/* Inside an allowed-sync scope? */
bool region_allows(void);

#endif
