// SPDX-License-Identifier: MIT
/*
 * One rule of reused device memory at a time: `cases NAME`, run by run.py in mode fix on the simulated driver. A gate kernel holds a stream
 * until the host opens it, so what is in flight at a free is no matter of luck. Exit status 0: the rule holds; 1: it does not, and stderr
 * says what is not so. A rule that is broken may also hang; run.py has a time limit. What only the records can tell, run.py looks at.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../simcuda/kernels.h"
#include "../expect.h"

#define BYTES 5000

CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
/* Headers rename it, with other parameters. */
CUresult add_node(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
		  CUgraphNodeParams *) __asm__("cuGraphAddNode");

int failures;

static CUcontext context;
static CUfunction gate, spin, copy;
static volatile uint32_t *flag; /* of the gate; never freed */
static CUdeviceptr slot;        /* of another size than the blocks */

static void load(void)
{
	CUmodule module;
	uint64_t ns = 0, bytes = 0;
	void *parameters[] = {&ns}, *flags[] = {&flag}, *copies[] = {&flag, &flag, &bytes};

	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&gate, module, "gate"));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuModuleGetFunction(&copy, module, "copy"));
	/* Their first launches wait for the context. */
	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	OK(cuLaunchKernel(copy, 1, 1, 1, 1, 1, 1, 0, NULL, copies, NULL));
	*flag = 1;
	OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, NULL, flags, NULL));
	OK(cuCtxSynchronize());
	*flag = 0;
}

static void close_gate(CUstream stream)
{
	void *parameters[] = {&flag};

	*flag = 0;
	OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void run_spin(CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};

	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static CUstream new_stream(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

static CUstream filler; /* nothing of the tests' work is on it */

/* Filled past the streams that are held. */
static void paint(CUdeviceptr block, unsigned char value)
{
	OK(cuMemsetD8Async(block, value, BYTES, filler));
	OK(cuStreamSynchronize(filler));
}

static CUdeviceptr allocate(unsigned char value)
{
	CUdeviceptr block;

	OK(cuMemAlloc(&block, BYTES));
	paint(block, value);
	return block;
}

static bool holds(CUdeviceptr block, unsigned char value)
{
	unsigned char bytes[BYTES];

	OK(cuMemcpyDtoHAsync(bytes, block, BYTES, filler));
	OK(cuStreamSynchronize(filler));
	for (int i = 0; i < BYTES; i++)
		if (bytes[i] != value)
			return false;
	return true;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool is_used_again(CUdeviceptr block)
{
	return allocate(3) == block;
}

static void read_block(CUdeviceptr block, CUstream stream)
{
	OK(cuMemcpyDtoDAsync(slot, block, BYTES, stream));
}

/* A copy out of a block waits behind the gate; the block is freed; the next one must be another, and the copy right. */
static CUdeviceptr free_behind_gate(CUstream stream)
{
	CUdeviceptr block = allocate(1);

	close_gate(stream);
	read_block(block, stream);
	OK(cuMemFree(block));
	for (int i = 0; i < 3; i++)
		EXPECT(allocate(2) != block);
	return block;
}

static void in_flight(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr block = free_behind_gate(stream);

	*flag = 1;
	OK(cuStreamSynchronize(stream));
	EXPECT(holds(slot, 1));
	EXPECT(is_used_again(block));
}

/* A kernel has the address among its parameters, where nobody sees it; and it writes. */
static void kernel(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr block = allocate(1), other;
	uint64_t bytes = BYTES;
	void *parameters[] = {&block, &slot, &bytes};

	paint(slot, 9);
	close_gate(stream);
	OK(cuLaunchKernel(copy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
	OK(cuMemFree(block));
	other = allocate(2);
	EXPECT(other != block);
	*flag = 1;
	OK(cuStreamSynchronize(stream));
	EXPECT(holds(other, 2));
	EXPECT(is_used_again(block));
}

/* Nothing that the program waits for: an event of ours, or a query, must tell. */
static void asked(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);
	CUdeviceptr block = free_behind_gate(stream);
	bool again = false;

	*flag = 1;
	for (int i = 0; i < 2000 && !again; i++) {
		/* The stream itself is never done. */
		run_spin(stream, 20000000);
		again = is_used_again(block);
		usleep(1000);
	}
	EXPECT(again);
}

/* A stream of another device's context reads the block. */
static void other_context(void)
{
	CUcontext second;
	CUstream stream;
	CUdeviceptr block;

	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	load();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuCtxSetCurrent(context));
	block = allocate(1);
	OK(cuCtxSetCurrent(second));
	close_gate(stream);
	read_block(block, stream);
	OK(cuCtxSetCurrent(context));
	OK(cuMemFree(block));
	for (int i = 0; i < 3; i++)
		EXPECT(allocate(2) != block);
	*flag = 1;
	OK(cuCtxSetCurrent(second));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(context));
	EXPECT(holds(slot, 1));
	EXPECT(is_used_again(block));
}

static void destroyed(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr block = free_behind_gate(stream);

	OK(cuStreamDestroy(stream));
	EXPECT(allocate(2) != block);
	stream = new_stream(CU_STREAM_NON_BLOCKING); /* perhaps the same handle */
	OK(cuStreamSynchronize(stream));
	EXPECT(allocate(2) != block);
	*flag = 1;
	OK(cuCtxSynchronize());
	EXPECT(holds(slot, 1));
	EXPECT(is_used_again(block));
}

/* A graph that was launched before the free still reads the block. */
static void graph(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr block = allocate(1);
	CUgraphExec exec;
	CUgraph made;

	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	read_block(block, stream);
	OK(cuStreamEndCapture(stream, &made));
	OK(cuGraphInstantiate(&exec, made, 0));
	close_gate(stream);
	OK(cuGraphLaunch(exec, stream));
	OK(cuMemFree(block));
	for (int i = 0; i < 3; i++)
		EXPECT(allocate(2) != block);
	*flag = 1;
	OK(cuStreamSynchronize(stream));
	EXPECT(holds(slot, 1));
	EXPECT(is_used_again(block));
}

static pthread_barrier_t barrier;

static void *capture(void *data)
{
	CUstreamCaptureMode mode = *(CUstreamCaptureMode *)data;
	CUstream stream;
	CUgraph made;
	CUresult result;

	OK(cuCtxSetCurrent(context));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuStreamBeginCapture(stream, mode));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	result = cuStreamEndCapture(stream, &made);
	/* What another thread does invalidates a global capture only. */
	EXPECT(result == (mode == CU_STREAM_CAPTURE_MODE_GLOBAL
				  ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
				  : CUDA_SUCCESS));
	return NULL;
}

static void capturing(void)
{
	CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
				       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
				       CU_STREAM_CAPTURE_MODE_RELAXED};
	CUdeviceptr block, other;
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	for (int i = 0; i < 3; i++) {
		CUresult wanted = modes[i] == CU_STREAM_CAPTURE_MODE_GLOBAL
					  ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
					  : CUDA_SUCCESS;

		block = allocate(1);
		/* One to serve the allocation below, would it be served. */
		OK(cuMemFree(allocate(1)));
		pthread_create(&thread, NULL, capture, &modes[i]);
		pthread_barrier_wait(&barrier);
		EXPECT(cuMemAlloc(&other, BYTES) == wanted);
		EXPECT(cuMemFree(block) == wanted);
		pthread_barrier_wait(&barrier);
		pthread_join(thread, NULL);
	}
	block = allocate(1);
	OK(cuMemFree(block));
	EXPECT(is_used_again(block)); /* no capture is left over */
}

