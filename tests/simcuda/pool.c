// SPDX-License-Identifier: MIT
/*
 * Stream-ordered memory: pools, cuMemAllocAsync, cuMemFreeAsync.
 *
 * Owns: struct sim_memory_pool and its blocks. A freed block may be used again at once by the
 * stream that freed it, by others only after the free has run. Blocks above the release threshold
 * go back to the device when something synchronizes. Called by: exports.c, engine.c (a free has
 * run), stream.c and event.c (synchronized). Relies on memory.c for the bytes.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

struct sim_memory_pool {
	struct sim_object object;
	int device;
	bool standard; /* the device's default pool */
	bool doomed;   /* destroyed while blocks are in use */
	uint64_t threshold;
	uint64_t reserved, reserved_high, used, used_high;
	int reuse[4];
	struct sim_allocation *blocks; /* in use and released ones */
	struct sim_memory_pool *next;
};

static struct sim_memory_pool *pools;
static struct sim_memory_pool *standard[SIM_DEVICE_LIMIT], *current[SIM_DEVICE_LIMIT];
static bool first_done;

static struct sim_memory_pool *pool_new(int device)
{
	struct sim_memory_pool *pool = sim_object_new(SIM_MEMORY_POOL);

	if (!pool)
		return NULL;
	pool->device = device;
	for (int i = 0; i < 4; i++)
		pool->reuse[i] = 1;
	pool->next = pools;
	pools = pool;
	return pool;
}

static struct sim_memory_pool *standard_pool(int device)
{
	if (!standard[device]) {
		standard[device] = pool_new(device);
		if (standard[device])
			standard[device]->standard = true;
	}
	return standard[device];
}

static struct sim_memory_pool *current_pool(int device)
{
	return current[device] ? current[device] : standard_pool(device);
}

static void unlink_block(struct sim_memory_pool *pool, struct sim_allocation *block)
{
	for (struct sim_allocation **link = &pool->blocks; *link; link = &(*link)->next) {
		if (*link != block)
			continue;
		*link = block->next;
		return;
	}
}

static void pool_free(struct sim_memory_pool *pool)
{
	for (struct sim_memory_pool **link = &pools; *link; link = &(*link)->next) {
		if (*link != pool)
			continue;
		*link = pool->next;
		break;
	}
	sim_object_free(pool);
}

static void trim(struct sim_memory_pool *pool, uint64_t keep)
{
	struct sim_allocation *next;

	for (struct sim_allocation *block = pool->blocks; block && pool->reserved > keep;
	     block = next) {
		next = block->next;
		if (!block->released)
			continue;
		unlink_block(pool, block);
		pool->reserved -= block->reserved;
		sim_memory_device_free(block);
	}
	if (pool->doomed && !pool->blocks)
		pool_free(pool);
}

void sim_pools_synchronized(int device)
{
	struct sim_memory_pool *next;

	for (struct sim_memory_pool *pool = pools; pool; pool = next) {
		next = pool->next;
		if (pool->device == device)
			trim(pool, pool->threshold);
	}
}

void sim_pool_free_done(struct sim_allocation *block)
{
	struct sim_memory_pool *pool;

	if (!block) /* a free node of a graph: its memory stays the graph's */
		return;
	pool = block->pool;
	if (block->replaced) {
		free(block);
		return;
	}
	if (!block->freed)
		pool->used -= block->size;
	block->freed = block->released = true;
	if (pool->doomed)
		trim(pool, 0);
}

static struct sim_allocation *take_again(struct sim_memory_pool *pool, struct sim_stream *stream,
					 size_t size)
{
	for (struct sim_allocation *block = pool->blocks; block; block = block->next) {
		struct sim_allocation *renewed = block;

		if (!block->freed || block->reserved < size || block->reserved > 2 * size + 512)
			continue;
		if (!block->released) {
			if (block->freed_on != stream->object.id)
				continue;
			/* The free will run before what comes now on this stream: the address
			 * passes on. */
			renewed = malloc(sizeof(*renewed));
			if (!renewed)
				return NULL;
			*renewed = *block;
			unlink_block(pool, block);
			sim_memory_remove(block);
			block->replaced = true;
			renewed->id = 0;
			renewed->size = size;
			if (sim_memory_insert(renewed))
				abort();
			renewed->next = pool->blocks;
			pool->blocks = renewed;
		} else {
			sim_memory_remove(block);
			block->id = 0;
			block->size = size;
			if (sim_memory_insert(block))
				abort();
		}
		renewed->freed = renewed->released = false;
		return renewed;
	}
	return NULL;
}

