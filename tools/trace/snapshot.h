// SPDX-License-Identifier: MIT
/* Snapshot: saves what the buffers of a flight recorder hold, and tells how much that is. One thread. */
#ifndef SLIPSTREAM_TOOLS_TRACE_SNAPSHOT_H
#define SLIPSTREAM_TOOLS_TRACE_SNAPSHOT_H

#include <stdint.h>

struct session;

struct snapshots {
	const char *folder;  /* where they lie, if on this machine */
	const char *records; /* folder of the record files of the processes */
	uint64_t keep_ns;    /* time that each should hold; 0: its size was asked for */
	uint64_t told;       /* snapshots about which snapshots_tell() has been asked */
};

/*
 * Has the processes repeat their definitions, ASK_MS at most, and saves a snapshot. Says what goes wrong,
 * and who did not answer.
 */
void snapshots_save(const struct snapshots *snapshots, struct session *session);

/* Until no further snapshot comes: the daemon makes them by itself, a moment after their event. */
void snapshots_settle(const struct snapshots *snapshots);

/*
 * A line for each snapshot since the last call that holds less time than asked for. Those of which that
 * cannot be found out are passed over.
 */
void snapshots_tell(struct snapshots *snapshots);

#endif
