// SPDX-License-Identifier: MIT
/*
 * Snapshot (snapshot.h). Called by trace.c. Relies on session.c, and on the heads of packets as LTTng-UST
 * 2.x writes them.
 *
 * What a snapshot holds: a processor whose buffer was overwritten has events since the begin of its oldest
 * packet; all of them together are whole since the latest of these. One whose first packet is there has
 * everything.
 */
#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdbool.h>

#include "ask.h"
#include "command.h"
#include "folder.h"
#include "memory.h"
#include "session.h"
#include "text.h"

#define PACKET_MAGIC 0xc1fc1fc1
#define SETTLE_MS    300 /* a snapshot that an event asks for begins within that time */

/* How the file of a stream begins, and each packet in it: packet header, then its context. */
struct packet {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_class;
	uint64_t stream;
	uint64_t begin_ns, end_ns;
	uint64_t content_bits, packet_bits;
	uint64_t number; /* in its stream, those included that were overwritten */
} __attribute__((packed));

/* nftw(3) hands nothing through. */
static struct {
	uint64_t whole_since_ns; /* 0: nothing was overwritten */
	uint64_t end_ns;
	bool is_odd; /* a file is not as we know them */
} held;

static bool is_stream(const char *name)
{
	static const char prefix[] = FOLDER_CHANNEL "_";

	return !strncmp(name, prefix, strlen(prefix)) && !strchr(name, '.');
}

static int look_at(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	_cleanup_fclose_ FILE *file = NULL;
	struct packet packet;
	uint64_t at = 0;

	if (kind != FTW_F || !is_stream(path + walk->base))
		return 0;
	file = fopen(path, "re");
	while (file && !fseeko(file, (off_t)at, SEEK_SET) &&
	       fread(&packet, sizeof(packet), 1, file) == 1) {
		if (packet.magic != PACKET_MAGIC || packet.packet_bits / 8 < sizeof(packet) ||
		    packet.packet_bits / 8 > (uint64_t)status->st_size - at) {
			held.is_odd = true;
			return 0;
		}
		if (!at && packet.number && packet.begin_ns > held.whole_since_ns)
			held.whole_since_ns = packet.begin_ns;
		if (packet.end_ns > held.end_ns)
			held.end_ns = packet.end_ns;
		at += packet.packet_bits / 8;
	}
	return 0;
}

static void tell(const struct snapshots *snapshots, const char *name)
{
	_cleanup_free_ char *path = memory_format("%s/%s", snapshots->folder, name);
	char figure[2][TEXT_FIGURE];

	held.whole_since_ns = held.end_ns = 0;
	held.is_odd = false;
	(void)nftw(path, look_at, 16, FTW_PHYS);
	if (held.is_odd || !held.whole_since_ns || held.whole_since_ns >= held.end_ns ||
	    held.end_ns - held.whole_since_ns >= snapshots->keep_ns)
		return;
	command_say(
		"%s holds the last %s of the %s asked for: the program fills the buffers faster "
		"than expected (--snapshot=SIZE makes them larger)",
		name, text_ns(held.end_ns - held.whole_since_ns, figure[0]),
		text_ns(snapshots->keep_ns, figure[1]));
}

void snapshots_tell(struct snapshots *snapshots)
{
	DIR *stream = snapshots->keep_ns ? opendir(snapshots->folder) : NULL;
	uint64_t told = snapshots->told;
	struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		/* The session daemon's names: snapshot-NAME-DATE-TIME-NUMBER, counted from 0. */
		const char *number = strrchr(entry->d_name, '-');
		uint64_t next;

		if (!folder_is_snapshot(entry->d_name) || !number ||
		    sscanf(number, "-%" SCNu64, &next) != 1 || next++ < snapshots->told)
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

void snapshots_save(const struct snapshots *snapshots, struct session *session)
{
	_cleanup_free_ char *error_text = NULL, *silent = NULL;
	size_t asked;
	int error = ask_for_dumps(snapshots->records, &asked, &silent);

	if (error)
		command_say("cannot ask the processes for their definitions: %s: %s",
			    snapshots->records, strerror(-error));
	if (session_snapshot(session, &error_text))
		command_say("%s", error_text);
	else if (silent)
		command_say("%s: the snapshot has what was said before", silent);
}