/* Held blocks of a context that was reset are gone, though its handle comes back. */
static void reset(void)
{
	CUdeviceptr block = allocate(1), next = 0;
	size_t before, after, total;
	CUcontext again;

	OK(cuMemGetInfo(&before, &total));
	OK(cuMemFree(block));
	OK(cuDevicePrimaryCtxReset(0));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuCtxSetCurrent(again));
	filler = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == total);
	for (int i = 0; i < 4; i++)
		next = allocate(2); /* fails where a held one is given out */
	OK(cuMemFree(next));
	EXPECT(is_used_again(next));
}

/* The context ends where nobody tells: what it held is gone, and its addresses come back for others. */
static void released(void)
{
	size_t pitch, left, total, range;
	CUdeviceptr block, other, base;
	CUcontext again;

	OK(cuMemAlloc(&block, BYTES));
	OK(cuMemAlloc(&other, BYTES));
	OK(cuMemFree(block));
	OK(cuMemFree(other));
	for (int way = 0; way < 3; way++) {
		OK(cuDevicePrimaryCtxRelease(0));
		OK(cuDevicePrimaryCtxRetain(&again, 0));
		OK(cuCtxSetCurrent(again));
		OK(cuMemGetInfo(&left, &total));
		EXPECT(left == total);
		OK(cuMemAllocPitch(&other, &pitch, BYTES, 1, 4));
		EXPECT(other == block); /* or nothing is tested */
		if (way != 1) {
			OK(cuMemGetAddressRange(&base, &range, other));
			EXPECT(base == other && range == pitch);
		}
		OK(cuMemFree(other));
		EXPECT(cuMemFree(other) == CUDA_ERROR_INVALID_VALUE);
		OK(cuMemAlloc(&other, BYTES));
		EXPECT(other == block);
		if (way == 0) /* the next time around one is live */
			OK(cuMemFree(other));
	}
}

/* The same of pinned memory: the program may register what it has mapped there, and ask about it. */
static void released_pinned(void)
{
	unsigned int type = 0;
	CUcontext again;
	void *pinned, *mapped;

	OK(cuMemHostAlloc(&pinned, 1 << 20, 0));
	OK(cuMemFreeHost(pinned));
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuCtxSetCurrent(again));
	mapped = mmap(pinned, 1 << 20, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	EXPECT(mapped == pinned); /* or nothing is tested */
	OK(cuMemHostRegister(mapped, 1 << 20, 0));
	EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)mapped) ==
		       CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_HOST);
	EXPECT(cuMemHostGetFlags(&type, mapped) == CUDA_SUCCESS);
}

static void forked(void)
{
	CUdeviceptr block = allocate(1), other;
	int status = -1;
	pid_t child;

	OK(cuMemFree(block));
	child = fork();
	if (child == 0)
		_exit(cuMemAlloc(&other, BYTES) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuMemFree(block) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	EXPECT(is_used_again(block));
}

static void *churn(void *data)
{
	CUdeviceptr blocks[8];
	bool *stop = data;
	CUstream stream;

	OK(cuCtxSetCurrent(context));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		unsigned char bytes[BYTES];

		for (int i = 0; i < 8; i++) {
			OK(cuMemAlloc(&blocks[i], BYTES));
			OK(cuMemsetD8Async(blocks[i], (unsigned char)i, BYTES, stream));
		}
		for (int i = 0; i < 8; i++) {
			OK(cuMemcpyDtoHAsync(bytes, blocks[i], BYTES, stream));
			OK(cuStreamSynchronize(stream));
			EXPECT(bytes[0] == i && bytes[BYTES - 1] == i);
			OK(cuMemsetD8Async(blocks[i], 0xff, BYTES, stream)); /* left in flight */
			OK(cuMemFree(blocks[i]));
		}
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[8];
	bool stop;

	for (int round = 0; round < 3; round++) {
		stop = false;
		for (int i = 0; i < 8; i++)
			pthread_create(&thread[i], NULL, churn, &stop);
		usleep(100000);
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
		for (int i = 0; i < 8; i++)
			pthread_join(thread[i], NULL);
	}
}

/* The process ends while others allocate and free. */
static void ends(void)
{
	pthread_t thread;
	static bool stop;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, churn, &stop);
	usleep(30000);
	fflush(NULL);
	_exit(failures ? 1 : 0);
}

static void no_context(void)
{
	CUdeviceptr block = allocate(1), other;

	OK(cuCtxSetCurrent(NULL));
	EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemAlloc(&other, BYTES) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(context));
	EXPECT(holds(block, 1));
	OK(cuMemFree(block));
	EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
}

/* In another context the driver frees: it is the one to say whether that may be. */
static void foreign_context(void)
{
	CUdeviceptr block = allocate(1);
	CUcontext second;

	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	OK(cuMemFree(block));
	EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSetCurrent(context));
	EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
}

