// SPDX-License-Identifier: MIT
/*
 * Salvage (salvage.h). Knows the layout of the heads of LTTng-UST's packets, which is the same in
 * all its traces:
 *
 *	u32 magic, u8 uuid[16], u32 stream_id, u64 stream_instance_id,
 *	u64 timestamp_begin, timestamp_end, content_size, packet_size (bits), ...
 *
 * and of those of metadata packets, which CTF 1.8 gives:
 *
 *	u32 magic, u8 uuid[16], u32 checksum, content_size, packet_size (bits), u8 ...[5]
 */
#include "tracing/analysis/salvage.h"

#include <byteswap.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "memory.h"

#define PACKET_MAGIC     UINT32_C(0xc1fc1fc1)
#define CONTENT_SIZE_AT  48
#define PACKET_HEAD_SIZE 64

#define METADATA_MAGIC           UINT32_C(0x75d11d57)
#define METADATA_CONTENT_SIZE_AT 24
#define METADATA_HEAD_SIZE       37

struct packet_head {
	uint32_t magic;
	uint64_t content, packet; /* bits */
};

static bool read_head(int descriptor, uint64_t at, struct packet_head *ret_head)
{
	unsigned char bytes[PACKET_HEAD_SIZE];

	if (pread(descriptor, bytes, sizeof(bytes), (off_t)at) != (ssize_t)sizeof(bytes))
		return false;
	memcpy(&ret_head->magic, bytes, sizeof(ret_head->magic));
	memcpy(&ret_head->content, bytes + CONTENT_SIZE_AT, sizeof(ret_head->content));
	memcpy(&ret_head->packet, bytes + CONTENT_SIZE_AT + sizeof(ret_head->content),
	       sizeof(ret_head->packet));
	return ret_head->magic == PACKET_MAGIC;
}

/* Bytes of the packets that are whole, from the start of the file. */
static uint64_t whole_part(int descriptor, uint64_t size)
{
	struct packet_head head;
	uint64_t at = 0;

	while (size - at >= PACKET_HEAD_SIZE && read_head(descriptor, at, &head) &&
	       head.packet % 8 == 0 && head.content <= head.packet &&
	       head.packet >= UINT64_C(8) * PACKET_HEAD_SIZE && head.packet / 8 <= size - at)
		at += head.packet / 8;
	return at;
}

static bool copy_part(int from, const char *path, uint64_t size)
{
	_cleanup_close_ int into = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	_cleanup_free_ char *buffer = memory_new(1 << 20);
	uint64_t at = 0;

	if (into < 0)
		return false;
	while (at < size) {
		size_t want = size - at < 1 << 20 ? size - at : 1 << 20;
		ssize_t got = pread(from, buffer, want, (off_t)at);

		if (got <= 0 || write(into, buffer, (size_t)got) != got)
			return false;
		at += (uint64_t)got;
	}
	return true;
}

/* One stream file; false: it has no part that is whole, or there is no place for it. */
static bool take_stream(const char *path, const char *into, const char *name, char **damage)
{
	_cleanup_close_ int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_free_ char *target = memory_format("%s/%s", into, name);
	struct stat status;
	uint64_t whole;

	if (descriptor < 0 || fstat(descriptor, &status) < 0 || !S_ISREG(status.st_mode))
		return true;
	whole = whole_part(descriptor, (uint64_t)status.st_size);
	if (whole == (uint64_t)status.st_size)
		return !symlink(path, target);
	if (!*damage)
		*damage = memory_format("%s is damaged after %" PRIu64 " of %" PRIu64 " bytes",
					path, whole, (uint64_t)status.st_size);
	return !whole || copy_part(descriptor, target, whole);
}

static bool take_streams(const char *folder, const char *into, char **damage)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	bool good = entries;

	while (good && (entry = readdir(entries))) {
		_cleanup_free_ char *path = memory_format("%s/%s", folder, entry->d_name);

		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "index"))
			continue;
		if (!strcmp(entry->d_name, "metadata")) {
			_cleanup_free_ char *target = memory_format("%s/metadata", into);

			good = !symlink(path, target);
			continue;
		}
		good = take_stream(path, into, entry->d_name, damage);
	}
	if (entries)
		(void)closedir(entries);
	return good;
}

