// SPDX-License-Identifier: MIT
/*
 * Open: the blocks that the program has, for a trace's dump of open allocations. Relies on state's table, which keeps what the driver has;
 * held blocks are in it or not, as they were freed, and none of them is the program's.
 */
#include "emit/emit.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "state/state.h"

/* False: it is held. Else its size as the program asked for it. */
static bool is_the_programs(struct emit_allocation *allocation)
{
	struct pool_block block;

	switch (pool_look(allocation->address, &block)) {
	case POOL_NOT_OURS:
		return true;
	case POOL_LIVE:
		allocation->bytes = block.requested;
		return true;
	default:
		return false;
	}
}

size_t rewrite_open_allocations(uint64_t after, struct emit_allocation *ret_found, size_t most)
{
	size_t kept = 0, end, i;

	if (!rewrite_active())
		return state_open_allocations(after, ret_found, most);
	do {
		end = kept + state_open_allocations(after, &ret_found[kept], most - kept);
		for (i = kept; i < end; i++) {
			after = ret_found[i].address;
			if (is_the_programs(&ret_found[i]))
				ret_found[kept++] = ret_found[i];
		}
		/* Fewer than asked for mean that there are no more, to the caller too. */
	} while (end == most && kept < most);
	return kept;
}
