// SPDX-License-Identifier: MIT
/*
 * Stage: the engine of staged copies. Moves bytes between the program's pageable memory and the device through pinned chunks of our own:
 * copy threads fill or empty chunks while the copy engine moves others. It knows nothing of which calls may be staged, nor of what they
 * must wait for before: that is rewrite/staging.c, which calls it. Relies on chunks.c, copy_threads.c and driver.h.
 *
 * A staged copy is one operation of its stream, for all threads. One that fits a chunk is one copy of the driver on the stream itself. A
 * larger one runs on an internal non-blocking stream of the context, behind a value that the program's stream writes when it gets there; a
 * gate (a wait of the stream for a value in our memory) holds its place there, and is opened behind the last chunk, or by the host on
 * any error. It returns when the device is done.
 */
#ifndef SLIPSTREAM_STAGE_STAGE_H
#define SLIPSTREAM_STAGE_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* Rows of `width` bytes; 1-D: height and depth are 1. Pitches are bytes from row to row, and from slice to slice. */
struct stage_copy {
	CUdeviceptr device;
	void *host;
	bool to_device;
	size_t width, height, depth;
	size_t device_pitch, device_slice;
	size_t host_pitch, host_slice;
	uint64_t context; /* id of the current one */
	bool waits; /* to the device: its stream is waited for once the source has been read, before the copy is submitted */
	/*
	 * Where it waits: may the source still be what was read? Asked with `source_mark` behind the wait; false: the driver makes the copy, which then reads
	 * it again. NULL: it is.
	 */
	bool (*is_same)(uint64_t source_mark);
	uint64_t source_mark;
	CUstream
		stream; /* as the driver is to be told: CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle */
};

enum stage_outcome {
	STAGE_DRIVER, /* nothing has happened, or nothing that shows: the driver is to make the whole copy */
	STAGE_DONE, /* to the device: the source may be reused, the copy is in its stream. From it: all bytes are on the host */
};

/* Behind a wait that came after the reading of the source. */
static inline bool stage_source_is_same(const struct stage_copy *copy)
{
	return !copy->waits || !copy->is_same || copy->is_same(copy->source_mark);
}

/*
 * Inside the engine, on the thread of the copy: why it is declined, or what else went wrong; a constant text. The first of a copy becomes its only
 * note, so that as many copies were declined as the reasons say.
 */
void stage_says(const char *why);
extern const char *const stage_source_changed;

/*
 * No lock is held. A copy that fails is the driver's from its beginning, so there is no status but the driver's own. Up to a chunk waits for the device only where the copy is from it; a larger one waits for its stream, and until its last piece
 * is moved.
 */
enum stage_outcome stage_copy(const struct stage_copy *copy);

/*
 * A call of the driver that waits for the device may hold locks of the driver that submissions need; while a gate is closed that would be a
 * deadlock. So such a call is made between these two: begin waits until no copy is submitting behind its gate (as long as such a copy takes, since a
 * gate is placed where its stream has been waited for), and none begins before the end; their copies go to the driver.
 */
void stage_drain_begin(void);
void stage_drain_end(void);

/* Waits for all copies to the device that have been staged and are not done yet; they are few. For nothing else. */
void stage_wait_pending(void);

/* Bytes of pinned memory that are held for chunks. */
uint64_t stage_held_bytes(void);

/* Bytes of one chunk: up to it a copy needs no gate. */
size_t stage_chunk_bytes(void);

/* Contexts ended: their internal streams and events are forgotten. */
void stage_drop(bool (*lives)(uint64_t context));

#endif