static void wrong_frees(void)
{
	CUdeviceptr block = allocate(1), pitched;
	unsigned char here[64];
	void *pinned, *unused;
	size_t pitch;

	OK(cuMemHostAlloc(&pinned, BYTES, 0));
	for (int round = 0; round < 2; round++) {
		EXPECT(cuMemFree(block + 16) == CUDA_ERROR_INVALID_VALUE);
		EXPECT(cuMemFree(block + BYTES) == CUDA_ERROR_INVALID_VALUE);
		EXPECT(cuMemFree((uintptr_t)here) == CUDA_ERROR_INVALID_VALUE);
		EXPECT(cuMemFree((uintptr_t)pinned) == CUDA_ERROR_INVALID_VALUE);
		EXPECT(cuMemFree(0) == CUDA_SUCCESS);
		EXPECT(cuMemFreeHost((void *)(uintptr_t)block) == CUDA_ERROR_INVALID_VALUE);
		if (!round)
			OK(cuMemFree(block)); /* the second time of a held one */
		EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
		EXPECT(cuMemFreeAsync(block, filler) == CUDA_ERROR_INVALID_VALUE);
	}
	OK(cuMemFreeHost(pinned));
	EXPECT(cuMemFree((uintptr_t)pinned) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostAlloc(&unused, BYTES, 0));
	EXPECT(unused == pinned); /* it was not lost */
	OK(cuMemAllocPitch(&pitched, &pitch, 100, 10, 4));
	OK(cuMemFree(pitched));
	EXPECT(cuMemFree(pitched) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(is_used_again(block));
}

/* This driver refuses cuMemFreeAsync of such a block: it stays as it is. */
static void free_async(void)
{
	CUdeviceptr block = allocate(1), base;
	size_t size;

	EXPECT(cuMemFreeAsync(block, filler) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(holds(block, 1));
	OK(cuMemGetAddressRange(&base, &size, block));
	EXPECT(base == block && size == BYTES); /* and is not forgotten */
	OK(cuMemFree(block));
	EXPECT(is_used_again(block));
}

static unsigned long long buffer_id(CUdeviceptr block)
{
	unsigned long long id = 0;

	OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block + 100));
	return id;
}

static void buffers(void)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	CUdeviceptr block = allocate(1);
	unsigned long long ids[8];
	void *value;

	for (int i = 0; i < 8; i++) {
		ids[i] = buffer_id(block);
		for (int j = 0; j < i; j++)
			EXPECT(ids[i] != ids[j]);
		value = &ids[i];
		OK(cuPointerGetAttributes(1, &attribute, &value, block));
		EXPECT(ids[i] == buffer_id(block));
		OK(cuMemFree(block));
		EXPECT(is_used_again(block));
	}
}

/* What is asked about a live block is as if it had the size that was asked for; a freed one is nothing. */
static void attributes(void)
{
	unsigned int type = 7;
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	CUdeviceptr block, base, start;
	CUipcMemHandle handle;
	size_t size, range;
	void *value = &type;

	for (size_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
		OK(cuMemAlloc(&block, bytes));
		OK(cuMemGetAddressRange(&base, &size, block + bytes - 1));
		EXPECT(base == block && size == bytes);
		OK(cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block));
		EXPECT(range == bytes);
		OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
					 block + bytes / 2));
		EXPECT(start == block);
		EXPECT(cuMemGetAddressRange(&base, &size, block + bytes) == CUDA_ERROR_NOT_FOUND);
		OK(cuMemFree(block));
		EXPECT(cuMemGetAddressRange(&base, &size, block) == CUDA_ERROR_NOT_FOUND);
		EXPECT(cuMemGetAddressRange(&base, &size, block + bytes / 2) ==
		       CUDA_ERROR_NOT_FOUND);
		EXPECT(cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block) ==
		       CUDA_ERROR_INVALID_VALUE);
		type = 7;
		OK(cuPointerGetAttributes(1, &attribute, &value, block));
		EXPECT(type == 0);
		EXPECT(cuIpcGetMemHandle(&handle, block) == CUDA_ERROR_INVALID_VALUE);
	}
}

/* Held memory is free memory. */
static void info(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	size_t before, during, after, total;
	CUdeviceptr blocks[10], word;
	CUcontext second;

	OK(cuMemGetInfo(&before, &total));
	for (int i = 0; i < 10; i++)
		OK(cuMemAlloc(&blocks[i], 1 << 20));
	OK(cuMemGetInfo(&during, &total));
	EXPECT(before - during == 10 << 20);
	close_gate(stream);
	for (int i = 0; i < 10; i++) {
		OK(cuMemFree(blocks[i]));
		OK(cuMemGetInfo(&after, &total));
		EXPECT(after == during + ((size_t)(i + 1) << 20));
	}
	/* Another context of the same device sees it as well, one of another device does not. */
	OK(cuCtxCreate_v2(&second, 0, 0));
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == before);
	OK(cuCtxDestroy(second));
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	OK(cuMemAlloc(&word, 64 << 20));
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == total - (64 << 20));
	OK(cuCtxSetCurrent(context));
	*flag = 1;
	OK(cuStreamSynchronize(stream));
	for (int i = 0; i < 10; i++)
		OK(cuMemAlloc(&blocks[i], 1 << 20));
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == during);
}

/* One after the other, and more of them than are kept apart at a time. */
static void many_contexts(void)
{
	size_t before, after, total;
	CUdeviceptr block;
	CUcontext second;

	OK(cuMemGetInfo(&before, &total));
	for (int i = 0; i < 100; i++) {
		OK(cuCtxCreate_v2(&second, 0, 0));
		OK(cuMemAlloc(&block, 1 << 20));
		OK(cuMemFree(block));
		OK(cuMemGetInfo(&after, &total));
		EXPECT(after == before);
		OK(cuCtxDestroy(second));
	}
	OK(cuCtxSetCurrent(context));
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == before);
}

static void *end_contexts(void *data)
{
	const bool *stop = data;
	CUdeviceptr block;
	CUcontext own;

	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		OK(cuCtxCreate_v2(&own, 0, 0));
		OK(cuMemAlloc(&block, 1 << 20));
		OK(cuMemFree(block));
		usleep(100); /* others may ask for it */
		OK(cuCtxDestroy(own));
	}
	return NULL;
}

#define ENDS_TIGHT 400

/* Little memory: what is held in the contexts of others, which end at any time, is what this thread wants. */
static void *end_tight(void *data)
{
	unsigned int seed = *(unsigned int *)data;
	CUdeviceptr block;
	CUcontext own;

	for (int i = 0; i < ENDS_TIGHT; i++) {
		OK(cuCtxCreate_v2(&own, 0, 0));
		for (int j = 0; j < 4; j++) {
			OK(cuMemAlloc(&block, (6 + j) << 15));
			OK(cuMemFree(block));
		}
		usleep(rand_r(&seed) % 200);
		OK(cuMemAlloc(&block, 9 << 18));
		usleep(rand_r(&seed) % 200);
		OK(cuMemFree(block));
		OK(cuCtxDestroy(own));
	}
	return NULL;
}

