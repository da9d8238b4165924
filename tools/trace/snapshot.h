// SPDX-License-Identifier: MIT
/* Snapshot: saves what the buffers of a flight recorder hold, and tells how much that is. One thread. */
#ifndef SLIPSTREAM_TOOLS_TRACE_SNAPSHOT_H
#define SLIPSTREAM_TOOLS_TRACE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dumped.h"

struct session;

struct snapshots {
	const char *folder;   /* where they lie, if on this machine */
	const char *records;  /* folder of the record files of the processes */
	uint64_t keep_ns;     /* time that each should hold; 0: its size was asked for */
	uint64_t definitions; /* bytes of the buffers for definitions, for each processor */
	uint64_t told;        /* snapshots about which snapshots_tell() has been asked */
	struct dumped dumped; /* of those that are not told yet */
	/* Of those that were told: there; not whole; not there, or failed. */
	size_t saved, in_part, failed;
};

/* Is there anything to save: a process that has said its definitions? */
bool snapshots_can_hold(const struct snapshots *snapshots);

/*
 * Has the processes repeat their definitions, ASK_MS at most, saves a snapshot and tells. Says what goes
 * wrong, and who did not answer.
 */
void snapshots_save(struct snapshots *snapshots, struct session *session);

/* The daemon has just saved one by itself: remembers what the processes had said by then. */
void snapshots_note(struct snapshots *snapshots);

/* Until no further snapshot comes: the daemon makes them by itself, a moment after their event. */
void snapshots_settle(const struct snapshots *snapshots);

/*
 * A line for each snapshot since the last call that was not saved, holds less time than asked for, or may
 * lack definitions. Counts them. After snapshots_note(). Those with a number below `before`, counted from 0.
 */
void snapshots_tell(struct snapshots *snapshots, uint64_t before);

/* One line on where they are, and whether each can be read by itself. `waits_for_calls`: to be saved by the daemon only. */
void snapshots_say(const struct snapshots *snapshots, bool waits_for_calls);

#endif