static CUresult take(CUdeviceptr *ret_pointer, size_t size, struct sim_memory_pool *pool,
		     CUstream handle)
{
	struct sim_work work = {.kind = SIM_ALLOC};
	struct sim_allocation *block;
	struct sim_context *context;
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(handle, &stream);

	if (result)
		return result;
	if (!ret_pointer || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!pool)
		pool = current_pool(stream->context->device);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!first_done) {
		first_done = true;
		sim_cost(10000000);
	}
	block = stream->capture ? NULL : take_again(pool, stream, size);
	if (!block) {
		context = stream->context;
		result = sim_memory_device_new(context, size, 0, &block);
		if (result && pool->reserved > pool->used) {
			trim(pool, 0);
			result = sim_memory_device_new(context, size, 0, &block);
		}
		if (result)
			return result;
		block->kind = SIM_POOL;
		block->context = NULL;
		block->device = pool->device;
		block->pool = pool;
		block->next = pool->blocks;
		pool->blocks = block;
		pool->reserved += block->reserved;
	}
	pool->used += block->size;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	work.allocation = block;
	result = sim_submit(stream, &work, NULL);
	if (result)
		sim_pool_free_done(block);
	else
		*ret_pointer = block->address;
	return result;
}

CUresult impl_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return take(dptr, bytesize, NULL, hStream);
}

static struct sim_memory_pool *check(CUmemoryPool handle)
{
	return sim_object_check(handle, SIM_MEMORY_POOL);
}

CUresult impl_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				      CUstream hStream)
{
	struct sim_memory_pool *from = check(pool);

	return from && !from->doomed ? take(dptr, bytesize, from, hStream)
				     : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct sim_work work = {.kind = SIM_FREE_ASYNC};
	struct sim_allocation *block = sim_memory_find(dptr);
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(hStream, &stream);

	if (result)
		return result;
	if (!dptr)
		return CUDA_SUCCESS;
	if (!block || block->kind != SIM_POOL || block->address != dptr || block->freed)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture)
		return sim_submit(stream, &work, NULL);
	work.allocation = block;
	block->freed = true;
	block->freed_on = stream->object.id;
	block->pool->used -= block->size;
	result = sim_submit(stream, &work, NULL);
	if (result) {
		block->freed = false;
		block->pool->used += block->size;
	}
	return result;
}

/* ---- pools ---- */

CUresult impl_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct sim_memory_pool *created;

	if (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (poolProps->location.id < 0 || poolProps->location.id >= sim.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	created = pool_new(poolProps->location.id);
	if (!created)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool = (CUmemoryPool)created;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemPoolDestroy(CUmemoryPool pool)
{
	struct sim_memory_pool *gone = check(pool);

	if (!gone || gone->standard)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < sim.device_count; i++)
		if (current[i] == gone)
			current[i] = NULL;
	gone->object.magic = SIM_DEAD;
	gone->doomed = true;
	trim(gone, 0);
	return CUDA_SUCCESS;
}

CUresult impl_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	struct sim_memory_pool *which = check(pool);

	if (!which)
		return CUDA_ERROR_INVALID_VALUE;
	trim(which, minBytesToKeep);
	return CUDA_SUCCESS;
}

CUresult impl_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct sim_memory_pool *which = check(pool);

	if (!which || !value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value = which->reuse[attr];
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(cuuint64_t *)value = which->threshold;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = which->reserved;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = which->reserved_high;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = which->used;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = which->used_high;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult impl_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct sim_memory_pool *which = check(pool);

	if (!which || !value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		which->reuse[attr] = *(int *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		which->threshold = *(cuuint64_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		which->reserved_high = which->reserved;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		which->used_high = which->used;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult impl_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	return check(pool) && map && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
				 CUmemLocation *location)
{
	if (!check(memPool) || !flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

#define CHECK(device)                                                                              \
	do {                                                                                       \
		if ((device) < 0 || (device) >= sim.device_count)                                  \
			return CUDA_ERROR_INVALID_DEVICE;                                          \
	} while (0)

CUresult impl_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	CHECK(dev);
	if (!pool_out)
		return CUDA_ERROR_INVALID_VALUE;
	*pool_out = (CUmemoryPool)standard_pool(dev);
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	CHECK(dev);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = (CUmemoryPool)current_pool(dev);
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	CHECK(dev);
	if (!check(pool) || check(pool)->device != dev)
		return CUDA_ERROR_INVALID_VALUE;
	current[dev] = check(pool);
	return CUDA_SUCCESS;
}

/* ---- what needs no bytes to move: managed memory is in one place here ---- */

CUresult impl_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
				    unsigned int flags, CUstream hStream)
{
	struct sim_work work = {.kind = SIM_EMPTY};
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(hStream, &stream);

	if (result)
		return result;
	if (sim_memory_kind(devPtr) != SIM_MANAGED || !sim_memory_translate(devPtr, count, false))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_submit(stream, &work, NULL);
}

CUresult impl_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
				 CUstream hStream)
{
	return impl_cuMemPrefetchAsync_v2(
		devPtr, count, (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE}, 0, hStream);
}

CUresult impl_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
			     CUmemLocation location)
{
	return sim_memory_kind(devPtr) == SIM_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	return sim_memory_kind(devPtr) == SIM_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