/* Run with memory for what three threads have at once, and little more: none of them is told that there is none. */
static void ends_tight(void)
{
	static unsigned int seeds[3] = {1, 2, 3};
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, end_tight, &seeds[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

/* Some of them, while a kernel works, so that they are held however little memory there is; it ends behind them. `own`: their context. */
static void free_beside_work(CUcontext own, CUdeviceptr *blocks, int *count, int some)
{
	static CUstream worker;

	OK(cuCtxSetCurrent(context));
	if (!worker)
		worker = new_stream(CU_STREAM_NON_BLOCKING);
	close_gate(worker);
	OK(cuCtxSetCurrent(own));
	while (some--)
		OK(cuMemFree(blocks[--*count]));
	*flag = 1;
}

static void sleep_long(void *data)
{
	usleep(200000);
}

static void wait_for_flag(void *data)
{
	while (!__atomic_load_n(flag, __ATOMIC_RELAXED))
		usleep(1000);
}

/* Ends a context while it works; what it has held goes with it, but not at once. */
static void *end_busy(void *work)
{
	CUdeviceptr block;
	CUstream stream;
	CUcontext own;

	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cuMemAlloc(&block, 1 << 20));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc(stream, *(CUhostFn *)work, NULL));
	OK(cuMemFree(block));
	pthread_barrier_wait(&barrier);
	OK(cuCtxDestroy(own));
	return NULL;
}

/* Memory is wanted, and is there once the context of another thread has ended. */
static CUresult allocate_while_ending(CUhostFn work)
{
	CUdeviceptr blocks[64], at;
	pthread_t thread;
	CUresult result;
	int count;

	for (count = 0; count < 64; count++)
		if (cuMemAlloc(&blocks[count], 1 << 20) != CUDA_SUCCESS)
			break;
	OK(cuMemFree(blocks[--count]));
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, end_busy, &work);
	pthread_barrier_wait(&barrier);
	usleep(50000);
	result = cuMemAlloc(&at, 1 << 20);
	*flag = 1;
	pthread_join(thread, NULL);
	return result;
}

static void ends_slowly(void)
{
	EXPECT(allocate_while_ending(sleep_long) == CUDA_SUCCESS);
}

/* Its work waits for the thread that finds no memory: refused after a while, but no hang. */
static void ends_later(void)
{
	EXPECT(allocate_while_ending(wait_for_flag) == CUDA_ERROR_OUT_OF_MEMORY);
}

/* While contexts of other threads end: they are not asked for any more (run.py looks for that). */
static void ended_meanwhile(void)
{
	size_t available, total;
	CUdeviceptr block;
	bool stop = false;
	pthread_t thread;

	pthread_create(&thread, NULL, end_contexts, &stop);
	for (uint64_t began = now_ns(); now_ns() - began < 1000000000;) {
		OK(cuMemAlloc(&block, BYTES));
		OK(cuMemGetInfo(&available, &total));
		OK(cuMemAlloc(&block, 2 * BYTES));
		OK(cuMemFree(block));
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

static void exported(void)
{
	CUdeviceptr block = allocate(1);
	CUipcMemHandle handle;

	OK(cuIpcGetMemHandle(&handle, block + 100));
	OK(cuMemFree(block));
	EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
}

/* After a first life in the cache; and its mark is not the next one's at that address. */
static void exported_again(void)
{
	CUdeviceptr block = allocate(1);
	CUipcMemHandle handle;

	OK(cuMemFree(block));
	EXPECT(is_used_again(block));
	OK(cuIpcGetMemHandle(&handle, block));
	OK(cuMemFree(block));
	EXPECT(is_used_again(block)); /* from the driver, which gives the first hole */
	OK(cuMemFree(block));
	EXPECT(is_used_again(block));
}

/* Whatever comes of it: this driver has no such handles. */
static void exported_range(void)
{
	CUdeviceptr block = allocate(1);
	int file;

	EXPECT(cuMemGetHandleForAddressRange(&file, block, BYTES,
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					     0) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemFree(block));
}

static void sync_memops(void)
{
	CUdeviceptr block = allocate(1);
	unsigned int on = 1;

	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
	OK(cuMemFree(block));
	EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
}

/* Whatever the driver answers: another device may read the block by its tokens now. By one attribute, and among several. */
static void tokens(void)
{
	CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_P2P_TOKENS};
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS both;
	unsigned int type;
	void *values[] = {&type, &both};
	CUdeviceptr block = allocate(1), other = allocate(1), plain = allocate(1);

	(void)cuPointerGetAttribute(&both, CU_POINTER_ATTRIBUTE_P2P_TOKENS, block);
	(void)cuPointerGetAttributes(2, asked, values, other);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, plain));
	OK(cuMemFree(block));
	OK(cuMemFree(other));
	OK(cuMemFree(plain));
}

static void sync_memops_context(void)
{
	CUdeviceptr block;
	CUcontext second;

	OK(cuCtxCreate_v2(&second, CU_CTX_SYNC_MEMOPS, 0));
	OK(cuMemAlloc(&block, BYTES));
	OK(cuMemFree(block));
	EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
}

