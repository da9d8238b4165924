// SPDX-License-Identifier: MIT
/*
 * Copy bytes: the copying loops of staged copies. Called by the engine's callers and by the copy threads. Any thread, no lock, no state
 * but the choice of instructions, which every thread makes alike.
 */
#ifndef SLIPSTREAM_STAGE_COPY_BYTES_H
#define SLIPSTREAM_STAGE_COPY_BYTES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Past the caches (non-temporal stores), with the processor's best instructions. On return all bytes are visible before any later store of
 * this thread, as with ordinary stores.
 */
void copy_bytes_streamed(void *to, const void *from, size_t bytes);

/* Through the caches. */
void copy_bytes_cached(void *to, const void *from, size_t bytes);

struct copy_rows {
	char *to;
	const char *from;
	size_t width, rows;
	size_t to_pitch, from_pitch;
};

void copy_rows(const struct copy_rows *rows, bool streamed);

#endif
