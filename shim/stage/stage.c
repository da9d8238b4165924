// SPDX-License-Identifier: MIT
/*
 * Stage (stage.h): decides how a copy is made, gets what that needs, and gives it back. What cannot be had means the driver's path, never a
 * wait.
 *
 * A copy that fails is the driver's again, from its beginning. A context that is broken stays so, and the driver's own copy says it; so
 * nothing here needs to tell the driver's errors.
 */
#include "stage/stage.h"

#include <pthread.h>

#include "driver/driver.h"
#include "emit/emit.h"
#include "stage/chunks.h"
#include "stage/copy_bytes.h"
#include "stage/copy_threads.h"
#include "stage/stage_gated.h"
#include "stage/stage_tuning.h"

/* Below it posting costs more than the helpers save. */
#define SPLIT_MIN  ((size_t)192 << 10)
#define SPLIT_UNIT ((size_t)64 << 10)
#define PIECE_MIN  ((size_t)256 << 10)
/* About 100 us: longer than a unit takes. */
#define LOOKS_SPINNING 2500
#define PIECES_AT_BEST 8

struct stage_tuning stage_tuning = {
	/* A write of a value between two pieces costs the copy engine 2 us (H200, 2 MiB pieces: 49.4 against 51.8 GB/s). */
	.by_value = false,
	.fill_streamed = true,
	.empty_streamed = true,
	/*
	 * To the device: chunks that are used once are filled past the caches; those that a large copy goes round and round in stay in the
	 * last-level cache, where the copy engine finds them (H200: 16 MiB 37 against 25 GB/s, 256 MiB 30 against 48).
	 */
	.fill_streamed_most = (size_t)32 << 20,
	/* From the device: what is larger than the caches is not read from them afterwards. */
	.empty_streamed_least = (size_t)4 << 20,
	.piece_bytes = CHUNK_BYTES,
	.unit_bytes = (size_t)128 << 10,
	.ring = STAGE_RING,
	.fill_helpers = COPY_THREADS_MAX,
	/* More are in the way of the device's own stores (H200, 256 MiB: 51 GB/s with 5, 41 to 45 with 7 to 14). */
	.empty_helpers = 5,
	/*
	 * Longer than anything but a queue that will never move: opening the gate early lets other threads' operations see half a copy.
	 */
	.stuck_ns = UINT64_C(5000000000),
};

/* One for each slot of the copy threads: a helper may still be about to leave when the next copy begins. */
static struct stage_job jobs[COPY_SLOTS];
/* Of the copy that this thread makes: its note. */
static __thread const char *said __attribute__((tls_model("initial-exec")));

size_t stage_chunk_bytes(void)
{
	return CHUNK_BYTES;
}

uint64_t stage_held_bytes(void)
{
	return chunks_bytes();
}

void stage_wait_pending(void)
{
	chunks_wait();
}

void stage_drop(bool (*lives)(uint64_t context))
{
	stage_rings_drop(lives);
	chunks_drop(lives);
}

static bool is_streamed(const struct stage_copy *copy, size_t bytes)
{
	return copy->to_device
		       ? stage_tuning.fill_streamed && bytes <= stage_tuning.fill_streamed_most
		       : stage_tuning.empty_streamed && bytes >= stage_tuning.empty_streamed_least;
}

static const char *const untouchable = "memory that only the driver may touch";
static const char *const not_submitted = "a staged copy could not be submitted";
static const char *const no_chunk = "no chunk for a staged copy";

static const char *const not_waited = "a staged copy could not wait for its stream";
const char *const stage_source_changed = "the source of a staged copy was to be read again";

/* Where the wait that is promised may come behind the reading of the source. */
static bool wait_between(const struct stage_copy *copy)
{
	if (!copy->waits)
		return true;
	if (driver.cuStreamSynchronize(copy->stream) != CUDA_SUCCESS) {
		stage_says(not_waited);
		return false;
	}
	if (stage_source_is_same(copy))
		return true;
	stage_says(stage_source_changed);
	return false;
}

/* ---- a few bytes in a row, to the device: nothing to cut, nobody to help ---- */

static bool is_few(const struct stage_copy *copy)
{
	return copy->to_device && copy->height == 1 && copy->depth == 1 &&
	       copy->width <= CHUNK_SMALL_BYTES && copy->width && copy->host && copy->device;
}

/* `chunk`: has an event, or this is the relaxed capture mode. */
static bool copy_few(const struct stage_copy *copy, struct chunk *chunk)
{
	CUresult result;

	if (is_streamed(copy, copy->width))
		copy_bytes_streamed(chunk->memory, copy->host, copy->width);
	else
		copy_bytes_cached(chunk->memory, copy->host, copy->width);
	if (!wait_between(copy)) {
		chunk_give(chunk);
		return false;
	}
	result =
		driver.cuMemcpyHtoDAsync_v2(copy->device, chunk->memory, copy->width, copy->stream);
	if (result != CUDA_SUCCESS)
		stage_says(not_submitted);
	/* Behind a failed one, too: nobody knows how far it came. */
	return chunk_give_behind(chunk, copy->stream) && result == CUDA_SUCCESS;
}

