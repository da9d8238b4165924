// SPDX-License-Identifier: MIT
/*
 * Stage ring (stage_ring.h).
 *
 * Why a value in memory proves that a piece has been moved: the write is an operation of the internal stream behind the copy, so it is made
 * when the copy is done; without CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER it stands behind a barrier for the whole system, so what
 * the copy wrote to the host is there before it, and what it read from the host has been read. The reader's acquire load pairs with it.
 * Numbers rise over all copies of a ring and are compared by difference, so that they may wrap; a copy has fewer pieces than 2^31.
 *
 * The place in the program's stream is one call of cuStreamBatchMemOp: a write of `arrived`, the wait for `gate`, and, from the device, a write of
 * `passed`. An event and a wait would be
 * two calls, and another thread's operation could come to lie between them, beside the copy.
 *
 * The driver does not know of these dependencies. The internal stream has the highest priority, so that it should share no queue of the
 * hardware with streams that wait, through whatever chain, for the gate; should it nevertheless, it makes no progress although the program's
 * stream has arrived, which the caller sees and ends (stage_gated.c).
 */
#include "stage/stage_ring.h"

#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "emit/emit.h"
#include "stage/chunks.h"
#include "stage/stage.h"
#include "stage/stage_tuning.h"

#define RINGS_MAX 32

/* What a driver has when it is not told. */
#define CONNECTIONS_MIN 8

static struct stage_ring rings[RINGS_MAX];

/*
 * With few connections the copies that a program has behind the gate share their hardware queue with the pieces that it waits for, and nothing
 * moves. H200: with 1 always, with 2 sometimes, with 4 and more never (tests/bench/gates). Looked at by the first large copy: a program may set it
 * before it makes its context, but from then on may change its environment while another thread copies, and that must not be read meanwhile.
 */
static bool has_connections(void)
{
	enum { UNKNOWN, ENOUGH, FEW };
	static uint32_t connections;
	uint32_t known = __atomic_load_n(&connections, __ATOMIC_RELAXED);
	const char *text;

	if (known == UNKNOWN) {
		text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
		known = !text || !*text || strtol(text, NULL, 10) >= CONNECTIONS_MIN ? ENOUGH : FEW;
		__atomic_store_n(&connections, known, __ATOMIC_RELAXED);
	}
	return known == ENOUGH;
}

bool stage_ring_possible(void)
{
	return has_connections() && driver.cuStreamBatchMemOp_v2 && driver.cuStreamWaitValue32_v2 &&
	       driver.cuStreamWriteValue32_v2 && driver.cuStreamCreateWithPriority &&
	       driver.cuCtxGetStreamPriorityRange && driver.cuMemHostGetDevicePointer_v2 &&
	       driver.cuStreamQuery && driver.cuStreamSynchronize && driver.cuMemcpyHtoDAsync_v2 &&
	       driver.cuMemcpyDtoHAsync_v2;
}

