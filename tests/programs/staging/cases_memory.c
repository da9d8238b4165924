// SPDX-License-Identifier: MIT
/*
 * Cases: which memory is staged, and what the driver must judge. run.py checks by the counts how many copies were.
 */
#include "cases.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

CUresult cuCtxCreate_v2(CUcontext *ret_context, unsigned int flags, CUdevice device);

/* All of them go both ways, and no byte may be wrong. */
static void both_ways(void *host, CUdeviceptr block, size_t bytes, unsigned int value)
{
	paint(host, bytes, value);
	OK(cuMemcpyHtoD(block, host, bytes));
	memset(host, 0, bytes);
	OK(cuMemcpyDtoH(host, block, bytes));
	EXPECT(is_pattern(host, bytes, value));
	paint(host, bytes, value + 1);
	OK(cuMemcpy(block, (uintptr_t)host, bytes));
	memset(host, 0, bytes);
	OK(cuMemcpyAsync((uintptr_t)host, block, bytes, NULL));
	OK(cuStreamSynchronize(NULL));
	EXPECT(is_pattern(host, bytes, value + 1));
}

static void plain(void)
{
	both_ways(malloc(SOME), device_block(SOME), SOME, 1);
}

/* Too small for anything to be gained. */
static void small(void)
{
	both_ways(malloc(4096), device_block(4096), 4096, 1);
}

static void pinned(void)
{
	void *host;

	OK(cuMemHostAlloc(&host, SOME, 0));
	both_ways(host, device_block(SOME), SOME, 1);
}

static void managed(void)
{
	CUdeviceptr host;

	OK(cuMemAllocManaged(&host, SOME, CU_MEM_ATTACH_GLOBAL));
	both_ways((void *)(uintptr_t)host, device_block(SOME), SOME, 1);
	both_ways(malloc(SOME), host, SOME, 3);
}

static unsigned char *pages(void)
{
	void *at = mmap(NULL, SOME + 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	if (at == MAP_FAILED)
		exit(1);
	return at;
}

/* Some of the bytes are registered. Whether that is a copy at all is the driver's matter. */
static void mixed(unsigned char *at, CUdeviceptr block, unsigned int value)
{
	CUresult result;

	paint(at, SOME, value);
	result = cuMemcpyHtoD(block, at, SOME);
	EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
	if (result == CUDA_SUCCESS)
		EXPECT(device_is(block, SOME, value));
	result = cuMemcpyDtoH(at, block, SOME);
	EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
}

/* The same in rows, of which only the last may be registered. */
static void mixed_rows(unsigned char *at, CUdeviceptr block)
{
	const CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = at,
		.srcPitch = SOME / 2,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = block,
		.dstPitch = SOME / 2,
		.WidthInBytes = SOME / 2 - 100,
		.Height = 2,
	};
	CUresult result = cuMemcpy2D(&copy);

	EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
}

/* Registered as a whole; at the beginning, at the end, in the middle. */
static void registered(void)
{
	CUdeviceptr block = device_block(SOME);
	unsigned char *at = pages();
	const size_t from[] = {0, SOME / PAGE * PAGE, 16 * PAGE};

	OK(cuMemHostRegister(at, SOME + 8 * PAGE, 0));
	both_ways(at + 100, block, SOME, 1);
	OK(cuMemHostUnregister(at));
	for (unsigned int i = 0; i < 3; i++) {
		OK(cuMemHostRegister(at + from[i], 2 * PAGE, 0));
		mixed(at + 100, block, 3 + i);
		mixed_rows(at + 100, block);
		OK(cuMemHostUnregister(at + from[i]));
	}
}

/* Registered as soon as the copy returns; and pageable again behind a registration. */
static void registered_later(void)
{
	CUdeviceptr block = device_block(SOME);
	unsigned char *at = pages();

	close_gate(NULL);
	for (unsigned int i = 0; i < 4; i++) {
		paint(at, SOME, i);
		OK(cuMemcpyHtoDAsync(block, at, SOME, NULL));
		OK(cuMemHostRegister(at, SOME + 8 * PAGE, 0));
		paint(at, SOME, 100 + i);
		if (i == 3)
			open_gate();
		else
			at = pages();
	}
	EXPECT(device_is(block, SOME, 3));
	OK(cuMemHostUnregister(at));
	both_ways(at, block, SOME, 1);
}