/* What other allocators made goes to the driver. */
static void others(void)
{
	CUdeviceptr block;
	size_t pitch;

	OK(cuMemAllocAsync(&block, BYTES, filler));
	OK(cuStreamSynchronize(filler));
	OK(cuMemFree(block));
	OK(cuMemAllocManaged(&block, BYTES, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemFree(block));
	OK(cuMemAllocPitch(&block, &pitch, 100, 10, 4));
	OK(cuMemFree(block));
}

static pthread_key_t late_key;
static CUdeviceptr late_block;

/* The second time around, when the library's own destructor has run: past the rooms. */
static void ask_late(void *data)
{
	size_t available, total;

	if (data == &late_key) {
		pthread_setspecific(late_key, &late_block);
		return;
	}
	OK(cuMemGetInfo(&available, &total));
	OK(cuMemAlloc(&late_block, BYTES));
}

static void *end_late(void *data)
{
	OK(cuCtxSetCurrent(context));
	pthread_setspecific(late_key, &late_key);
	return NULL;
}

/* What is only asked for past the rooms is no reason to trust nothing any more. */
static void asked_unseen(void)
{
	CUdeviceptr block = allocate(1);
	pthread_t thread;

	pthread_key_create(&late_key, ask_late);
	pthread_create(&thread, NULL, end_late, NULL);
	pthread_join(thread, NULL);
	EXPECT(late_block != 0);
	OK(cuMemFree(late_block));
	EXPECT(cuMemFree(late_block) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(block));
	EXPECT(is_used_again(block));
}

static CUarray new_array(unsigned char value);

/* A way past us, for all that is known. */
static void doubt(void)
{
	const CUuuid id = {"simcuda\0test\0\0\0\1"};
	const void *table;

	OK(cuGetExportTable(&table, &id));
}

/* When the rewrite is off for good, what it holds goes with the next free, which the driver makes. */
static void doubted(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr blocks[4];

	for (int i = 0; i < 4; i++)
		blocks[i] = allocate(1);
	run_spin(stream, 1000000);
	OK(cuArrayDestroy(new_array(1)));
	for (int i = 0; i < 3; i++)
		OK(cuMemFree(blocks[i]));
	doubt();
	OK(cuMemFree(blocks[3]));
	EXPECT(cuMemFree(blocks[0]) == CUDA_ERROR_INVALID_VALUE);
}

/* Or with a free of what the pool never had, or where the context has been waited for. */
static void doubted_later(void)
{
	CUdeviceptr block = allocate(1), other;

	OK(cuMemFree(block));
	doubt();
	OK(cuMemAlloc(&other, BYTES));
	OK(cuMemFree(other));
}

static void doubted_drained(void)
{
	OK(cuMemFree(allocate(1)));
	doubt();
	OK(cuCtxSynchronize());
}

/* But not while another context may be at work, for which the driver would wait. */
static void doubted_beside(void)
{
	CUcontext second;

	OK(cuMemFree(allocate(1)));
	OK(cuCtxCreate_v2(&second, 0, 0));
	OK(cuCtxSetCurrent(context));
	doubt();
	OK(cuCtxSynchronize());
}

static CUarray new_array(unsigned char value)
{
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = BYTES,
				       .Height = 1,
				       .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				       .NumChannels = 1};
	unsigned char bytes[BYTES];
	CUDA_MEMCPY2D fill = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = bytes,
			      .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			      .WidthInBytes = BYTES,
			      .Height = 1};

	memset(bytes, value, sizeof(bytes));
	OK(cuArrayCreate(&fill.dstArray, &shape));
	OK(cuMemcpy2DAsync(&fill, filler));
	OK(cuStreamSynchronize(filler));
	return fill.dstArray;
}

static void read_array(CUarray array, CUstream stream)
{
	CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			     .srcArray = array,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstDevice = slot,
			     .WidthInBytes = BYTES,
			     .Height = 1};

	OK(cuMemcpy2DAsync(&out, stream));
}

/* An array is destroyed while a copy out of it waits: nothing waits, and the copy is right. Afterwards its memory goes back. */
static void arrays(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	size_t before, during, after, total;
	CUarray array, other;

	OK(cuMemGetInfo(&before, &total));
	array = new_array(1);
	OK(cuMemGetInfo(&during, &total));
	close_gate(stream);
	read_array(array, stream);
	OK(cuArrayDestroy(array)); /* hangs where it waits */
	EXPECT(cuArrayDestroy(array) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == before);
	other = new_array(2);
	EXPECT(other != array);
	*flag = 1;
	OK(cuStreamSynchronize(stream));
	EXPECT(holds(slot, 1));
	/* Nothing is at work: the driver gets this one, and that one too. */
	OK(cuArrayDestroy(other));
	EXPECT(cuArrayDestroy(other) == CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuArrayDestroy(array) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == before && during < before);
}

/* What is held of an array in a packed format counts as what it was. */
static void array_format(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1 << 16,
					 .Height = 16,
					 .Format = (CUarray_format)0xc2, /* UNORM_INT8X4 */
					 .NumChannels = 4};
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	size_t before, after, total;
	CUarray array;

	OK(cuMemAlloc(&(CUdeviceptr){0}, 64 << 20));
	OK(cuMemGetInfo(&before, &total));
	OK(cuArray3DCreate(&array, &shape));
	close_gate(stream);
	OK(cuArrayDestroy(array));
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == before);
	*flag = 1;
	OK(cuStreamSynchronize(stream));
}

/* A wait for the context takes what is held with it. */
static void arrays_drained(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUarray array = new_array(1);

	close_gate(stream);
	read_array(array, stream);
	OK(cuArrayDestroy(array));
	*flag = 1;
	OK(cuCtxSynchronize());
	EXPECT(holds(slot, 1));
	EXPECT(cuArrayDestroy(array) == CUDA_ERROR_INVALID_HANDLE);
}

/* More arrays than may be held are destroyed while the device works. */
static void array_limit(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1 << 20,
					 .Height = 8,
					 .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					 .NumChannels = 1};
	CUarray made[10];

	for (int i = 0; i < 10; i++)
		OK(cuArray3DCreate(&made[i], &shape));
	for (int i = 0; i < 10; i++) {
		run_spin(filler, 20000000);
		OK(cuArrayDestroy(made[i]));
	}
}

/* With SLIPSTREAM_RELAX=strict-free. */
static void strict(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr block = allocate(1);
	uint64_t began;

	run_spin(stream, 50000000);
	began = now_ns();
	OK(cuMemFree(block));
	EXPECT(now_ns() - began > 40000000);
	EXPECT(is_used_again(block));
}

/* Frees go through without the wait, and no call waits instead. */
static void relaxed(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr blocks[200];

	for (int i = 0; i < 200; i++)
		blocks[i] = allocate(1);
	close_gate(stream);
	for (int i = 0; i < 200; i++) {
		OK(cuMemFree(blocks[i])); /* hangs where one waits */
		blocks[i] = allocate(2);
	}
	*flag = 1;
	OK(cuCtxSynchronize());
	for (int i = 0; i < 200; i++)
		OK(cuMemFree(blocks[i]));
}

/* Under fault injection: what cannot be had is told, and nothing is used too early. */
static void faults(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr blocks[8] = {0}, at;
	CUresult result;

	for (int round = 0; round < 12; round++) {
		int i = round % 8;

		if (blocks[i]) {
			result = cuMemFree(blocks[i]);
			EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ||
			       result == CUDA_ERROR_UNKNOWN);
			if (result != CUDA_SUCCESS)
				EXPECT(holds(blocks[i], (unsigned char)i));
		}
		blocks[i] = 0;
		result = cuMemAlloc(&at, BYTES);
		EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ||
		       result == CUDA_ERROR_UNKNOWN);
		if (result != CUDA_SUCCESS)
			continue;
		blocks[i] = at;
		paint(at, (unsigned char)i);
		run_spin(stream, 200000);
		read_block(at, stream);
		if (round % 4 == 3) {
			/* Behind what is in flight: freed, and another filled at once. */
			if (cuMemFree(at) == CUDA_SUCCESS) {
				blocks[i] = 0;
				if (cuMemAlloc(&at, BYTES) == CUDA_SUCCESS) {
					paint(at, 99);
					blocks[i] = at;
				}
			}
			OK(cuStreamSynchronize(stream));
			EXPECT(holds(slot, (unsigned char)i));
			if (blocks[i])
				paint(blocks[i], (unsigned char)i);
		}
	}
}

