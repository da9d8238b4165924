// SPDX-License-Identifier: MIT
/*
 * Work items: what an operation or a graph node does, as a value. Owns: copying and clearing them,
 * their names in the journal. Called by: everything that submits.
 */
#include "sim.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sim_work_copy(struct sim_work *to, const struct sim_work *from)
{
	*to = *from;
	if (!from->bytes)
		return 0;
	to->bytes = malloc(from->byte_count ? from->byte_count : 1);
	if (!to->bytes)
		return -ENOMEM;
	memcpy(to->bytes, from->bytes, from->byte_count);
	return 0;
}

void sim_work_clear(struct sim_work *work)
{
	free(work->bytes);
	work->bytes = NULL;
}

const char *sim_work_name(const struct sim_work *work)
{
	static const char *const names[] = {
		[SIM_EMPTY] = "empty",
		[SIM_COPY] = "copy",
		[SIM_MEMSET] = "memset",
		[SIM_HOST_FUNCTION] = "host-function",
		[SIM_EVENT_RECORD] = "record",
		[SIM_EVENT_WAIT] = "wait",
		[SIM_VALUE_WAIT] = "value-wait",
		[SIM_VALUE_WRITE] = "value-write",
		[SIM_ALLOC] = "alloc",
		[SIM_FREE_ASYNC] = "free",
		[SIM_CHILD_GRAPH] = "child-graph",
		[SIM_BATCH] = "batch",
	};

	if (work->kind == SIM_KERNEL)
		return work->kernel.builtin ? work->kernel.builtin->name : "kernel";
	return names[work->kind];
}
