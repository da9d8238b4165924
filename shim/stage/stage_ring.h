// SPDX-License-Identifier: MIT
/*
 * Stage ring: what a copy of many pieces needs of a context, for one direction: an internal stream, and words in pinned memory that the
 * device writes and the host reads. At most two to a context. Used by one copy at a time: the lock is only tried.
 */
#ifndef SLIPSTREAM_STAGE_STAGE_RING_H
#define SLIPSTREAM_STAGE_STAGE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "stage/stage_job.h"

/* In pinned memory. Each has one writer at a time, and only rises, with wrap-around. */
struct stage_words {
	uint32_t arrived __attribute__((aligned(
		64))); /* the program's stream: number of the copy whose gate it stands at */
	uint32_t gate __attribute__((aligned(
		64))); /* the internal stream, or the host: number of the copy that is over */
	uint32_t progress __attribute__((aligned(64))); /* the internal stream: pieces moved */
	uint32_t passed __attribute__((aligned(
		64))); /* the program's stream: number of the copy whose gate it is past; from the device only */
};

struct record_gate;

struct stage_ring {
	uint32_t locked;
	uint64_t context; /* 0: not in use */
	bool to_device;
	bool broken; /* of no use until its context ends */
	CUstream stream;
	struct stage_words *words;
	CUdeviceptr device_words;
	uint32_t copies; /* number of the newest copy */
	uint32_t pieces; /* of all copies so far: what `progress` says when they are done */
	/* Where pieces are confirmed by events. */
	CUevent events[STAGE_RING];
	uint32_t seen; /* in the place of `progress` */
	struct record_gate
		*shown; /* its copy, for `slipstream dump`; never NULL where the ring is taken */
};

/* Locked; NULL: in use, or cannot be had. `context` is the current one. */
struct stage_ring *stage_ring_take(uint64_t context, bool to_device);
void stage_ring_give(struct stage_ring *ring);
void stage_rings_drop(bool (*lives)(uint64_t context));

/* The stream's place is held from here on. False: nothing has been placed. */
bool stage_ring_place(struct stage_ring *ring, CUstream stream);
/* Behind what the internal stream has by now; the host's own way opens it at once. */
bool stage_ring_open_behind(struct stage_ring *ring);
void stage_ring_open(struct stage_ring *ring);

/* Moves a piece, and has it confirmed. */
CUresult stage_ring_move(struct stage_ring *ring, const struct stage_job *job, uint64_t number);

/* Packed piece and device memory, on a stream. */
CUresult stage_move(const struct stage_shape *shape, const struct stage_piece *piece, void *chunk,
		    CUstream stream);

/* Where the pieces confirmed are to be read. */
const uint32_t *stage_ring_confirmed(const struct stage_ring *ring);
/* Learns of more where that takes asking, of those `submitted`. False: the context is broken. */
bool stage_ring_ask(struct stage_ring *ring, const struct stage_job *job, uint32_t submitted);

/* Has the program's stream come to the gate? Acquire, here and below: pairs with the device's write, behind a barrier (stage_ring.c). */
static inline bool stage_ring_has_arrived(const struct stage_ring *ring)
{
	return __atomic_load_n(&ring->words->arrived, __ATOMIC_ACQUIRE) == ring->copies;
}

/* Is the program's stream past the gate of a copy from the device? */
static inline bool stage_ring_has_passed(const struct stage_ring *ring)
{
	return __atomic_load_n(&ring->words->passed, __ATOMIC_ACQUIRE) == ring->copies;
}

/* Has the driver all that the engine calls for copies of many pieces, and hardware queues enough? */
bool stage_ring_possible(void);

#endif
