// SPDX-License-Identifier: MIT
/*
 * The calls that are measured. Used by measure.c and by the table test; relies on gpu.h.
 */
#include "cells.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../kernels/kernels.h"
#include "gpu.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

const char *const bench_stream_name[BENCH_STREAMS] = {"null", "blocking", "non-blocking"};
const char *const operand_name[OPERAND_COUNT] = {
	"none", "pageable", "pinned", "write-combined", "registered", "managed", "device"};

static size_t buffer_size(enum operand kind)
{
	/* Managed memory stays small: its pages travel, which is not what is measured. */
	return kind == OPERAND_MANAGED ? 1 * MIB : BENCH_BUFFER;
}

/* Host buffers are touched once here: page faults are none of the driver's costs. */
static void *host_buffer(struct bench *bench, enum operand kind)
{
	void *buffer = NULL;
	size_t size = buffer_size(kind);
	CUdeviceptr managed;

	if (bench->host[kind])
		return bench->host[kind];
	switch (kind) {
	case OPERAND_PAGEABLE:
	case OPERAND_REGISTERED:
		buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
		if (buffer == MAP_FAILED)
			return NULL;
		memset(buffer, 1, size);
		if (kind == OPERAND_REGISTERED && gpu.cuMemHostRegister(buffer, size, 0))
			return NULL;
		break;
	case OPERAND_PINNED:
	case OPERAND_WRITE_COMBINED:
		if (gpu.cuMemHostAlloc(&buffer, size,
				       kind == OPERAND_PINNED ? CU_MEMHOSTALLOC_DEVICEMAP
							      : CU_MEMHOSTALLOC_WRITECOMBINED))
			return NULL;
		memset(buffer, 1, size);
		break;
	case OPERAND_MANAGED:
		if (gpu.cuMemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL))
			return NULL;
		buffer = (void *)(uintptr_t)managed;
		memset(buffer, 1, size);
		break;
	default:
		return NULL;
	}
	return bench->host[kind] = buffer;
}

static CUdeviceptr device_buffer(struct bench *bench, int number)
{
	if (!bench->device_buffer[number] &&
	    gpu.cuMemAlloc(&bench->device_buffer[number], BENCH_BUFFER))
		return 0;
	return bench->device_buffer[number];
}