static bool try_lock(struct stage_ring *ring)
{
	uint32_t free = 0;

	/* Acquire and, in stage_ring_give(), release: what the last copy left is seen. */
	return __atomic_compare_exchange_n(&ring->locked, &free, 1, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

void stage_ring_give(struct stage_ring *ring)
{
	__atomic_store_n(&ring->locked, 0, __ATOMIC_RELEASE);
}

/* A record is made once and stays with the ring. Where there is no room for one, nobody reads it. */
static void show(struct stage_ring *ring)
{
	static struct record_gate nowhere[RINGS_MAX];
	struct record_gate *record;

	if (ring->shown && ring->shown != &nowhere[ring - rings])
		return;
	record = emit_reserve(sizeof(*record));
	if (record)
		emit_publish(record, RECORD_GATE);
	ring->shown = record ? record : &nowhere[ring - rings];
}

static bool create(struct stage_ring *ring, uint64_t context, bool to_device)
{
	int least = 0, greatest = 0;

	show(ring);
	if (!ring->words)
		ring->words = chunk_map(4096);
	if (!ring->words)
		return false;
	ring->words->arrived = ring->words->gate = ring->words->passed = 0;
	memset(ring->events, 0, sizeof(ring->events));
	ring->copies = ring->pieces = 0;
	/* A copy thread that is late may still look at them, for a copy that is over. */
	__atomic_store_n(&ring->words->progress, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->seen, 0, __ATOMIC_RELAXED);
	/* Read by find() of others, who look again once they have the ring. */
	__atomic_store_n(&ring->to_device, to_device, __ATOMIC_RELAXED);
	ring->broken = false;
	if (QUIETLY(driver.cuMemHostRegister_v2(
		    ring->words, 4096,
		    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)) != CUDA_SUCCESS)
		return false;
	/* Half made: it is never tried again in this context. */
	ring->broken = true;
	ring->stream = NULL;
	__atomic_store_n(&ring->context, context, __ATOMIC_RELAXED);
	if (driver.cuMemHostGetDevicePointer_v2(&ring->device_words, ring->words, 0) !=
		    CUDA_SUCCESS ||
	    driver.cuCtxGetStreamPriorityRange(&least, &greatest) != CUDA_SUCCESS ||
	    QUIETLY(driver.cuStreamCreateWithPriority(&ring->stream, CU_STREAM_NON_BLOCKING,
						      greatest)) != CUDA_SUCCESS)
		return false;
	ring->broken = false;
	return true;
}

/* The context's ring; NULL: it has none. */
static struct stage_ring *find(uint64_t context, bool to_device)
{
	unsigned int i;

	for (i = 0; i < RINGS_MAX; i++)
		if (__atomic_load_n(&rings[i].context, __ATOMIC_RELAXED) == context &&
		    __atomic_load_n(&rings[i].to_device, __ATOMIC_RELAXED) == to_device)
			return &rings[i];
	return NULL;
}

static struct stage_ring *make(uint64_t context, bool to_device)
{
	static uint32_t making;
	struct stage_ring *ring = NULL;
	unsigned int i;

	/* One at a time, so that a context gets one only; whoever comes meanwhile has none. Acquire: pairs with the release below. */
	if (__atomic_exchange_n(&making, 1, __ATOMIC_ACQUIRE))
		return NULL;
	for (i = 0; i < RINGS_MAX && !find(context, to_device) && !ring; i++) {
		if (rings[i].context || !try_lock(&rings[i]))
			continue;
		if (!rings[i].context && create(&rings[i], context, to_device)) {
			ring = &rings[i];
		} else {
			stage_says("the internal stream could not be made");
			stage_ring_give(&rings[i]);
			break;
		}
	}
	__atomic_store_n(&making, 0, __ATOMIC_RELEASE);
	return ring;
}

struct stage_ring *stage_ring_take(uint64_t context, bool to_device)
{
	struct stage_ring *ring = find(context, to_device);

	if (!ring)
		return make(context, to_device);
	if (!try_lock(ring)) {
		stage_says("a staged copy found another one under way");
		return NULL;
	}
	if (ring->context == context && ring->to_device == to_device && !ring->broken)
		return ring;
	stage_ring_give(ring);
	return NULL;
}

void stage_rings_drop(bool (*lives)(uint64_t context))
{
	unsigned int i;

	for (i = 0; i < RINGS_MAX; i++) {
		uint64_t context = __atomic_load_n(&rings[i].context, __ATOMIC_RELAXED);

		if (!context || lives(context) || !try_lock(&rings[i]))
			continue;
		/* The stream, the events and the registration went with it. */
		__atomic_store_n(&rings[i].context, 0, __ATOMIC_RELAXED);
		stage_ring_give(&rings[i]);
	}
}

static CUdeviceptr word(const struct stage_ring *ring, size_t offset)
{
	return ring->device_words + offset;
}

#define WORD(ring, name) word(ring, offsetof(struct stage_words, name))

bool stage_ring_place(struct stage_ring *ring, CUstream stream)
{
	CUstreamBatchMemOpParams place[3];

	ring->copies++;
	memset(place, 0, sizeof(place));
	place[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	place[0].writeValue.address = WORD(ring, arrived);
	place[0].writeValue.value = ring->copies;
	place[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	place[1].waitValue.address = WORD(ring, gate);
	place[1].waitValue.value = ring->copies;
	place[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
	place[2].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	place[2].writeValue.address = WORD(ring, passed);
	place[2].writeValue.value = ring->copies;
	if (driver.cuStreamBatchMemOp_v2(stream, ring->to_device ? 2 : 3, place, 0) !=
	    CUDA_SUCCESS) {
		/* Should half of it be there all the same. */
		stage_ring_open(ring);
		return false;
	}
	if (driver.cuStreamWaitValue32_v2(ring->stream, WORD(ring, arrived), ring->copies,
					  CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS) {
		stage_ring_open(ring);
		return false;
	}
	return true;
}

bool stage_ring_open_behind(struct stage_ring *ring)
{
	return driver.cuStreamWriteValue32_v2(ring->stream, WORD(ring, gate), ring->copies, 0) ==
	       CUDA_SUCCESS;
}

void stage_ring_open(struct stage_ring *ring)
{
	/* Release: pairs with the wait in the program's stream: what was put right before is there for what stands behind the gate. */
	__atomic_store_n(&ring->words->gate, ring->copies, __ATOMIC_RELEASE);
}

static CUresult move_rows(const struct stage_shape *shape, const struct stage_piece *piece,
			  void *chunk, CUstream stream)
{
	CUDA_MEMCPY2D copy = {.WidthInBytes = piece->width, .Height = piece->height};

	if (!driver.cuMemcpy2DAsync_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (shape->to_device) {
		copy.srcMemoryType = CU_MEMORYTYPE_HOST;
		copy.srcHost = chunk;
		copy.srcPitch = piece->width;
		copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.dstDevice = piece->device;
		copy.dstPitch = shape->device_pitch;
	} else {
		copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.srcDevice = piece->device;
		copy.srcPitch = shape->device_pitch;
		copy.dstMemoryType = CU_MEMORYTYPE_HOST;
		copy.dstHost = chunk;
		copy.dstPitch = piece->width;
	}
	return driver.cuMemcpy2DAsync_v2(&copy, stream);
}

static CUresult move_slices(const struct stage_shape *shape, const struct stage_piece *piece,
			    void *chunk, CUstream stream)
{
	CUDA_MEMCPY3D copy = {
		.WidthInBytes = piece->width,
		.Height = piece->height,
		.Depth = piece->depth,
	};

	if (!driver.cuMemcpy3DAsync_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (shape->to_device) {
		copy.srcMemoryType = CU_MEMORYTYPE_HOST;
		copy.srcHost = chunk;
		copy.srcPitch = piece->width;
		copy.srcHeight = piece->height;
		copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.dstDevice = piece->device;
		copy.dstPitch = shape->device_pitch;
		copy.dstHeight = shape->device_slice / shape->device_pitch;
	} else {
		copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.srcDevice = piece->device;
		copy.srcPitch = shape->device_pitch;
		copy.srcHeight = shape->device_slice / shape->device_pitch;
		copy.dstMemoryType = CU_MEMORYTYPE_HOST;
		copy.dstHost = chunk;
		copy.dstPitch = piece->width;
		copy.dstHeight = piece->height;
	}
	return driver.cuMemcpy3DAsync_v2(&copy, stream);
}

CUresult stage_move(const struct stage_shape *shape, const struct stage_piece *piece, void *chunk,
		    CUstream stream)
{
	if (piece->depth > 1)
		return move_slices(shape, piece, chunk, stream);
	if (piece->height > 1)
		return move_rows(shape, piece, chunk, stream);
	return shape->to_device
		       ? driver.cuMemcpyHtoDAsync_v2(piece->device, chunk, piece->width, stream)
		       : driver.cuMemcpyDtoHAsync_v2(chunk, piece->device, piece->width, stream);
}

static CUresult confirm(struct stage_ring *ring, const struct stage_job *job, uint64_t number)
{
	CUevent *event = &ring->events[number % job->ring];
	CUresult result = CUDA_SUCCESS;

	if (stage_tuning.by_value)
		return driver.cuStreamWriteValue32_v2(ring->stream, WORD(ring, progress),
						      ring->pieces + (uint32_t)number + 1, 0);
	if (!*event)
		result = QUIETLY(driver.cuEventCreate(event, CU_EVENT_DISABLE_TIMING));
	return result == CUDA_SUCCESS ? driver.cuEventRecord(*event, ring->stream) : result;
}

CUresult stage_ring_move(struct stage_ring *ring, const struct stage_job *job, uint64_t number)
{
	struct stage_piece piece;
	CUresult result;

	stage_shape_piece(&job->shape, number, &piece);
	result = stage_move(&job->shape, &piece, job->chunks[number % job->ring], ring->stream);
	return result == CUDA_SUCCESS ? confirm(ring, job, number) : result;
}

const uint32_t *stage_ring_confirmed(const struct stage_ring *ring)
{
	return stage_tuning.by_value ? &ring->words->progress : &ring->seen;
}

bool stage_ring_ask(struct stage_ring *ring, const struct stage_job *job, uint32_t submitted)
{
	uint32_t done = ring->seen - ring->pieces;
	CUresult result = CUDA_SUCCESS;

	if (stage_tuning.by_value || done == submitted)
		return true;
	while (done < submitted && result == CUDA_SUCCESS) {
		result = driver.cuEventQuery(ring->events[done % job->ring]);
		if (result == CUDA_SUCCESS)
			/* Release: pairs with the helpers' acquire of what is confirmed. */
			__atomic_store_n(&ring->seen, ring->pieces + ++done, __ATOMIC_RELEASE);
	}
	return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY;
}
