// SPDX-License-Identifier: MIT
/*
 * Keys: what a call site is called in every run of the same files, wherever they are loaded. A hash over its native frames (build id, else
 * path, of the file; offset in it) and its Python frames (file, function, line). Shared by the shim, which looks for keys of a deny list,
 * and the tools, which print them. Pure functions.
 */
#ifndef SLIPSTREAM_SYNC_SITE_KEY_H
#define SLIPSTREAM_SYNC_SITE_KEY_H

#include <stddef.h>
#include <stdint.h>

#define SITE_KEY_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t site_key_bytes(uint64_t key, const void *bytes, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++)
		key = (key ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return key;
}

/* A text of `length` bytes and its NUL. */
static inline uint64_t site_key_text(uint64_t key, const char *text, size_t length)
{
	return site_key_bytes(site_key_bytes(key, text, length), "", 1);
}

/* The file of a native frame, with its build id (none: length 0, then the path counts), and the offset. */
static inline uint64_t site_key_frame(uint64_t key, const uint8_t *build_id, size_t build_id_length,
				      const char *path, size_t path_length, uint64_t offset)
{
	key = build_id_length ? site_key_bytes(key, build_id, build_id_length)
			      : site_key_text(key, path, path_length);
	return site_key_bytes(key, &offset, sizeof(offset));
}

/* 0 stands for "no site". */
static inline uint64_t site_key_end(uint64_t key)
{
	return key ? key : 1;
}

#endif
