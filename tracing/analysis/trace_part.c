// SPDX-License-Identifier: MIT
/*
 * Trace parts (trace_part.h). Called by graph_inputs.c for each folder. Relies on the heads of packets as LTTng-UST
 * 2.x writes them; the files are hostile, and whoever reads them for good says what is wrong with them.
 */
#include "tracing/analysis/trace_part.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "memory.h"

#define PACKET_MAGIC 0xc1fc1fc1
#define DEFINITIONS  "definitions_" /* `slipstream trace` keeps them in buffers of their own */

struct packet_head {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_class;
	uint64_t stream;
	uint64_t begin_ns, end_ns;
	uint64_t content_bits, packet_bits;
	uint64_t number; /* in its stream, overwritten ones included */
} __attribute__((packed));

/* "snapshot-1-20260131-235959-0", as a part of the path. */
static bool is_snapshot(const char *path)
{
	static const char shape[] = "-dddddddd-dddddd-";

	for (const char *at = path; (at = strstr(at, "snapshot-")); at++) {
		size_t length = strcspn(at, "/");

		if (at > path && at[-1] != '/')
			continue;
		for (size_t i = 0; i + sizeof(shape) <= length; i++) {
			size_t k = 0;

			while (shape[k] && (shape[k] == 'd' ? isdigit((unsigned char)at[i + k])
							    : at[i + k] == shape[k]))
				k++;
			if (!shape[k])
				return true;
		}
	}
	return false;
}

static void print_uuid(const uint8_t bytes[16], char digits[TRACE_UUID_DIGITS + 1])
{
	for (int i = 0; i < 16; i++)
		(void)snprintf(digits + 2 * i, 3, "%02x", bytes[i]);
}

static struct trace_part *part_of(struct trace_parts *parts, const char *uuid)
{
	struct trace_part *part = (struct trace_part *)(uintptr_t)trace_parts_find(parts, uuid);

	if (part)
		return part;
	parts->parts =
		memory_grow(parts->parts, parts->count, &parts->capacity, sizeof(parts->parts[0]));
	part = &parts->parts[parts->count++];
	*part = (struct trace_part){0};
	memcpy(part->uuid, uuid, TRACE_UUID_DIGITS);
	return part;
}

/* The chunks of a rotated session continue each other: the earliest one has a stream's first packet. */
static void add_stream(struct trace_parts *parts, const char *uuid, const struct packet_head *head)
{
	uint64_t key = (uint64_t)head->stream_class << 32 | (uint32_t)head->stream;
	struct trace_part_stream *stream;

	for (size_t i = 0; i < parts->stream_count; i++) {
		stream = &parts->streams[i];
		if (stream->stream != key || strcmp(stream->uuid, uuid) != 0)
			continue;
		if (head->number < stream->first) {
			stream->first = head->number;
			stream->begin_ns = head->begin_ns;
		}
		return;
	}
	parts->streams = memory_grow(parts->streams, parts->stream_count, &parts->stream_capacity,
				     sizeof(parts->streams[0]));
	stream = &parts->streams[parts->stream_count++];
	*stream = (struct trace_part_stream){
		.stream = key, .first = head->number, .begin_ns = head->begin_ns};
	memcpy(stream->uuid, uuid, sizeof(stream->uuid));
}

static void raise_to(uint64_t *value, uint64_t other)
{
	if (other > *value)
		*value = other;
}

static void look_at(struct trace_parts *parts, int descriptor, uint64_t size, const char *name,
		    bool snapshot)
{
	char uuid[TRACE_UUID_DIGITS + 1] = "";
	struct packet_head head;
	struct trace_part *part;

	for (uint64_t at = 0;
	     pread(descriptor, &head, sizeof(head), (off_t)at) == (ssize_t)sizeof(head);
	     at += head.packet_bits / 8) {
		if (head.magic != PACKET_MAGIC || head.packet_bits / 8 < sizeof(head) ||
		    head.packet_bits / 8 > size - at)
			return;
		print_uuid(head.uuid, uuid);
		part = part_of(parts, uuid);
		part->is_snapshot |= snapshot;
		raise_to(&part->end_ns, head.end_ns);
		/* Definitions are repeated: what is left of their buffers says nothing of the waits. */
		if (at || !strncmp(name, DEFINITIONS, strlen(DEFINITIONS)))
			continue;
		/* Of two snapshots of one session the second one does not continue the first. */
		if (!snapshot)
			add_stream(parts, uuid, &head);
		else if (head.number)
			raise_to(&part->whole_since_ns, head.begin_ns);
	}
}

/* Anew for each folder: one that comes later may have what was missing. */
static void sum_streams(struct trace_parts *parts)
{
	for (size_t i = 0; i < parts->count; i++)
		if (!parts->parts[i].is_snapshot)
			parts->parts[i].whole_since_ns = 0;
	for (size_t i = 0; i < parts->stream_count; i++)
		if (parts->streams[i].first)
			raise_to(&part_of(parts, parts->streams[i].uuid)->whole_since_ns,
				 parts->streams[i].begin_ns);
}

void trace_parts_add(struct trace_parts *parts, const char *folder, const char *name)
{
	DIR *entries = opendir(folder);
	_cleanup_free_ char *whole = realpath(name, NULL); /* it may be given as "." */
	bool snapshot = is_snapshot(whole ? whole : name);
	struct dirent *entry;
	struct stat status;

	while (entries && (entry = readdir(entries))) {
		_cleanup_close_ int descriptor = -1;

		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "metadata"))
			continue;
		descriptor = openat(dirfd(entries), entry->d_name,
				    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (descriptor >= 0 && !fstat(descriptor, &status) && S_ISREG(status.st_mode))
			look_at(parts, descriptor, (uint64_t)status.st_size, entry->d_name,
				snapshot);
	}
	if (entries)
		(void)closedir(entries);
	sum_streams(parts);
}

const struct trace_part *trace_parts_find(const struct trace_parts *parts, const char *identity)
{
	for (size_t i = 0; i < parts->count; i++)
		if (!strncmp(parts->parts[i].uuid, identity, TRACE_UUID_DIGITS))
			return &parts->parts[i];
	return NULL;
}

void trace_parts_done(struct trace_parts *parts)
{
	free(parts->parts);
	free(parts->streams);
	*parts = (struct trace_parts){0};
}