/* Async-pool memory is as good as any. */
static void pool(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *bytes = pattern(SOME, 1);
	CUdeviceptr block, next;

	OK(cuMemAllocAsync(&block, SOME, stream));
	OK(cuMemcpyHtoDAsync(block, bytes, SOME, stream));
	memset(bytes, 0, SOME);
	OK(cuMemcpyDtoHAsync(bytes, block, SOME, stream));
	EXPECT(is_pattern(bytes, SOME, 1));
	OK(cuMemcpyHtoDAsync(block, bytes, SOME, stream));
	/* Freed behind the copy, and used again behind that. */
	OK(cuMemFreeAsync(block, stream));
	OK(cuMemAllocAsync(&next, SOME, stream));
	fill(stream, next, 7, SOME);
	OK(cuMemcpyDtoHAsync(bytes, next, SOME, stream));
	EXPECT(bytes[0] == 7 && bytes[SOME - 4] == 7);
}

static void mapped(void)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = properties.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	size_t size;

	OK(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemCreate(&handle, size, &properties, 0));
	OK(cuMemAddressReserve(&at, size, 0, 0, 0));
	OK(cuMemMap(at, size, 0, handle, 0));
	OK(cuMemSetAccess(at, size, &access, 1));
	both_ways(malloc(SOME), at, SOME, 1);
}

static void memops_block(void)
{
	CUdeviceptr block = device_block(SOME);
	unsigned int yes = 1;

	OK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
	both_ways(malloc(SOME), block, SOME, 1);
}

static void memops_context(void)
{
	OK(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
	both_ways(malloc(SOME), device_block(SOME), SOME, 1);
}

/* main() has set it before the context was there. */
static void memops_primary(void)
{
	both_ways(malloc(SOME), device_block(SOME), SOME, 1);
}

/* Setting it waits for what is pending, though the driver does not know it as a synchronous copy. */
static void memops_set(void)
{
	CUdeviceptr block = device_block(SOME);
	unsigned char *bytes = pattern(SOME, 1);
	CUstream stream = new_stream(CU_STREAM_DEFAULT);
	uint64_t began;

	spin(stream, SPIN_NS);
	OK(cuMemcpyHtoDAsync(block, bytes, SOME, stream));
	began = now_ns();
	OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SYNC_MEMOPS));
	EXPECT(now_ns() - began > WAIT_NS);
	EXPECT(cuStreamQuery(stream) == CUDA_SUCCESS);
	both_ways(bytes, block, SOME, 1); /* no more of them */
}

/* Statuses of what no copy may do. Nothing of it is staged. */
static void wrong(void)
{
	CUdeviceptr block = device_block(SOME), inner = block + SOME / 2;
	unsigned char *bytes = pattern(2 * SOME, 1);
	CUstream gone = new_stream(0);

	OK(cuStreamDestroy(gone));
	OK(cuCtxSynchronize());
	EXPECT(cuMemcpyHtoD(block, bytes, SOME + 1) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD(inner, bytes, SOME) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoH(bytes, inner, SOME) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoHAsync(bytes, inner, SOME, NULL) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD(block, NULL, SOME) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD(0, bytes, SOME) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoH(NULL, block, SOME) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD((uintptr_t)bytes + SOME, bytes, SOME) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoDAsync(block, bytes, SOME, gone) != CUDA_SUCCESS);
	EXPECT(cuMemcpyHtoD(block, bytes, 0) == CUDA_SUCCESS);
	OK(cuMemFree(block));
	EXPECT(cuMemcpyHtoD(block, bytes, SOME) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoH(bytes, block, SOME) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(is_pattern(bytes, 2 * SOME, 1));
	OK(cuCtxSetCurrent(NULL));
	EXPECT(cuMemcpyHtoD(block, bytes, SOME) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(context));
}

/* Another context's stream, another device's memory. */
static void elsewhere(void)
{
	CUdeviceptr here = device_block(SOME), there;
	unsigned char *bytes = pattern(SOME, 1);
	CUstream stream;
	CUcontext second;

	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	there = device_block(SOME);
	OK(cuCtxSetCurrent(context));
	OK(cuMemcpyHtoDAsync(there, bytes, SOME, stream));
	OK(cuMemcpyHtoD(there, bytes, SOME));
	OK(cuMemcpyDtoH(bytes, there, SOME));
	OK(cuCtxSetCurrent(second));
	OK(cuMemcpyHtoD(here, bytes, SOME));
	OK(cuStreamSynchronize(stream));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(context));
	EXPECT(device_is(here, SOME, 1));
}