static CUresult prepare_copy(struct bench *bench, const struct cell *cell)
{
	if (!device_buffer(bench, 0) || !device_buffer(bench, 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (cell->source != OPERAND_NONE && cell->source != OPERAND_DEVICE &&
	    !host_buffer(bench, cell->source))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (cell->destination != OPERAND_NONE && cell->destination != OPERAND_DEVICE &&
	    !host_buffer(bench, cell->destination))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return bench_idle(bench);
}

static CUresult htod(struct bench *bench, const struct cell *cell)
{
	return gpu.cuMemcpyHtoD(bench->device_buffer[0], bench->host[cell->source], cell->bytes);
}

static CUresult dtoh(struct bench *bench, const struct cell *cell)
{
	return gpu.cuMemcpyDtoH(bench->host[cell->destination], bench->device_buffer[0],
				cell->bytes);
}

static CUresult dtod(struct bench *bench, const struct cell *cell)
{
	return gpu.cuMemcpyDtoD(bench->device_buffer[1], bench->device_buffer[0], cell->bytes);
}

static CUresult htod_async(struct bench *bench, const struct cell *cell)
{
	return gpu.cuMemcpyHtoDAsync(bench->device_buffer[0], bench->host[cell->source],
				     cell->bytes, bench->call_stream);
}

static CUresult dtoh_async(struct bench *bench, const struct cell *cell)
{
	return gpu.cuMemcpyDtoHAsync(bench->host[cell->destination], bench->device_buffer[0],
				     cell->bytes, bench->call_stream);
}

static CUresult fill(struct bench *bench, const struct cell *cell)
{
	CUdeviceptr target = cell->destination == OPERAND_DEVICE
				     ? bench->device_buffer[0]
				     : (CUdeviceptr)(uintptr_t)bench->host[cell->destination];

	return gpu.cuMemsetD8(target, 0, cell->bytes);
}

static CUresult mem_alloc(struct bench *bench, const struct cell *cell)
{
	return gpu.cuMemAlloc(&bench->memory, cell->bytes);
}

static CUresult mem_free(struct bench *bench, const struct cell *cell)
{
	(void)cell;
	return gpu.cuMemFree(bench->memory);
}

static CUresult host_alloc(struct bench *bench, const struct cell *cell)
{
	return gpu.cuMemHostAlloc(&bench->block, cell->bytes, 0);
}

static CUresult host_free(struct bench *bench, const struct cell *cell)
{
	(void)cell;
	return gpu.cuMemFreeHost(bench->block);
}

static CUresult pages_make(struct bench *bench, const struct cell *cell)
{
	bench->block =
		mmap(NULL, cell->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bench->block == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memset(bench->block, 1, cell->bytes);
	return CUDA_SUCCESS;
}

static CUresult pages_drop(struct bench *bench, const struct cell *cell)
{
	return munmap(bench->block, cell->bytes) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult host_register(struct bench *bench, const struct cell *cell)
{
	return gpu.cuMemHostRegister(bench->block, cell->bytes, 0);
}

static CUresult host_unregister(struct bench *bench, const struct cell *cell)
{
	(void)cell;
	return gpu.cuMemHostUnregister(bench->block);
}

static CUresult pages_make_registered(struct bench *bench, const struct cell *cell)
{
	CUresult result = pages_make(bench, cell);

	return result ? result : host_register(bench, cell);
}

static CUresult pages_drop_registered(struct bench *bench, const struct cell *cell)
{
	CUresult result = host_unregister(bench, cell);

	return result ? result : pages_drop(bench, cell);
}

static CUresult stream_create(struct bench *bench, const struct cell *cell)
{
	(void)cell;
	return gpu.cuStreamCreate(&bench->new_stream, CU_STREAM_DEFAULT);
}

static CUresult stream_destroy(struct bench *bench, const struct cell *cell)
{
	(void)cell;
	return gpu.cuStreamDestroy(bench->new_stream);
}

static CUresult event_create(struct bench *bench, const struct cell *cell)
{
	(void)cell;
	return gpu.cuEventCreate(&bench->new_event, CU_EVENT_DISABLE_TIMING);
}

static CUresult event_destroy(struct bench *bench, const struct cell *cell)
{
	(void)cell;
	return gpu.cuEventDestroy(bench->new_event);
}

static CUresult launch_null(struct bench *bench, const struct cell *cell)
{
	uint64_t ns = 0;
	void *arguments[] = {&ns};

	(void)cell;
	return gpu.cuLaunchKernel(bench->spin, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
}

/* A module of its own each time: its kernel was never launched, so a lazy driver loads it in the
 * call. */
static CUresult fresh_load(struct bench *bench, const struct cell *cell)
{
	CUresult result = gpu.cuModuleLoadData(&bench->new_module, KERNELS_SPIN);

	(void)cell;
	return result ? result
		      : gpu.cuModuleGetFunction(&bench->new_function, bench->new_module, "spin");
}

static CUresult fresh_launch(struct bench *bench, const struct cell *cell)
{
	uint64_t ns = 0;
	void *arguments[] = {&ns};

	(void)cell;
	return gpu.cuLaunchKernel(bench->new_function, 1, 1, 1, 1, 1, 1, 0, bench->call_stream,
				  arguments, NULL);
}

static CUresult fresh_unload(struct bench *bench, const struct cell *cell)
{
	(void)cell;
	return gpu.cuModuleUnload(bench->new_module);
}

static CUresult stack_limit(struct bench *bench, const struct cell *cell)
{
	(void)cell;
	/* Always upwards: a driver may keep what it has when the limit falls. */
	bench->stack_limit += 512;
	return gpu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, bench->stack_limit);
}

static CUresult pointer_attribute(struct bench *bench, const struct cell *cell)
{
	CUmemorytype type;

	(void)cell;
	return gpu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					 bench->device_buffer[0]);
}

#define COPY(name_, function_, source_, destination_, bytes_, call_)                               \
	{                                                                                          \
		.name = name_, .function = function_, .source = OPERAND_##source_,                 \
		.destination = OPERAND_##destination_, .bytes = bytes_, .before = prepare_copy,    \
		.call = call_                                                                      \
	}
#define HTOD(name, kind, bytes) COPY(name, "cuMemcpyHtoD_v2", kind, DEVICE, bytes, htod)
#define DTOH(name, kind, bytes) COPY(name, "cuMemcpyDtoH_v2", DEVICE, kind, bytes, dtoh)
#define DTOD(name, bytes)       COPY(name, "cuMemcpyDtoD_v2", DEVICE, DEVICE, bytes, dtod)
#define HTOD_ASYNC(name, kind, bytes)                                                              \
	COPY(name, "cuMemcpyHtoDAsync_v2", kind, DEVICE, bytes, htod_async)
#define DTOH_ASYNC(name, kind, bytes)                                                              \
	COPY(name, "cuMemcpyDtoHAsync_v2", DEVICE, kind, bytes, dtoh_async)
#define FILL(name, kind, bytes) COPY(name, "cuMemsetD8_v2", NONE, kind, bytes, fill)
#define PAIR(name_, function_, bytes_, before_, call_, after_)                                     \
	{                                                                                          \
		.name = name_, .function = function_, .bytes = bytes_, .before = before_,          \
		.call = call_, .after = after_                                                     \
	}
#define MEM_ALLOC(name, bytes) PAIR(name, "cuMemAlloc_v2", bytes, NULL, mem_alloc, mem_free)
/* The operand is the memory that is freed: its kind is part of the idle line. */
#define FREE(name_, function_, source_, bytes_, before_, call_, after_)                            \
	{                                                                                          \
		.name = name_, .function = function_, .source = OPERAND_##source_,                 \
		.bytes = bytes_, .before = before_, .call = call_, .after = after_                 \
	}
#define MEM_FREE(name, bytes)   FREE(name, "cuMemFree_v2", DEVICE, bytes, mem_alloc, mem_free, NULL)
#define HOST_ALLOC(name, bytes) PAIR(name, "cuMemHostAlloc", bytes, NULL, host_alloc, host_free)
#define HOST_FREE(name, bytes)                                                                     \
	FREE(name, "cuMemFreeHost", PINNED, bytes, host_alloc, host_free, NULL)
#define HOST_REGISTER(name, bytes)                                                                 \
	PAIR(name, "cuMemHostRegister_v2", bytes, pages_make, host_register, pages_drop_registered)
#define HOST_UNREGISTER(name, bytes)                                                               \
	FREE(name, "cuMemHostUnregister", REGISTERED, bytes, pages_make_registered,                \
	     host_unregister, pages_drop)

const struct cell cells[] = {
	HTOD("htod-pageable-4k", PAGEABLE, 4 * KIB),
	HTOD("htod-pageable-1m", PAGEABLE, 1 * MIB),
	HTOD("htod-pinned-1m", PINNED, 1 * MIB),
	DTOH("dtoh-pageable-4k", PAGEABLE, 4 * KIB),
	DTOD("dtod-1m", 1 * MIB),
	FILL("memset-device-1m", DEVICE, 1 * MIB),
	FILL("memset-pinned-1m", PINNED, 1 * MIB),
	HTOD_ASYNC("htod-async-pageable-4k", PAGEABLE, 4 * KIB),
	HTOD_ASYNC("htod-async-pageable-1m", PAGEABLE, 1 * MIB),
	HTOD_ASYNC("htod-async-pageable-16m", PAGEABLE, 16 * MIB),
	DTOH_ASYNC("dtoh-async-pageable-4k", PAGEABLE, 4 * KIB),
	DTOH_ASYNC("dtoh-async-pageable-1m", PAGEABLE, 1 * MIB),
	HTOD_ASYNC("htod-async-pinned-1m", PINNED, 1 * MIB),
	MEM_ALLOC("mem-alloc-1m", 1 * MIB),
	MEM_FREE("mem-free-1m", 1 * MIB),
	MEM_ALLOC("mem-alloc-256m", 256 * MIB),
	HOST_ALLOC("host-alloc-1m", 1 * MIB),
	HOST_FREE("host-free-1m", 1 * MIB),
	HOST_REGISTER("host-register-1m", 1 * MIB),
	HOST_UNREGISTER("host-unregister-1m", 1 * MIB),
	PAIR("stream-create", "cuStreamCreate", 0, NULL, stream_create, stream_destroy),
	PAIR("stream-destroy", "cuStreamDestroy_v2", 0, stream_create, stream_destroy, NULL),
	PAIR("event-create", "cuEventCreate", 0, NULL, event_create, event_destroy),
	PAIR("event-destroy", "cuEventDestroy_v2", 0, event_create, event_destroy, NULL),
	PAIR("launch-null", "cuLaunchKernel", 0, NULL, launch_null, NULL),
	PAIR("stack-limit", "cuCtxSetLimit", 0, NULL, stack_limit, NULL),
	PAIR("pointer-attribute", "cuPointerGetAttribute", 0, prepare_copy, pointer_attribute,
	     NULL),
	{.name = NULL},
};

const struct cell cells_full[] = {
	HTOD("htod-pageable-1", PAGEABLE, 1),
	HTOD("htod-pageable-64k-less-1", PAGEABLE, 64 * KIB - 1),
	HTOD("htod-pageable-64k", PAGEABLE, 64 * KIB),
	HTOD("htod-pageable-64k-and-1", PAGEABLE, 64 * KIB + 1),
	HTOD("htod-pageable-16m", PAGEABLE, 16 * MIB),
	HTOD("htod-pinned-4k", PINNED, 4 * KIB),
	HTOD("htod-write-combined-1m", WRITE_COMBINED, 1 * MIB),
	HTOD("htod-registered-1m", REGISTERED, 1 * MIB),
	HTOD("htod-managed-1m", MANAGED, 1 * MIB),
	DTOH("dtoh-pinned-4k", PINNED, 4 * KIB),
	DTOH("dtoh-registered-1m", REGISTERED, 1 * MIB),
	DTOH("dtoh-managed-1m", MANAGED, 1 * MIB),
	FILL("memset-registered-1m", REGISTERED, 1 * MIB),
	FILL("memset-managed-1m", MANAGED, 1 * MIB),
	HTOD_ASYNC("htod-async-pageable-64k", PAGEABLE, 64 * KIB),
	HTOD_ASYNC("htod-async-pageable-4m", PAGEABLE, 4 * MIB),
	HTOD_ASYNC("htod-async-registered-1m", REGISTERED, 1 * MIB),
	HTOD_ASYNC("htod-async-managed-1m", MANAGED, 1 * MIB),
	DTOH_ASYNC("dtoh-async-pinned-1m", PINNED, 1 * MIB),
	DTOH_ASYNC("dtoh-async-pageable-16m", PAGEABLE, 16 * MIB),
	DTOH_ASYNC("dtoh-async-managed-1m", MANAGED, 1 * MIB),
	MEM_FREE("mem-free-256", 256),
	MEM_FREE("mem-free-64k", 64 * KIB),
	MEM_FREE("mem-free-64m", 64 * MIB),
	HOST_FREE("host-free-4k", 4 * KIB),
	HOST_FREE("host-free-64m", 64 * MIB),
	HOST_UNREGISTER("host-unregister-64k", 64 * KIB),
	HOST_UNREGISTER("host-unregister-64m", 64 * MIB),
	PAIR("first-launch", "cuLaunchKernel", 0, fresh_load, fresh_launch, fresh_unload),
	PAIR("module-unload", "cuModuleUnload", 0, fresh_load, fresh_unload, NULL),
	{.name = NULL},
};

/* Measured with nothing pending, for the idle costs alone. */
const struct cell cells_idle[] = {
	HTOD("idle-htod-pageable-64k", PAGEABLE, 64 * KIB),
	HTOD("idle-htod-pageable-16m", PAGEABLE, 16 * MIB),
	HTOD("idle-htod-pageable-64m", PAGEABLE, 64 * MIB),
	HTOD("idle-htod-pinned-4k", PINNED, 4 * KIB),
	HTOD("idle-htod-pinned-16m", PINNED, 16 * MIB),
	HTOD("idle-htod-pinned-64m", PINNED, 64 * MIB),
	DTOH("idle-dtoh-pageable-64k", PAGEABLE, 64 * KIB),
	DTOH("idle-dtoh-pageable-1m", PAGEABLE, 1 * MIB),
	DTOH("idle-dtoh-pageable-16m", PAGEABLE, 16 * MIB),
	DTOH("idle-dtoh-pageable-64m", PAGEABLE, 64 * MIB),
	DTOH("idle-dtoh-pinned-4k", PINNED, 4 * KIB),
	DTOH("idle-dtoh-pinned-1m", PINNED, 1 * MIB),
	DTOH("idle-dtoh-pinned-16m", PINNED, 16 * MIB),
	DTOH("idle-dtoh-pinned-64m", PINNED, 64 * MIB),
	FILL("idle-memset-pinned-4k", PINNED, 4 * KIB),
	HTOD_ASYNC("idle-htod-async-pageable-64k", PAGEABLE, 64 * KIB),
	HTOD_ASYNC("idle-htod-async-pageable-64m", PAGEABLE, 64 * MIB),
	DTOH_ASYNC("idle-dtoh-async-pageable-64k", PAGEABLE, 64 * KIB),
	DTOH_ASYNC("idle-dtoh-async-pageable-16m", PAGEABLE, 16 * MIB),
	DTOH_ASYNC("idle-dtoh-async-pageable-64m", PAGEABLE, 64 * MIB),
	MEM_FREE("idle-mem-free-4k", 4 * KIB),
	MEM_FREE("idle-mem-free-64m", 64 * MIB),
	MEM_FREE("idle-mem-free-256m", 256 * MIB),
	HOST_FREE("idle-host-free-4k", 4 * KIB),
	HOST_FREE("idle-host-free-16m", 16 * MIB),
	HOST_FREE("idle-host-free-64m", 64 * MIB),
	HOST_UNREGISTER("idle-host-unregister-4k", 4 * KIB),
	HOST_UNREGISTER("idle-host-unregister-64m", 64 * MIB),
	{.name = NULL},
};

const struct cell *cell_find(const char *name)
{
	const struct cell *tables[] = {cells, cells_full, cells_idle};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		for (const struct cell *cell = tables[i]; cell->name; cell++) {
			if (!strcmp(cell->name, name))
				return cell;
		}
	}
	return NULL;
}