/* ---- one piece, on the program's stream ---- */

/* Copies all units of the job's only piece, with helpers where there is a slot. False: memory that cannot be had. */
static bool copy_units(struct stage_job *job, int slot)
{
	uint64_t units = job->shape.units;
	unsigned int wanted = stage_helpers(job->shape.to_device), looks;

	if (slot >= 0 && units > 1)
		copy_threads_post(slot, stage_job_help, job,
				  units - 1 < wanted ? (unsigned int)units - 1 : wanted);
	while (stage_job_step(job))
		;
	for (looks = 0; !stage_job_has_failed(job) && !stage_job_is_finished(job, 0); looks++) {
		if (looks < LOOKS_SPINNING)
			copy_pause();
		else /* a helper that wants this processor, perhaps */
			copy_nap();
	}
	if (!stage_job_has_failed(job))
		return true;
	if (slot >= 0)
		stage_job_leave(job, slot);
	stage_says(untouchable);
	return false;
}

static bool one_to_device(const struct stage_copy *copy, struct stage_job *job,
			  const struct stage_piece *piece, int slot, struct chunk *chunk)
{
	CUresult result;

	if (!copy_units(job, slot) || !wait_between(copy)) {
		chunk_give(chunk);
		return false;
	}
	result = stage_move(&job->shape, piece, chunk->memory, copy->stream);
	if (result != CUDA_SUCCESS)
		stage_says(not_submitted);
	/* Behind a failed one, too: nobody knows how far it came. */
	return chunk_give_behind(chunk, copy->stream) && result == CUDA_SUCCESS;
}

static bool one_from_device(struct stage_job *job, const struct stage_piece *piece, int slot,
			    struct chunk *chunk, CUstream stream)
{
	CUresult result = stage_move(&job->shape, piece, chunk->memory, stream);
	bool done;

	if (result != CUDA_SUCCESS) {
		stage_says(not_submitted);
		chunk_give_behind(chunk, stream);
		return false;
	}
	if (chunk_wait_behind(chunk, stream) != CUDA_SUCCESS) {
		chunk_lose(chunk);
		return false;
	}
	done = copy_units(job, slot);
	chunk_give(chunk);
	return done;
}

/* True: there is memory that may be touched, in the way that *ret_job says. */
static bool prepare_one(struct stage_job *job, size_t bytes)
{
	if (!stage_memory_can_populate()) {
		stage_job_prepare(job, STAGE_MEMORY_TRUST);
		return true;
	}
	stage_job_prepare(job, STAGE_MEMORY_ASK);
	/* Of a few pages the kernel tells quicker by mapping them. */
	if (bytes <= CHUNK_SMALL_BYTES || stage_job_look(job))
		return true;
	stage_says(untouchable);
	return false;
}

static bool copy_one(const struct stage_copy *copy, const struct stage_shape *shape, size_t bytes)
{
	static const uint32_t confirmed = 1;
	bool split = bytes >= SPLIT_MIN && shape->units > 1 && stage_memory_can_populate();
	int slot = split ? copy_threads_take() : -1;
	struct stage_job own, *job = slot >= 0 ? &jobs[slot] : &own;
	struct stage_piece piece;
	struct chunk *chunk = NULL;
	bool done = false;

	job->shape = *shape;
	job->ring = 1;
	job->confirmed = &confirmed;
	job->base = 0;
	job->streamed = is_streamed(copy, bytes);
	if (prepare_one(job, bytes)) {
		chunk = chunk_take(copy->context,
				   bytes <= CHUNK_SMALL_BYTES ? CHUNK_SMALL : CHUNK_LARGE);
		if (!chunk)
			stage_says(no_chunk);
	}
	if (chunk) {
		job->chunks[0] = chunk->memory;
		stage_shape_piece(shape, 0, &piece);
		done = copy->to_device ? one_to_device(copy, job, &piece, slot, chunk)
				       : one_from_device(job, &piece, slot, chunk, copy->stream);
	}
	if (slot >= 0)
		copy_threads_give(slot);
	return done;
}

/* ---- many pieces, on the internal stream ---- */

static unsigned int take_chunks(struct chunk **chunks, uint64_t context, uint64_t pieces)
{
	unsigned int most = pieces < stage_tuning.ring ? (unsigned int)pieces : stage_tuning.ring,
		     count = 0;

	while (count < most && (chunks[count] = chunk_take(context, CHUNK_LARGE)))
		count++;
	return count;
}