/* Two contexts of one device, and both copy. */
static void two_contexts(void)
{
	CUcontext second;

	OK(cuCtxCreate_v2(&second, 0, 0));
	both_ways(malloc(SOME), device_block(SOME), SOME, 1);
	OK(cuCtxSetCurrent(context));
	both_ways(malloc(SOME), device_block(SOME), SOME, 3);
	OK(cuCtxSetCurrent(second));
	both_ways(malloc(SOME), device_block(SOME), SOME, 5);
	OK(cuCtxDestroy(second));
	OK(cuCtxSetCurrent(context));
	both_ways(malloc(SOME), device_block(SOME), SOME, 7);
}

static pthread_barrier_t barrier;

static void *capture(void *data)
{
	CUstreamCaptureMode mode = *(CUstreamCaptureMode *)data;
	CUstream stream;
	CUgraph graph;
	CUresult result;

	OK(cuCtxSetCurrent(context));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuStreamBeginCapture(stream, mode));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	result = cuStreamEndCapture(stream, &graph);
	EXPECT(result == (mode == CU_STREAM_CAPTURE_MODE_GLOBAL
				  ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
				  : CUDA_SUCCESS));
	return NULL;
}

/* While another thread captures, the driver has each status; nothing is staged, but for the last pair. */
static void capturing(void)
{
	CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
				       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
				       CU_STREAM_CAPTURE_MODE_RELAXED};
	CUdeviceptr block = device_block(SOME);
	unsigned char *bytes = pattern(SOME, 1);
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	for (int i = 0; i < 3; i++) {
		CUresult wanted = i ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

		pthread_create(&thread, NULL, capture, &modes[i]);
		pthread_barrier_wait(&barrier);
		EXPECT(cuMemcpyHtoD(block, bytes, SOME) == wanted);
		EXPECT(cuMemcpyDtoH(bytes, block, SOME) == wanted);
		pthread_barrier_wait(&barrier);
		pthread_join(thread, NULL);
	}
	both_ways(bytes, block, SOME, 1);
}

/* A copy into a graph reads its source when the graph runs. */
static void captured(void)
{
	CUdeviceptr block = device_block(SOME);
	unsigned char *bytes = pattern(SOME, 1);
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUgraphExec exec;
	CUgraph graph;

	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemcpyHtoDAsync(block, bytes, SOME, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiate(&exec, graph, 0));
	for (unsigned int i = 5; i < 8; i++) {
		paint(bytes, SOME, i);
		OK(cuGraphLaunch(exec, stream));
		OK(cuStreamSynchronize(stream));
		EXPECT(device_is(block, SOME, i));
	}
}

const struct named_case memory_cases[] = {
	{"plain", plain},
	{"small", small},
	{"pinned", pinned},
	{"managed", managed},
	{"registered", registered},
	{"registered-later", registered_later},
	{"pool", pool},
	{"mapped", mapped},
	{"memops-block", memops_block},
	{"memops-context", memops_context},
	{"primary-memops", memops_primary},
	{"memops-set", memops_set},
	{"wrong", wrong},
	{"elsewhere", elsewhere},
	{"two-contexts", two_contexts},
	{"capturing", capturing},
	{"captured", captured},
	{NULL, NULL},
};
