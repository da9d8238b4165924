// SPDX-License-Identifier: MIT
/*
 * Chunks: pinned memory that staged copies go through. Owned by the stage; made by the caller of a copy, in its context, when the bytes
 * that were copied so far have earned one. Kept for good: the driver's free would drain the device.
 *
 * A chunk is ordinary memory of ours, which the driver is asked to register, instead of memory that it allocates: pinning costs a fraction
 * (H200: 0.06 ms a MiB against 0.6), it has huge pages where the system gives any, and it stays mapped when the driver is torn down at exit
 * while a helper copies.
 *
 * Two kinds: LARGE ones of CHUNK_BYTES, and SMALL ones of CHUNK_SMALL_BYTES that a large one was cut into, so that many small copies can be
 * queued. States
 *	EMPTY	no registered memory
 *	MAKING	a thread is registering it, or looks whether it is done
 *	FREE	used by nobody
 *	TAKEN	by a copy, which gives it back
 *	PENDING	a copy on the program's stream may still use it; its event tells
 *	CUT	a large one that small ones lie in
 *	DEAD	used by a copy of which nothing is known; for ever, or until its context ends
 * Changed by compare-and-swap only: no lock. A chunk belongs to the context that it was registered in, and ends with it.
 */
#ifndef SLIPSTREAM_STAGE_CHUNKS_H
#define SLIPSTREAM_STAGE_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* A benchmark is built with more (tests/bench/meson.build). */
#ifndef CHUNK_BYTES
#define CHUNK_BYTES ((size_t)2 << 20)
#endif
#define CHUNK_SMALL_BYTES ((size_t)64 << 10)
/* Large ones, of a process and of a context: two internal streams' rings, single copies, and what is cut. */
#define CHUNKS_MAX         64
#define CHUNKS_CONTEXT_MAX 22
/* Cut ones of a context. */
#define CHUNKS_CUT_MAX 2

enum chunk_kind { CHUNK_LARGE, CHUNK_SMALL };

struct chunk {
	void *memory;
	uint64_t context; /* written while MAKING */
	CUevent event;    /* 0: none yet */
	/* Of a copy on the legacy stream, drawn when it had been submitted: all with lesser ones are done when its event is. 0: another stream. */
	uint64_t ticket;
	uint32_t state;
};

/* A copy of so many bytes could use chunks: they may be made once enough has been copied. Returns nothing that must be kept. */
void chunks_earn(uint64_t bytes);

/*
 * A free chunk, now TAKEN, registering one if none is free and that is earned; NULL: none, the driver is to copy. Asks the driver about a
 * few pending ones. `context` is the current one. In the relaxed capture mode.
 */
struct chunk *chunk_take(uint64_t context, enum chunk_kind kind);
/* The same of those that are known to be free, and have an event: asks the driver nothing, in any capture mode. NULL: chunk_take() may have one. */
struct chunk *chunk_take_ready(uint64_t context, enum chunk_kind kind);

/* Used by nobody any more. */
void chunk_give(struct chunk *chunk);
/* The driver may use it until what is now in the stream is done. False: no event could be recorded, and the chunk is dead. Of one that was ready in any capture mode. */
bool chunk_give_behind(struct chunk *chunk, CUstream stream);
/* Waits until what is now in the stream is done, as the context's flags say. Still taken. */
CUresult chunk_wait_behind(struct chunk *chunk, CUstream stream);
/* Nobody knows who may use it. */
void chunk_lose(struct chunk *chunk);

/* Waits for pending ones. */
void chunks_wait(void);
uint64_t chunks_bytes(void);
void chunks_drop(bool (*lives)(uint64_t context));

/* Memory of ours that lies on huge pages if that is possible, and not in a forked child; NULL: none. */
void *chunk_map(size_t bytes);

#endif