static void give_chunks(struct chunk **chunks, unsigned int count, bool lost)
{
	while (count--) {
		if (lost)
			chunk_lose(chunks[count]);
		else
			chunk_give(chunks[count]);
	}
}

static bool copy_with(const struct stage_copy *copy, struct stage_job *job, int slot,
		      struct stage_ring *ring)
{
	struct chunk *chunks[STAGE_RING];
	enum stage_end end = STAGE_END_AGAIN;
	unsigned int i;

	job->ring = take_chunks(chunks, copy->context, job->shape.pieces);
	for (i = 0; i < job->ring; i++)
		job->chunks[i] = chunks[i]->memory;
	if (job->ring < 2) {
		stage_says("no chunks for a large staged copy");
	} else {
		end = stage_gated(job, ring, slot, copy->stream);
	}
	give_chunks(chunks, job->ring, end == STAGE_END_LOST);
	return end == STAGE_END_DONE;
}

static bool copy_many(const struct stage_copy *copy, const struct stage_shape *shape, size_t bytes)
{
	struct stage_ring *ring = NULL;
	struct stage_job *job;
	bool done = false;
	int slot;

	if (!stage_ring_possible() || !stage_memory_can_populate()) {
		stage_says("large copies cannot be staged here");
		return false;
	}
	slot = copy_threads_take();
	if (slot < 0) {
		stage_says("too many staged copies at once");
		return false;
	}
	job = &jobs[slot];
	job->copy = copy;
	job->shape = *shape;
	job->streamed = is_streamed(copy, bytes);
	stage_job_prepare(job, STAGE_MEMORY_ASK);
	if (!stage_job_look(job))
		stage_says(untouchable);
	else
		ring = stage_ring_take(copy->context, copy->to_device);
	if (ring) {
		done = copy_with(copy, job, slot, ring);
		stage_ring_give(ring);
	}
	copy_threads_give(slot);
	return done;
}

/* Smaller pieces for a smaller copy, so that filling and moving overlap. */
static size_t piece_of(size_t bytes)
{
	size_t piece = (bytes / PIECES_AT_BEST + stage_tuning.unit_bytes - 1) /
		       stage_tuning.unit_bytes * stage_tuning.unit_bytes;

	if (piece < PIECE_MIN)
		piece = PIECE_MIN;
	return piece < stage_tuning.piece_bytes ? piece : stage_tuning.piece_bytes;
}

static bool copy(const struct stage_copy *what, size_t bytes)
{
	struct stage_shape shape;

	if (!stage_shape(&shape, what, CHUNK_BYTES, bytes < SPLIT_MIN ? CHUNK_BYTES : SPLIT_UNIT))
		return false;
	chunks_earn(bytes);
	if (shape.pieces == 1)
		return copy_one(what, &shape, bytes);
	return stage_shape(&shape, what, piece_of(bytes), stage_tuning.unit_bytes) &&
	       copy_many(what, &shape, bytes);
}

void stage_says(const char *why)
{
	if (!said)
		said = why;
}

static bool is_possible(void)
{
	return driver.cuMemHostRegister_v2 && driver.cuEventCreate && driver.cuEventRecord &&
	       driver.cuEventQuery && driver.cuEventSynchronize && driver.cuMemcpyHtoDAsync_v2 &&
	       driver.cuMemcpyDtoHAsync_v2 && driver.cuThreadExchangeStreamCaptureMode;
}

/* Everything that a capture of others must not hear of: registrations, queries, waits. */
static bool copy_relaxed(const struct stage_copy *what)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct chunk *chunk;
	int cancel_state;
	bool done = false;

	if (driver.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
		return false;
	/* A thread that ended here would leave its gate closed. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	if (is_few(what)) {
		chunk = chunk_take(what->context, CHUNK_SMALL);
		if (chunk)
			done = copy_few(what, chunk);
		else
			stage_says(no_chunk);
	} else {
		done = copy(what, stage_shape_bytes(what));
	}
	pthread_setcancelstate(cancel_state, NULL);
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	return done;
}

enum stage_outcome stage_copy(const struct stage_copy *what)
{
	uintptr_t first = (uintptr_t)what->host;
	struct chunk *chunk = NULL;
	bool done = false;

	said = NULL;
	if (!is_possible()) {
		done = false;
	} else if (is_few(what) && !what->waits) {
		chunks_earn(what->width);
		if (!stage_memory_is_readable(first, first + what->width)) {
			stage_says(untouchable);
		} else {
			chunk = chunk_take_ready(what->context, CHUNK_SMALL);
			done = chunk ? copy_few(what, chunk) : copy_relaxed(what);
		}
	} else {
		done = copy_relaxed(what);
	}
	if (!done)
		stage_says("no room to stage a copy, or it could not be begun");
	if (__builtin_expect(said != NULL, 0))
		emit_note(NOTE_REWRITE, said);
	return done ? STAGE_DONE : STAGE_DRIVER;
}
