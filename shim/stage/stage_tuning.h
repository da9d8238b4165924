// SPDX-License-Identifier: MIT
/*
 * Stage tuning: choices of the engine that a benchmark (tests/bench/stage.c) compares and tests go through; the library leaves them as stage.c
 * has them. Constant while a copy is under way.
 */
#ifndef SLIPSTREAM_STAGE_STAGE_TUNING_H
#define SLIPSTREAM_STAGE_STAGE_TUNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stage_tuning {
	/*
	 * How a piece is confirmed. An event behind each piece, asked for by the caller; or a value that the stream writes behind
	 * each piece into pinned memory, which all threads read. The library confirms by events only; the other way is what the benchmark
	 * (tests/bench/stage.c) compares them with on a new GPU, and what the tests go through, so that the choice can be made again.
	 */
	bool by_value;
	/* Stores past the caches: into chunks, and into the program's memory. */
	bool fill_streamed, empty_streamed;
	/* ... of copies to the device of up to so many bytes, and of copies from it of so many or more. */
	size_t fill_streamed_most, empty_streamed_least;
	size_t piece_bytes; /* at most CHUNK_BYTES */
	size_t unit_bytes;
	unsigned int ring; /* chunks of a copy of many pieces, at most STAGE_RING */
	unsigned int fill_helpers, empty_helpers; /* at most */
	uint64_t stuck_ns; /* no progress past an open gate for so long: given up */
};

extern struct stage_tuning stage_tuning;

static inline unsigned int stage_helpers(bool to_device)
{
	return to_device ? stage_tuning.fill_helpers : stage_tuning.empty_helpers;
}

#endif
