// SPDX-License-Identifier: MIT
/*
 * Copies of ordinary memory as one writes them by hand who knows that the driver's are slow: through a ring of pinned chunks, filled or emptied by this
 * thread and the copy threads, one copy of the driver a chunk on the legacy stream, an event behind each. Sizes, helpers and
 * copying loops are those of the shim's engine, so that what a difference shows is the protocol's. Called by the twins. One caller.
 *
 * The caller hands out units of a piece by a counter; who takes one copies it and counts it as done (release). The caller sees a piece whole
 * (acquire) before it submits it, or before it lets its chunk be used again. A helper that finds no piece ready leaves, and is kicked when one is.
 */
#include "stage/copy_bytes.h"
#include "stage/copy_threads.h"
#include "twins.h"

#include <stdio.h>
#include <stdlib.h>

#define PIECE  ((size_t)2 << 20)
#define UNIT   ((size_t)128 << 10)
#define RING   8
#define PIECES 512
/* As many as the shim's engine has; more are in the way of the device's own stores. */
#define EMPTY_HELPERS 5
/* Above, chunks are used again while they lie in the caches. */
#define STREAMED_MOST ((size_t)32 << 20)

static struct {
	char *memory[RING];
	CUevent event[RING], before;
	uint64_t count; /* pieces of earlier copies: where in the ring the next begins */
	int slot;
} ring;

/* Of the copy under way; helpers read it. */
static struct {
	char *memory;
	size_t bytes;
	bool to_device, streamed;
	uint64_t first, pieces, units;
	uint64_t next;  /* unit to be taken */
	uint64_t ready; /* pieces below it may be worked on */
	uint32_t done[PIECES];
} job;

void staging_open(void)
{
	for (int i = 0; i < RING; i++) {
		ring.memory[i] = twins_pinned(PIECE);
		ring.event[i] = twins_event();
	}
	ring.before = twins_event();
}

static size_t piece_bytes(uint64_t piece)
{
	return piece + 1 < job.pieces ? PIECE : job.bytes - piece * PIECE;
}

static uint32_t piece_units(uint64_t piece)
{
	return (uint32_t)((piece_bytes(piece) + UNIT - 1) / UNIT);
}

static unsigned int chunk_of(uint64_t piece)
{
	return (unsigned int)((job.first + piece) % RING);
}

static void copy_unit(uint64_t unit)
{
	uint64_t piece = unit / (PIECE / UNIT);
	size_t at = unit % (PIECE / UNIT) * UNIT, left = piece_bytes(piece) - at;
	char *chunk = ring.memory[chunk_of(piece)] + at, *memory = job.memory + piece * PIECE + at;

	(job.streamed ? copy_bytes_streamed : copy_bytes_cached)(job.to_device ? chunk : memory,
								 job.to_device ? memory : chunk,
								 left < UNIT ? left : UNIT);
	__atomic_add_fetch(&job.done[piece], 1, __ATOMIC_RELEASE);
}

/* False: nothing is ready. */
static bool work(void)
{
	uint64_t unit = __atomic_load_n(&job.next, __ATOMIC_RELAXED);

	do {
		/* Acquire: of a chunk that may be used, or whose bytes have come. */
		if (unit >= job.units ||
		    unit / (PIECE / UNIT) >= __atomic_load_n(&job.ready, __ATOMIC_ACQUIRE))
			return false;
	} while (!__atomic_compare_exchange_n(&job.next, &unit, unit + 1, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	copy_unit(unit);
	return true;
}

static void help(void *unused)
{
	while (work())
		;
}

static bool is_whole(uint64_t piece)
{
	return __atomic_load_n(&job.done[piece], __ATOMIC_ACQUIRE) == piece_units(piece);
}

static bool is_done(CUevent event)
{
	CUresult result = gpu.cuEventQuery(event);

	if (result != CUDA_ERROR_NOT_READY)
		twins_check(result, "cuEventQuery");
	return result == CUDA_SUCCESS;
}

static void begin(void *memory, size_t bytes, bool to_device)
{
	job.memory = memory;
	job.bytes = bytes;
	job.to_device = to_device;
	job.streamed = !to_device || bytes <= STREAMED_MOST;
	job.first = ring.count;
	job.pieces = (bytes + PIECE - 1) / PIECE;
	if (!bytes || job.pieces > PIECES) {
		fprintf(stderr, "twins: a copy of %zu bytes\n", bytes);
		exit(1);
	}
	job.units = (job.pieces - 1) * (PIECE / UNIT) + piece_units(job.pieces - 1);
	job.next = 0;
	job.ready = 0;
	for (uint64_t i = 0; i < job.pieces; i++)
		job.done[i] = 0;
	ring.slot = copy_threads_take();
}

static void ready(uint64_t pieces, unsigned int helpers)
{
	bool is_first = !job.ready;

	__atomic_store_n(&job.ready, pieces, __ATOMIC_RELEASE);
	if (ring.slot < 0)
		return;
	if (is_first)
		copy_threads_post(ring.slot, help, NULL, helpers);
	else
		copy_threads_kick();
}

static void end(void)
{
	ring.count += job.pieces;
	if (ring.slot < 0)
		return;
	copy_threads_close(ring.slot);
	while (copy_threads_inside(ring.slot))
		copy_pause();
	copy_threads_give(ring.slot);
}

static void move(CUdeviceptr device, uint64_t piece)
{
	char *chunk = ring.memory[chunk_of(piece)];

	device += piece * PIECE;
	if (job.to_device)
		DO(gpu.cuMemcpyHtoDAsync(device, chunk, piece_bytes(piece), NULL));
	else
		DO(gpu.cuMemcpyDtoHAsync(chunk, device, piece_bytes(piece), NULL));
	DO(gpu.cuEventRecord(ring.event[chunk_of(piece)], NULL));
}

void staging_upload(CUdeviceptr to, const void *from, size_t bytes, bool waits)
{
	uint64_t submitted = 0;

	if (waits)
		DO(gpu.cuEventRecord(ring.before, NULL));
	begin((void *)(uintptr_t)from, bytes, true);
	while (submitted < job.pieces) {
		if (job.ready < job.pieces && job.ready < submitted + RING &&
		    is_done(ring.event[chunk_of(job.ready)]))
			ready(job.ready + 1, COPY_THREADS_MAX);
		if (submitted < job.ready && is_whole(submitted))
			move(to, submitted++);
		else if (!work())
			copy_pause();
	}
	end();
	if (waits)
		DO(gpu.cuEventSynchronize(ring.before));
}

void staging_download(void *to, CUdeviceptr from, size_t bytes)
{
	uint64_t submitted = 0, emptied = 0;

	begin(to, bytes, false);
	while (emptied < job.pieces) {
		while (submitted < job.pieces && submitted < emptied + RING)
			move(from, submitted++);
		if (job.ready < submitted && is_done(ring.event[chunk_of(job.ready)]))
			ready(job.ready + 1, EMPTY_HELPERS);
		if (emptied < job.ready && is_whole(emptied))
			emptied++;
		else if (!work())
			copy_pause();
	}
	end();
}
