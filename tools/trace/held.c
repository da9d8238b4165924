// SPDX-License-Identifier: MIT
/*
 * Held (held.h). Called by snapshot.c. Relies on the heads of packets as LTTng-UST 2.x writes them.
 *
 * A processor whose buffer was overwritten has events since the begin of its oldest packet, or of the one
 * behind the last gap, which is there if the buffer was overwritten while it was saved; all of them
 * together are whole since the latest of these. One whose packets are there from the first on has
 * everything.
 */
#include "held.h"

#include <ftw.h>

#include "folder.h"
#include "memory.h"

#define PACKET_MAGIC 0xc1fc1fc1

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

static struct held held; /* nftw(3) hands nothing through */

static bool is_stream(const char *name, const char *channel)
{
	size_t length = strlen(channel);

	/* The others are indices. */
	return !strncmp(name, channel, length) && name[length] == '_' && !strchr(name, '.');
}

/* Where the packets are whole from; 0: from the first on. */
static uint64_t read_stream(FILE *file, uint64_t size, uint64_t *ret_first_ns, uint64_t *ret_end_ns)
{
	struct packet packet;
	uint64_t at = 0, next = 0, since_ns = 0;

	*ret_first_ns = UINT64_MAX;
	*ret_end_ns = 0;
	while (!fseeko(file, (off_t)at, SEEK_SET) && fread(&packet, sizeof(packet), 1, file) == 1) {
		if (packet.magic != PACKET_MAGIC || packet.packet_bits / 8 < sizeof(packet) ||
		    packet.packet_bits / 8 > size - at) {
			held.is_odd = true;
			return since_ns;
		}
		if (!at)
			*ret_first_ns = packet.begin_ns;
		if (packet.number != next)
			since_ns = packet.begin_ns;
		next = packet.number + 1;
		*ret_end_ns = packet.end_ns;
		at += packet.packet_bits / 8;
	}
	if (at != size)
		held.is_odd = true;
	return since_ns;
}

static int look_at(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	const char *name = path + walk->base;
	bool is_definitions = is_stream(name, FOLDER_DEFINITIONS);
	_cleanup_fclose_ FILE *file = NULL;
	uint64_t since_ns, first_ns, end_ns;

	if (kind != FTW_F)
		return 0;
	if (!strcmp(name, "metadata") && status->st_size > 0)
		held.is_saved = true;
	if (!is_definitions && !is_stream(name, FOLDER_CHANNEL))
		return 0;
	file = fopen(path, "re");
	if (!file)
		return 0;
	since_ns = read_stream(file, (uint64_t)status->st_size, &first_ns, &end_ns);
	if (end_ns > held.end_ns)
		held.end_ns = end_ns;
	if (is_definitions) {
		held.any_definitions |= first_ns != UINT64_MAX;
		if (since_ns > held.definitions_since_ns)
			held.definitions_since_ns = since_ns;
		return 0;
	}
	if (end_ns > held.events_end_ns)
		held.events_end_ns = end_ns;
	if (since_ns > held.events_since_ns)
		held.events_since_ns = since_ns;
	if (first_ns < held.first_event_ns)
		held.first_event_ns = first_ns;
	return 0;
}

void held_read(const char *folder, struct held *ret_held)
{
	held = (struct held){.first_event_ns = UINT64_MAX};
	(void)nftw(folder, look_at, 16, FTW_PHYS);
	*ret_held = held;
}
