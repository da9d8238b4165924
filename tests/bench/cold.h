/* SPDX-License-Identifier: MIT
 *
 * Memory of the host that no processor's cache holds, part by part: a buffer of more than twice the last-level cache is walked through, and who asks
 * again for a part that was used finds that as many bytes were touched since. So a source is read from memory, as that of a program whose
 * tensors are larger than its caches, or a while old; a buffer used over and over would be read from the cache (H200's host: 300 MiB).
 *
 * Warm (a buffer opened with 0 bytes): each time the same part. Ordinary memory, on a page's boundary. One thread.
 */
#ifndef SLIPSTREAM_BENCH_COLD_H
#define SLIPSTREAM_BENCH_COLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cold {
	char *memory;
	size_t bytes;       /* of the buffer */
	size_t far;         /* bytes to be touched before a part is used again; 0: warm */
	size_t at, touched; /* next part; bytes used since the buffer's begin */
};

/* Twice the last-level cache, 64 MiB at least, 640 MiB where its size is not known. */
size_t cold_enough(void);

/*
 * Parts of up to `largest` bytes; `far`: cold_enough(), or 0 for warm memory. The buffer is filled with a pattern. Ends the program if
 * there is no memory. `advice`: of madvise(), MADV_NORMAL, MADV_HUGEPAGE or MADV_NOHUGEPAGE.
 */
void cold_open(struct cold *cold, size_t far, size_t largest, int advice);

/* The next part. May take the time of a walk through the whole buffer. */
char *cold_next(struct cold *cold, size_t bytes);

/* Bytes that differ from place to place and from seed to seed. */
void cold_fill(char *memory, size_t bytes, uint64_t seed);

#endif
