// SPDX-License-Identifier: MIT
/*
 * Region: the calling thread's stack of region names, in thread-local memory of its own, and how
 * deep it is in allowed-sync scopes. Called by the program through the public header, and by
 * sync.c.
 *
 * A name is copied at begin and interned at the first finding inside it: a program may have regions
 * around code that never waits, and may enter them before there is a record file.
 */
#include "sync/region.h"

#include <string.h>

#include "emit/emit.h"

#define DEPTH_MAX   16
#define NAME_LENGTH 64 /* with the NUL; longer ones are cut */

#define REGION_EXPORT __attribute__((visibility("default")))

/*
 * Written and read by its own thread. `depth` counts on beyond DEPTH_MAX, so that ends fit begins.
 */
static __thread struct {
	uint32_t depth;
	uint32_t allowed;
	char name[DEPTH_MAX][NAME_LENGTH];
} stack __attribute__((tls_model("initial-exec")));

REGION_EXPORT void slipstream_region_begin(const char *name)
{
	uint32_t depth = stack.depth++;

	if (depth >= DEPTH_MAX) {
		emit_note(NOTE_LOST, "regions nested more than 16 deep");
		return;
	}
	strncpy(stack.name[depth], name ? name : "", NAME_LENGTH - 1);
}

REGION_EXPORT void slipstream_region_end(void)
{
	if (stack.depth)
		stack.depth--;
}

REGION_EXPORT void slipstream_allow_begin(const char *reason)
{
	stack.allowed++;
}

REGION_EXPORT void slipstream_allow_end(void)
{
	if (stack.allowed)
		stack.allowed--;
}

uint32_t region_current(void)
{
	uint32_t depth = stack.depth < DEPTH_MAX ? stack.depth : DEPTH_MAX;

	return depth ? emit_region(stack.name[depth - 1]) : 0;
}

bool region_allows(void)
{
	return stack.allowed != 0;
}