char *salvage_make(const char *folder, char **ret_damage)
{
	const char *place = getenv("TMPDIR");
	char *into = memory_format("%s/slipstream-XXXXXX", place && *place ? place : "/tmp");
	char *absolute = realpath(folder, NULL), *damage = NULL;

	if (!absolute || !mkdtemp(into)) {
		free(absolute);
		free(into);
		return NULL;
	}
	if (take_streams(absolute, into, &damage) && damage) {
		*ret_damage = damage;
		free(absolute);
		return into;
	}
	salvage_remove(into);
	free(absolute);
	free(damage);
	free(into);
	return NULL;
}

void salvage_remove(const char *folder)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(entries), entry->d_name, 0);
	if (entries)
		(void)closedir(entries);
	(void)rmdir(folder);
}

/* The packet at `at`: its bytes; 0: it is none, or not whole. */
static uint64_t metadata_packet(int descriptor, uint64_t at, uint64_t size)
{
	unsigned char head[METADATA_HEAD_SIZE];
	uint32_t magic, content, packet;

	if (pread(descriptor, head, sizeof(head), (off_t)at) != (ssize_t)sizeof(head))
		return 0;
	memcpy(&magic, head, sizeof(magic));
	memcpy(&content, head + METADATA_CONTENT_SIZE_AT, sizeof(content));
	memcpy(&packet, head + METADATA_CONTENT_SIZE_AT + sizeof(content), sizeof(packet));
	if (magic == bswap_32(METADATA_MAGIC)) {
		content = bswap_32(content);
		packet = bswap_32(packet);
	} else if (magic != METADATA_MAGIC) {
		return 0;
	}
	if (content / 8 < METADATA_HEAD_SIZE || content > packet || content / 8 > size - at)
		return 0;
	return packet / 8;
}

static bool is_metadata_packet(int descriptor)
{
	uint32_t magic;

	return pread(descriptor, &magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       (magic == METADATA_MAGIC || magic == bswap_32(METADATA_MAGIC));
}

static char *metadata_damage(int descriptor, uint64_t size)
{
	uint64_t at = 0;

	while (is_metadata_packet(descriptor) && at < size) {
		uint64_t packet = metadata_packet(descriptor, at, size);

		if (!packet)
			return memory_format("its metadata is damaged after %" PRIu64 " of %" PRIu64
					     " bytes",
					     at, size);
		at += packet;
	}
	return NULL;
}

/* Other writers of CTF have other heads; babeltrace2's own has. */
static bool has_heads_of_lttng(const char *folder)
{
	static const char mark[] = "uint32_t stream_id;";
	_cleanup_free_ char *path = memory_format("%s/metadata", folder);
	_cleanup_close_ int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char start[4096]; /* it is in the first declaration */
	ssize_t got = descriptor < 0 ? -1 : pread(descriptor, start, sizeof(start), 0);

	return got > 0 && memmem(start, (size_t)got, mark, strlen(mark));
}

static char *stream_damage(int descriptor, uint64_t size, const char *path)
{
	uint64_t whole = whole_part(descriptor, size);
	struct packet_head head;

	if (whole == size || !read_head(descriptor, whole, &head) ||
	    (head.packet >= UINT64_C(8) * PACKET_HEAD_SIZE &&
	     !((head.content | head.packet) >> 63)))
		return NULL;
	return memory_format("%s is damaged after %" PRIu64 " of %" PRIu64 " bytes", path, whole,
			     size);
}

char *salvage_poison(const char *folder)
{
	bool is_known = has_heads_of_lttng(folder);
	DIR *entries = opendir(folder);
	struct dirent *entry;
	char *damage = NULL;

	while (entries && !damage && (entry = readdir(entries))) {
		_cleanup_free_ char *path = memory_format("%s/%s", folder, entry->d_name);
		_cleanup_close_ int descriptor =
			open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		struct stat status;

		if (entry->d_name[0] == '.' || descriptor < 0 || fstat(descriptor, &status) < 0 ||
		    !S_ISREG(status.st_mode))
			continue;
		if (!strcmp(entry->d_name, "metadata"))
			damage = metadata_damage(descriptor, (uint64_t)status.st_size);
		else if (is_known)
			damage = stream_damage(descriptor, (uint64_t)status.st_size, path);
	}
	if (entries)
		(void)closedir(entries);
	return damage;
}
