// SPDX-License-Identifier: MIT
/*
 * Snapshot (snapshot.h). Called by trace.c. Relies on session.c for saving, on ask.c for definitions of now,
 * and on held.c and dumped.c for what a snapshot has in the end.
 */
#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>

#include "ask.h"
#include "command.h"
#include "folder.h"
#include "held.h"
#include "memory.h"
#include "session.h"
#include "text.h"

#define SETTLE_MS 300 /* a snapshot that an event asks for begins within that time */

static void tell_time(const struct snapshots *snapshots, const char *name, const struct held *held)
{
	uint64_t ns = held->events_end_ns - held->events_since_ns;
	char figure[2][TEXT_FIGURE];

	if (held->is_odd || !held->events_since_ns ||
	    held->events_since_ns >= held->events_end_ns || ns >= snapshots->keep_ns)
		return;
	command_say(
		"%s holds the last %s of the %s asked for: the program fills the buffers faster "
		"than expected (--snapshot=SIZE makes them larger)",
		name, text_ns(ns, figure[0]), text_ns(snapshots->keep_ns, figure[1]));
}

/* Has it what everything in it is named by? */
static bool tell_definitions(const struct snapshots *snapshots, const char *name,
			     const struct held *held)
{
	uint64_t size;
	_cleanup_free_ char *missing = dumped_missing(&snapshots->dumped, held, &size);

	if (!missing)
		return true;
	if (size <= snapshots->definitions)
		size = snapshots->definitions * 2;
	command_say("%s may lack definitions of %s: they were overwritten before it was saved "
		    "(--definitions=%" PRIu64 "M would have held them)",
		    name, missing, (size + (1U << 20) - 1) >> 20);
	return false;
}

static void tell(struct snapshots *snapshots, const char *name)
{
	_cleanup_free_ char *path = memory_format("%s/%s", snapshots->folder, name);
	struct held held;

	held_read(path, &held);
	if (!held.is_saved) {
		snapshots->failed++;
		command_say("%s was not saved: %s", name,
			    snapshots->dumped.count ? "there is no trace in it"
						    : "no process was in the trace");
		return;
	}
	snapshots->saved++;
	tell_time(snapshots, name, &held);
	if (held.is_odd)
		command_say("%s is damaged: a file of it is cut", name);
	if (!tell_definitions(snapshots, name, &held) || held.is_odd)
		snapshots->in_part++;
}

void snapshots_tell(struct snapshots *snapshots, uint64_t before)
{
	DIR *stream = opendir(snapshots->folder);
	uint64_t told = snapshots->told;
	struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		/* The session daemon's names: snapshot-NAME-DATE-TIME-NUMBER, counted from 0. */
		const char *number = strrchr(entry->d_name, '-');
		uint64_t next;

		if (!folder_is_snapshot(entry->d_name) || !number ||
		    sscanf(number, "-%" SCNu64, &next) != 1 || next >= before ||
		    next++ < snapshots->told)
			continue;
		tell(snapshots, entry->d_name);
		told = next > told ? next : told;
	}
	if (stream)
		(void)closedir(stream);
	snapshots->told = told;
}

void snapshots_settle(const struct snapshots *snapshots)
{
	size_t count, before;

	do {
		before = folder_count_snapshots(snapshots->folder);
		(void)usleep(SETTLE_MS * 1000);
		count = folder_count_snapshots(snapshots->folder);
	} while (count != before);
}

bool snapshots_can_hold(const struct snapshots *snapshots)
{
	struct dumped dumped = {0};
	bool any;

	dumped_read(snapshots->records, &dumped);
	any = dumped.count;
	dumped_done(&dumped);
	return any;
}

void snapshots_note(struct snapshots *snapshots)
{
	dumped_read(snapshots->records, &snapshots->dumped);
}

void snapshots_save(struct snapshots *snapshots, struct session *session)
{
	_cleanup_free_ char *error_text = NULL, *silent = NULL;
	size_t asked, in_part, failed;
	int error = ask_for_dumps(snapshots->records, &asked, &silent);

	if (error)
		command_say("cannot ask the processes for their definitions: %s: %s",
			    snapshots->records, strerror(-error));
	snapshots_note(snapshots);
	in_part = snapshots->in_part;
	failed = snapshots->failed;
	if (session_snapshot(session, &error_text)) {
		command_say("%s", error_text);
		snapshots->failed++;
	}
	snapshots_tell(snapshots, UINT64_MAX);
	if (silent && snapshots->failed == failed)
		command_say("%s: the snapshot has what was said before%s", silent,
			    snapshots->in_part != in_part ? ", as far as it is not named above"
							  : "");
}

void snapshots_say(const struct snapshots *snapshots, bool waits_for_calls)
{
	if (snapshots->saved)
		command_say("%zu snapshot%s in %s; %s", snapshots->saved,
			    snapshots->saved == 1 ? " is" : "s are", snapshots->folder,
			    !snapshots->in_part     ? "each can be read by itself"
			    : snapshots->saved == 1 ? "it is not whole"
						    : "not all of them are whole");
	else if (waits_for_calls && !snapshots->failed)
		command_say("no snapshot was saved: no call blocked longer than asked for");
	else
		command_say("no snapshot was saved");
}