/* A context that has failed fails every call. */
static void broken(void)
{
	CUdeviceptr block = allocate(1), other = allocate(1), nowhere = 64, at;
	uint32_t value = 1, count = 4;
	void *parameters[] = {&nowhere, &value, &count};
	CUfunction fill;
	CUmodule module;

	OK(cuMemFree(other));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	EXPECT(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemAlloc(&at, BYTES) == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemFree(block) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Blocks beyond the limit go back to the driver; their number is an argument. */
static void limit(int count)
{
	CUdeviceptr *blocks = calloc((size_t)count, sizeof(*blocks));

	for (int i = 0; i < count; i++)
		OK(cuMemAlloc(&blocks[i], 64 << 20));
	for (int i = 0; i < count; i++)
		OK(cuMemFree(blocks[i]));
	free(blocks);
}

static void *capture_full(void *data)
{
	CUstream stream;
	CUgraph made;

	OK(cuCtxSetCurrent(context));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	EXPECT(cuStreamEndCapture(stream, &made) == CUDA_SUCCESS);
	return NULL;
}

/* Held memory is given back though another thread captures, and that capture does not notice. */
static void full_capture(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr blocks[64], late;
	pthread_t thread;
	int count;

	pthread_barrier_init(&barrier, NULL, 2);
	for (count = 0; count < 64; count++)
		if (cuMemAlloc(&blocks[count], 1 << 20) != CUDA_SUCCESS)
			break;
	free_beside_work(context, blocks, &count, 2);
	pthread_create(&thread, NULL, capture_full, NULL);
	pthread_barrier_wait(&barrier);
	OK(cuMemAllocAsync(&late, 1 << 20, filler)); /* a capture does not forbid it */
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT(mode == CU_STREAM_CAPTURE_MODE_GLOBAL); /* as it was */
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
}

/* A free of a freed block gets the driver's status, whatever else is wrong. */
static void freed_statuses(void)
{
	CUdeviceptr block = allocate(1);
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned int on = 1;
	CUgraph made;

	OK(cuMemFree(block));
	EXPECT(cuMemFreeAsync(block, stream) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block) ==
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSetCurrent(NULL));
	EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(context));
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(cuMemFree(block) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	EXPECT(cuStreamEndCapture(stream, &made) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
}

static void *open_gate_later(void *data)
{
	usleep(200000);
	*flag = 1;
	return NULL;
}

static void *allocate_bytes(void *data)
{
	CUdeviceptr at;

	OK(cuCtxSetCurrent(context));
	pthread_barrier_wait(&barrier);
	return (void *)(uintptr_t)cuMemAlloc(&at, *(const size_t *)data);
}

/* Two threads find no memory. What one of them gives back, and that takes as long as the device works, is there for the other, too. */
static void full_twice(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	size_t bytes[2] = {1200000, 1500000};
	CUdeviceptr blocks[64];
	pthread_t threads[3];
	void *status;
	int count;

	for (count = 0; count < 64; count++)
		if (cuMemAlloc(&blocks[count], 1 << 20) != CUDA_SUCCESS)
			break;
	close_gate(stream);
	for (int i = 0; i < 3; i++)
		OK(cuMemFree(blocks[--count]));
	pthread_barrier_init(&barrier, NULL, 2);
	for (int i = 0; i < 2; i++) {
		pthread_create(&threads[i], NULL, allocate_bytes, &bytes[i]);
		pthread_barrier_wait(&barrier);
		usleep(50000);
	}
	pthread_create(&threads[2], NULL, open_gate_later, NULL);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &status);
		EXPECT(status == NULL);
	}
}

static double seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/*
 * A kernel waits for this thread, which finds no memory. What the driver could never have is refused at once; what it could have, if the
 * held block went, is refused after a while. Neither hangs.
 */
static void full_waited_for(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr block, large;
	size_t free_bytes, total;
	double begun;

	OK(cuMemAlloc(&block, 3 << 20));
	OK(cuMemFree(block));
	OK(cuMemGetInfo(&free_bytes, &total));
	close_gate(stream);
	begun = seconds();
	EXPECT(cuMemAlloc(&large, (size_t)1 << 45) == CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(seconds() - begun < 0.5);
	begun = seconds();
	EXPECT(cuMemAlloc(&large, free_bytes - (1 << 20)) == CUDA_ERROR_OUT_OF_MEMORY);
	/* One time, not once more by the wrapper. */
	EXPECT(seconds() - begun > 0.9 && seconds() - begun < 1.8);
	*flag = 1;
	OK(cuCtxSynchronize());
	OK(cuMemAlloc(&large, free_bytes - (1 << 20)));
}

/* Most of the memory is the program's; blocks of a sixteenth each, and the rest of it. What can go back is `blocks`. */
static void fill_device(CUdeviceptr blocks[4], size_t bytes)
{
	size_t free_bytes, total;
	CUdeviceptr rest;

	for (int i = 0; i < 4; i++)
		OK(cuMemAlloc(&blocks[i], bytes));
	OK(cuMemGetInfo(&free_bytes, &total));
	OK(cuMemAlloc(&rest, free_bytes - (1 << 20)));
	OK(cuCtxSynchronize());
}

/* A kernel works that waits for this thread, and memory of another size is wanted: it must be the driver's, not held. */
static void wants_another_size(CUstream stream, size_t bytes)
{
	size_t free_bytes, total;
	CUdeviceptr large;
	double begun;

	close_gate(stream);
	OK(cuMemGetInfo(&free_bytes, &total));
	EXPECT(free_bytes >= 4 * bytes);
	begun = seconds();
	OK(cuMemAlloc(&large, 3 * bytes));
	EXPECT(seconds() - begun < 0.5);
	*flag = 1;
	OK(cuStreamSynchronize(stream));
}

/* Freed while nothing is at work. */
static void tight(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr blocks[4];

	fill_device(blocks, 900 << 10);
	for (int i = 0; i < 4; i++)
		OK(cuMemFree(blocks[i]));
	wants_another_size(stream, 900 << 10);
}

/* Freed beside work, which the program then waits for: with its context, or until another free finds nothing at work. */
static void tight_waited(bool by_free)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr blocks[4], more;
	CUevent event;

	OK(cuEventCreate(&event, 0));
	OK(cuMemAlloc(&more, 512));
	fill_device(blocks, 900 << 10);
	close_gate(stream);
	OK(cuEventRecord(event, stream));
	for (int i = 0; i < 4; i++)
		OK(cuMemFree(blocks[i]));
	*flag = 1;
	if (by_free) {
		OK(cuEventSynchronize(event));
		OK(cuMemFree(more));
	} else {
		OK(cuCtxSynchronize());
	}
	wants_another_size(stream, 900 << 10);
}

