// SPDX-License-Identifier: MIT
/*
 * Stage, simply (stage.h): one block of pinned memory a copy, given back to the driver never, used again once its copy is done. Weak: it
 * stands in until the engine is linked. Relies on driver.h.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "rewrite/stage.h"
#include "state/proof.h"

#define WEAK       __attribute__((weak))
#define BLOCKS_MAX 64
#define BLOCK_MAX  ((size_t)64 << 20)

static struct block {
	unsigned char *at;
	size_t bytes;
	uint64_t context;
	CUevent event;
	bool taken, pending;
} blocks[BLOCKS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t held;

/* In the context that is current. */
static struct block *take(uint64_t context, size_t bytes)
{
	struct block *found = NULL, *block;

	pthread_mutex_lock(&lock);
	for (block = blocks; block < blocks + BLOCKS_MAX && !found; block++)
		if (!block->taken &&
		    (!block->at || (block->context == context && block->bytes >= bytes)) &&
		    (!block->pending || driver.cuEventQuery(block->event) == CUDA_SUCCESS))
			found = block;
	if (found)
		found->taken = true;
	pthread_mutex_unlock(&lock);
	if (!found || found->at)
		return found;
	if (driver.cuMemHostAlloc((void **)&found->at, bytes, CU_MEMHOSTALLOC_PORTABLE) !=
		    CUDA_SUCCESS ||
	    driver.cuEventCreate(&found->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		found->taken = false;
		return NULL;
	}
	found->bytes = bytes;
	found->context = context;
	held += bytes;
	return found;
}

static void move_rows(const struct stage_copy *copy, unsigned char *block, bool in)
{
	size_t y, z;

	for (z = 0; z < copy->depth; z++)
		for (y = 0; y < copy->height; y++) {
			unsigned char *host = (unsigned char *)copy->host + z * copy->host_slice +
					      y * copy->host_pitch;
			unsigned char *row = block + (z * copy->height + y) * copy->width;

			memcpy(in ? row : host, in ? host : row, copy->width);
		}
}

static CUresult transfer(const struct stage_copy *copy, struct block *block)
{
	CUDA_MEMCPY3D described = {
		.srcMemoryType = copy->to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.srcHost = block->at,
		.srcDevice = copy->device,
		.srcPitch = copy->to_device ? copy->width : copy->device_pitch,
		.srcHeight =
			copy->to_device ? copy->height : copy->device_slice / copy->device_pitch,
		.dstMemoryType = copy->to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.dstHost = block->at,
		.dstDevice = copy->device,
		.dstPitch = copy->to_device ? copy->device_pitch : copy->width,
		.dstHeight =
			copy->to_device ? copy->device_slice / copy->device_pitch : copy->height,
		.WidthInBytes = copy->width,
		.Height = copy->height,
		.Depth = copy->depth,
	};

	if (!described.srcHeight)
		described.srcHeight = copy->height;
	if (!described.dstHeight)
		described.dstHeight = copy->height;
	return driver.cuMemcpy3DAsync_v2(&described, copy->stream);
}

WEAK enum stage_outcome stage_copy(const struct stage_copy *copy, CUresult *ret_result)
{
	size_t bytes = copy->width * copy->height * copy->depth;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct block *block;
	CUresult result;

	if (bytes > BLOCK_MAX || driver.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
		return STAGE_DRIVER;
	block = take(copy->context, bytes);
	if (!block) {
		driver.cuThreadExchangeStreamCaptureMode(&mode);
		return STAGE_DRIVER;
	}
	if (copy->to_device)
		move_rows(copy, block->at, true);
	result = transfer(copy, block);
	if (result == CUDA_SUCCESS)
		result = driver.cuEventRecord(block->event, copy->stream);
	if (result == CUDA_SUCCESS && !copy->to_device)
		result = driver.cuEventSynchronize(block->event);
	if (result == CUDA_SUCCESS && !copy->to_device)
		move_rows(copy, block->at, false);
	block->pending = copy->to_device;
	/* What failed half-way keeps its block for good. */
	if (result == CUDA_SUCCESS)
		__atomic_store_n(&block->taken, false, __ATOMIC_RELEASE);
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	*ret_result = result;
	return result == CUDA_SUCCESS ? STAGE_DONE : STAGE_FAILED;
}

WEAK void stage_wait_pending(void)
{
	struct block *block;

	for (block = blocks; block < blocks + BLOCKS_MAX; block++)
		if (block->pending)
			driver.cuEventSynchronize(block->event);
}

WEAK uint64_t stage_held_bytes(void)
{
	return held;
}

WEAK size_t stage_chunk_bytes(void)
{
	return BLOCK_MAX;
}

WEAK void stage_drop(bool (*lives)(uint64_t context))
{
	struct block *block;

	for (block = blocks; block < blocks + BLOCKS_MAX; block++)
		if (block->at && !lives(block->context))
			memset(block, 0, sizeof(*block));
}
