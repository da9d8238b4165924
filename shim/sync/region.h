// SPDX-License-Identifier: MIT
/*
 * Region: what the program says it is doing. Three sources: the public header (include/slipstream/slipstream.h), NVTX ranges (nvtx.c), steps
 * (step.h). Regions of the first two belong to the thread that began them, and nest; a step is the whole process's, and lies around them.
 *
 * The exported functions may be called from any thread at any time, before any driver call too. Deeper than the bounds regions are counted
 * and forgotten; the one around them stands for them. Signal handlers may begin regions, too, and end them.
 */
#ifndef SLIPSTREAM_SYNC_REGION_H
#define SLIPSTREAM_SYNC_REGION_H

#include <stdbool.h>
#include <stdint.h>

struct emit_spent;

void slipstream_region_begin(const char *name);
void slipstream_region_end(void);
void slipstream_allow_begin(const char *reason);
void slipstream_allow_end(void);
void slipstream_step(void);

#define REGION_NAME_LENGTH 64 /* with the NUL; longer ones are cut */

/* `into`: REGION_NAME_LENGTH bytes; what is longer is cut. */
void region_copy_name(char *into, const char *name);

/* Who began a region: an end ends the innermost of its own source. NVTX has a source for each domain. */
#define REGION_OF_HEADER 0

/*
 * `name` NULL: no region, only its place among the others of its source. Returns how many regions of this source were open in this thread
 * (region_end(): are still open), -1 where it ended none. Of the calling thread alone, signal handlers included; both keep errno.
 */
int region_begin(uint16_t source, const char *name);
int region_end(uint16_t source);

/* Id of the calling thread's innermost region, or of the step; 0: none. */
uint32_t region_current(void);
/* Inside an allowed-sync scope? */
bool region_allows(void);
/* False: a child that was just forked, which has its parent's record file mapped until its first driver call. */
bool region_is_own_process(void);
/* One finding of the calling thread: for each entry of a region around it, and for the step. Keeps errno. */
void region_count(const struct emit_spent *spent);

#endif