static void tight_context(void)
{
	tight_waited(false);
}

static void tight_free(void)
{
	tight_waited(true);
}

/* The program waits for its context while another one of the device works: the driver's free would wait for that. */
static void tight_beside(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr blocks[4];
	CUcontext second;

	fill_device(blocks, 900 << 10);
	close_gate(stream);
	for (int i = 0; i < 4; i++)
		OK(cuMemFree(blocks[i]));
	*flag = 1;
	OK(cuStreamSynchronize(stream));
	OK(cuCtxCreate_v2(&second, 0, 0));
	load();
	close_gate(new_stream(CU_STREAM_NON_BLOCKING));
	OK(cuCtxSetCurrent(context));
	OK(cuCtxSynchronize());
	*flag = 1;
	OK(cuCtxSetCurrent(second));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(context));
	OK(cuCtxSynchronize());
}

/* Freed beside work that goes on: what is wanted then is refused after a while, which is waited for once. */
static void tight_once(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr blocks[4], large;
	double begun;

	fill_device(blocks, 900 << 10);
	close_gate(stream);
	for (int i = 0; i < 4; i++)
		OK(cuMemFree(blocks[i]));
	begun = seconds();
	EXPECT(cuMemAlloc(&large, 2700 << 10) == CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(seconds() - begun > 0.9 && seconds() - begun < 1.8);
	*flag = 1;
	OK(cuMemAlloc(&large, 2700 << 10));
}

/* Less than half of it is in use: what is freed is held, as ever. */
static void not_tight(void)
{
	CUdeviceptr block, other;

	OK(cuMemAlloc(&other, 12 << 20));
	OK(cuMemAlloc(&block, 2 << 20));
	OK(cuMemFree(block));
	OK(cuMemAlloc(&other, 2 << 20));
	EXPECT(other == block);
	OK(cuMemFree(other));
	OK(cuCtxSynchronize());
}

/* What is being given back, which takes as long as the device works, is free all the while. */
static void full_info(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	size_t bytes = 30 << 20, before, during, total;
	CUdeviceptr block;
	pthread_t thread;
	void *status;

	OK(cuMemAlloc(&block, 4 << 20));
	close_gate(stream);
	OK(cuMemFree(block));
	OK(cuMemGetInfo(&before, &total));
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, allocate_bytes, &bytes);
	pthread_barrier_wait(&barrier);
	usleep(100000);
	OK(cuMemGetInfo(&during, &total));
	EXPECT(during == before);
	*flag = 1;
	pthread_join(thread, &status);
	EXPECT(status == NULL);
}

/* The stream's context says which device has no memory, not the thread's current one. */
static void full_stream(void)
{
	CUdeviceptr blocks[64], at;
	CUcontext second, third;
	CUstream stream;
	int count;

	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuCtxCreate_v2(&third, 0, 1));
	for (int way = 0; way < 2; way++) {
		OK(cuCtxSetCurrent(third));
		for (count = 0; count < 64; count++)
			if (cuMemAlloc(&blocks[count], 1 << 20) != CUDA_SUCCESS)
				break;
		free_beside_work(third, blocks, &count, 2);
		OK(cuCtxSetCurrent(way ? NULL : context));
		OK(cuMemAllocAsync(&at, 1 << 20, stream));
		OK(cuMemFreeAsync(at, stream));
		OK(cuStreamSynchronize(stream));
		OK(cuCtxSetCurrent(third));
		while (count)
			OK(cuMemFree(blocks[--count]));
	}
}

/* More contexts at once than are kept apart: what the last one holds is found all the same. */
static void full_contexts(void)
{
	CUdeviceptr blocks[64], at;
	CUcontext others;
	int count;

	for (int i = 0; i < 80; i++) {
		OK(cuCtxCreate_v2(&others, 0, 0));
		OK(cuMemAlloc(&at, 512));
		OK(cuMemFree(at));
		OK(cuCtxPopCurrent(NULL));
	}
	OK(cuCtxSetCurrent(others));
	for (count = 0; count < 64; count++)
		if (cuMemAlloc(&blocks[count], 1 << 20) != CUDA_SUCCESS)
			break;
	free_beside_work(others, blocks, &count, 2);
	OK(cuMemAlloc(&at, 1200000));
}

