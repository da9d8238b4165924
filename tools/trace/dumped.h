// SPDX-License-Identifier: MIT
/* Dumped: when the processes of a traced run said their definitions, and whether a snapshot has that. One thread. */
#ifndef SLIPSTREAM_TOOLS_TRACE_DUMPED_H
#define SLIPSTREAM_TOOLS_TRACE_DUMPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held;

struct dumped_process {
	uint32_t pid;
	uint64_t dump_ns
		[2]; /* as in the record file: when the last dump began, and the one before */
	uint64_t dump_events; /* of the last */
	uint64_t end_ns;      /* when it ended, of one that said so; 0: it runs, or was killed */
};

/* Those that are in the trace: who has dumped once. */
struct dumped {
	struct dumped_process *processes;
	size_t count, capacity;
};

/* Reads the record files in `folder`. Just before a snapshot is saved: a later dump is not in it. */
void dumped_read(const char *folder, struct dumped *ret_dumped);
void dumped_done(struct dumped *dumped);

/*
 * The processes of which the snapshot may lack definitions, as "process 12" or "processes 12, 13"; NULL:
 * none. The caller frees. *ret_size: bytes of buffers for each processor that would have held all of them.
 */
char *dumped_missing(const struct dumped *dumped, const struct held *held, uint64_t *ret_size);

#endif