/* The device's memory is all held, by a context of the device and by another one; each allocation of any kind must find room. */
static void full(void)
{
	CUDA_ARRAY3D_DESCRIPTOR array = {
		.Width = 1 << 20, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemGenericAllocationHandle physical;
	CUdeviceptr blocks[64], at;
	CUcontext second;
	CUarray made;
	size_t pitch, total, left;
	int count;

	OK(cuCtxCreate_v2(&second, 0, 0));
	for (int way = 0; way < 6; way++) {
		/* An eighth of what there is may be held: all of the rest is taken. */
		OK(cuCtxSetCurrent(way & 1 ? second : context));
		for (count = 0; count < 64; count++)
			if (cuMemAlloc(&blocks[count], 1 << 20) != CUDA_SUCCESS)
				break;
		EXPECT(count > 10 && count < 64);
		free_beside_work(way & 1 ? second : context, blocks, &count, 2);
		OK(cuCtxSetCurrent(context));
		OK(cuMemGetInfo(&left, &total));
		EXPECT(left >= 2 << 20);
		switch (way) {
		case 0:
			OK(cuMemAlloc(&at, (2 << 20) - 512));
			OK(cuMemFree(at));
			break;
		case 1:
			OK(cuMemAllocPitch(&at, &pitch, 1 << 19, 3, 4));
			OK(cuMemFree(at));
			break;
		case 2:
			OK(cuArray3DCreate(&made, &array));
			OK(cuArrayDestroy(made));
			break;
		case 3:
			OK(cuMemAllocAsync(&at, 1 << 20, filler));
			OK(cuMemFreeAsync(at, filler));
			OK(cuStreamSynchronize(filler));
			break;
		case 4:
			OK(cuMemCreate(&physical, 2 << 20, &properties, 0));
			OK(cuMemRelease(physical));
			break;
		default:
			OK(cuMemAlloc(&at, 1200000)); /* the other context's blocks */
			OK(cuMemFree(at));
		}
		OK(cuCtxSetCurrent(way & 1 ? second : context));
		while (count)
			OK(cuMemFree(blocks[--count]));
		OK(cuCtxSetCurrent(context));
	}
}

/*
 * One block is held, and one on another device; the function fails once for want of memory (fault injection). Prints its status.
 */
static void retry(const char *name)
{
	CUDA_ARRAY3D_DESCRIPTOR array = {
		.Width = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	CUDA_ARRAY_DESCRIPTOR plain = {
		.Width = 64, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemGenericAllocationHandle physical;
	CUcontext second;
	CUgraphExec exec;
	CUfunction function;
	CUdeviceptr block;
	CUstream stream;
	CUmodule module;
	CUgraph made;
	CUarray array_made;
	CUresult result = CUDA_ERROR_UNKNOWN;
	size_t pitch;
	int count;
	CUDA_MEM_ALLOC_NODE_PARAMS memory = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
		.bytesize = 64};
	CUgraphNodeParams empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	CUgraphNode node;
	uint64_t ns = 0;
	void *parameters[] = {&ns};

	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	OK(cuMemAlloc(&block, BYTES));
	OK(cuMemFree(block));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadDataEx(&module, simcuda_ptx, 0, NULL, NULL));
	OK(cuGraphCreate(&made, 0));
	OK(cuGraphInstantiateWithFlags(&exec, made, 0));
	OK(cuMemFree(allocate(1)));
#define TRY(function_, call) (strcmp(name, #function_) == 0 ? (result = (call)) : 0)
	TRY(cuMemAlloc_v2, cuMemAlloc(&block, 9 * BYTES));
	TRY(cuMemAllocPitch_v2, cuMemAllocPitch(&block, &pitch, 64, 1, 4));
	TRY(cuMemAllocManaged, cuMemAllocManaged(&block, 64, CU_MEM_ATTACH_GLOBAL));
	TRY(cuMemAllocAsync, cuMemAllocAsync(&block, 64, filler));
	TRY(cuArrayCreate_v2, cuArrayCreate(&array_made, &plain));
	TRY(cuArray3DCreate_v2, cuArray3DCreate(&array_made, &array));
	TRY(cuMemCreate, cuMemCreate(&physical, 2 << 20, &properties, 0));
	TRY(cuModuleLoadData, cuModuleLoadData(&module, simcuda_ptx));
	TRY(cuModuleGetFunction, cuModuleGetFunction(&function, module, "spin"));
	TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor,
	    cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, spin, 64, 0));
	TRY(cuFuncGetAttribute, cuFuncGetAttribute(&count, CU_FUNC_ATTRIBUTE_NUM_REGS, spin));
	TRY(cuStreamCreate, cuStreamCreate(&stream, 0));
	TRY(cuStreamCreateWithPriority, cuStreamCreateWithPriority(&stream, 0, 0));
	TRY(cuCtxCreate_v2, cuCtxCreate_v2(&second, 0, 0));
	TRY(cuCtxSetLimit, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	TRY(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain(&second, 0));
	TRY(cuGraphInstantiateWithFlags, cuGraphInstantiate(&exec, made, 0));
	TRY(cuGraphUpload, cuGraphUpload(exec, filler));
	TRY(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode(&node, made, NULL, 0, &memory));
	TRY(cuGraphAddNode, add_node(&node, made, NULL, 0, &empty));
	/* These may have had an effect. */
	TRY(cuLaunchKernel, cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, filler, parameters, NULL));
	TRY(cuGraphLaunch, cuGraphLaunch(exec, filler));
	printf("%d\n", (int)result);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"in-flight", in_flight},
	{"kernel", kernel},
	{"asked", asked},
	{"other-context", other_context},
	{"destroyed", destroyed},
	{"graph", graph},
	{"capturing", capturing},
	{"reset", reset},
	{"released", released},
	{"forked", forked},
	{"threads", threads},
	{"ends", ends},
	{"no-context", no_context},
	{"foreign", foreign_context},
	{"wrong-frees", wrong_frees},
	{"free-async", free_async},
	{"buffers", buffers},
	{"attributes", attributes},
	{"info", info},
	{"ended-meanwhile", ended_meanwhile},
	{"ends-tight", ends_tight},
	{"ends-slowly", ends_slowly},
	{"ends-later", ends_later},
	{"exported", exported},
	{"sync-memops", sync_memops},
	{"tokens", tokens},
	{"sync-memops-context", sync_memops_context},
	{"many-contexts", many_contexts},
	{"arrays", arrays},
	{"arrays-drained", arrays_drained},
	{"array-format", array_format},
	{"doubted", doubted},
	{"doubted-later", doubted_later},
	{"doubted-drained", doubted_drained},
	{"doubted-beside", doubted_beside},
	{"asked-unseen", asked_unseen},
	{"array-limit", array_limit},
	{"exported-again", exported_again},
	{"exported-range", exported_range},
	{"others", others},
	{"strict", strict},
	{"relaxed", relaxed},
	{"faults", faults},
	{"full-capture", full_capture},
	{"broken", broken},
	{"full", full},
	{"freed-statuses", freed_statuses},
	{"full-twice", full_twice},
	{"full-stream", full_stream},
	{"full-info", full_info},
	{"tight", tight},
	{"tight-context", tight_context},
	{"tight-free", tight_free},
	{"tight-beside", tight_beside},
	{"tight-once", tight_once},
	{"not-tight", not_tight},
	{"full-waited-for", full_waited_for},
	{"full-contexts", full_contexts},
	{"released-pinned", released_pinned},
};

int main(int argc, char **argv)
{
	CUdeviceptr word;

	if (argc < 2)
		return 2;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	/* Not out of the pool: a kernel waits for it. */
	OK(cuMemAllocManaged(&word, 4, CU_MEM_ATTACH_GLOBAL));
	flag = (volatile uint32_t *)(uintptr_t)word;
	if (strcmp(argv[1], "reset") != 0 && strcmp(argv[1], "info") != 0 &&
	    strncmp(argv[1], "released", 8) != 0)
		OK(cuMemAlloc(&slot, 4 * BYTES));
	filler = new_stream(CU_STREAM_NON_BLOCKING);
	load();
	if (strcmp(argv[1], "limit") == 0)
		limit(argc > 2 ? atoi(argv[2]) : 40);
	if (strcmp(argv[1], "retry") == 0 && argc > 2)
		retry(argv[2]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			cases[i].run();
	return failures ? 1 : 0;
}
