// SPDX-License-Identifier: MIT
/*
 * What frees cost while a kernel runs elsewhere: `frees KIND COUNT KERNEL_US`, KIND device, pinned or array; started by frees.py with and without
 * the shim. Nobody asks for the kernel, nor waits for it, but who frees.
 *
 * "single": a kernel is launched, one block is freed; median and worst of such frees. "burst": many blocks one after the other; median and
 * worst of the bursts, a free. "loop": COUNT times a block is allocated, used by the
 * device, and another one freed, while one kernel after the other runs; total with the last wait, worst allocation, worst free, and
 * the time in both. One line each, in ns.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../tools/kernels/kernels.h"

#define LIVE   8
#define SINGLE 41
#define BURST  32
#define USED   256 /* bytes of a block that the device works with */

static const size_t sizes[] = {4 << 10, 64 << 10, 1 << 20, 4 << 20};

#define FUNCTIONS(F)                                                                               \
	F(init, "cuInit", (unsigned int))                                                          \
	F(retain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                             \
	F(set_current, "cuCtxSetCurrent", (CUcontext))                                             \
	F(synchronize, "cuCtxSynchronize", (void))                                                 \
	F(load_module, "cuModuleLoadData", (CUmodule *, const void *))                             \
	F(get_function, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *))             \
	F(create_stream, "cuStreamCreate", (CUstream *, unsigned int))                             \
	F(wait_stream, "cuStreamSynchronize", (CUstream))                                          \
	F(launch_kernel, "cuLaunchKernel",                                                         \
	  (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,       \
	   CUstream, void **, void **))                                                            \
	F(alloc_device, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                  \
	F(free_device, "cuMemFree_v2", (CUdeviceptr))                                              \
	F(create_array, "cuArrayCreate_v2", (CUarray *, const CUDA_ARRAY_DESCRIPTOR *))            \
	F(destroy_array, "cuArrayDestroy", (CUarray))                                              \
	F(alloc_host, "cuMemHostAlloc", (void **, size_t, unsigned int))                           \
	F(free_host, "cuMemFreeHost", (void *))                                                    \
	F(set_bytes, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))            \
	F(copy_in, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream))

#define DECLARE(name, symbol, parameters) static CUresult(*name) parameters;
FUNCTIONS(DECLARE)

static enum { DEVICE, PINNED, ARRAY } kind;
static CUfunction spin;
static CUstream elsewhere, worker;
static CUdeviceptr target;
static uint64_t kernel_ns, random_state = 0x9e3779b97f4a7c15;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "frees: %s: %d\n", what, (int)result);
	exit(1);
}

static uint64_t draw(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void launch(uint64_t ns)
{
	void *parameters[] = {&ns};

	check(launch_kernel(spin, 1, 1, 1, 1, 1, 1, 0, elsewhere, parameters, NULL),
	      "cuLaunchKernel");
}

static uint64_t allocate(size_t bytes)
{
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = 4096,
				       .Height = bytes / 4096,
				       .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				       .NumChannels = 1};
	CUdeviceptr address;
	CUarray array;
	void *at;

	switch (kind) {
	case DEVICE:
		check(alloc_device(&address, bytes), "cuMemAlloc");
		return address;
	case PINNED:
		check(alloc_host(&at, bytes, 0), "cuMemHostAlloc");
		return (uintptr_t)at;
	default:
		check(create_array(&array, &shape), "cuArrayCreate");
		return (uintptr_t)array;
	}
}

static void release(uint64_t block)
{
	uintptr_t at = block;

	check(kind == DEVICE   ? free_device(block)
	      : kind == PINNED ? free_host((void *)at)
			       : destroy_array((CUarray)at),
	      "free");
}

static void use(uint64_t block)
{
	switch (kind) {
	case DEVICE:
		check(set_bytes(block, 1, USED, worker), "cuMemsetD8Async");
		break;
	case PINNED:
		memset((void *)(uintptr_t)block, 1, USED);
		check(copy_in(target, (void *)(uintptr_t)block, USED, worker), "cuMemcpyHtoDAsync");
		break;
	default: /* its being there is enough */
		break;
	}
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static void single(void)
{
	uint64_t took[SINGLE], begin, block;

	for (int i = 0; i < SINGLE; i++) {
		block = allocate(sizes[i % 4]);
		use(block);
		check(wait_stream(worker), "cuStreamSynchronize");
		launch(kernel_ns);
		begin = now();
		release(block);
		took[i] = now() - begin;
		check(wait_stream(elsewhere), "cuStreamSynchronize");
	}
	qsort(took, SINGLE, sizeof(took[0]), compare);
	printf("single %llu %llu\n", (unsigned long long)took[SINGLE / 2],
	       (unsigned long long)took[SINGLE - 1]);
}

static void burst(void)
{
	uint64_t blocks[BURST], took[BURST], means[SINGLE], begin;

	for (int round = 0; round < SINGLE; round++) {
		for (int i = 0; i < BURST; i++) {
			blocks[i] = allocate(sizes[i % 4]);
			use(blocks[i]);
		}
		check(synchronize(), "cuCtxSynchronize");
		launch(kernel_ns);
		means[round] = 0;
		for (int i = 0; i < BURST; i++) {
			begin = now();
			release(blocks[i]);
			took[i] = now() - begin;
			means[round] += took[i];
		}
		means[round] /= BURST;
		check(wait_stream(elsewhere), "cuStreamSynchronize");
	}
	qsort(means, SINGLE, sizeof(means[0]), compare);
	printf("burst %llu %llu\n", (unsigned long long)means[SINGLE / 2],
	       (unsigned long long)means[SINGLE - 1]);
}

static void loop(uint64_t count)
{
	uint64_t blocks[LIVE] = {0}, began = now(), launched = 0, begin, middle, left, slot, total,
		 worst_alloc = 0, worst_free = 0, in_calls = 0;

	for (uint64_t i = 0; i < count; i++) {
		/* By the clock: asking would be a help that not every program gives. */
		begin = now();
		if (begin - launched >= kernel_ns) {
			launch(kernel_ns);
			launched = now();
		}
		slot = draw() % LIVE;
		begin = now();
		if (blocks[slot])
			release(blocks[slot]);
		middle = now();
		blocks[slot] = allocate(sizes[draw() % 4]);
		left = now();
		use(blocks[slot]);
		if (middle - begin > worst_free)
			worst_free = middle - begin;
		if (left - middle > worst_alloc)
			worst_alloc = left - middle;
		in_calls += left - begin;
	}
	check(synchronize(), "cuCtxSynchronize");
	total = now() - began;
	for (int i = 0; i < LIVE; i++)
		if (blocks[i])
			release(blocks[i]);
	printf("loop %llu %llu %llu %llu\n", (unsigned long long)total,
	       (unsigned long long)worst_alloc, (unsigned long long)worst_free,
	       (unsigned long long)in_calls);
}

static void *need(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol) {
		fprintf(stderr, "frees: %s\n", dlerror());
		exit(1);
	}
	return symbol;
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context;
	CUmodule module;

	if (!library || argc != 4) {
		fprintf(stderr, library ? "usage: frees device|pinned|array COUNT KERNEL_US\n"
					: "frees: no libcuda.so.1\n");
		return 77;
	}
#define FIND(name, symbol, parameters) *(void **)&name = need(library, symbol);
	FUNCTIONS(FIND)
	kind = strcmp(argv[1], "pinned") == 0  ? PINNED
	       : strcmp(argv[1], "array") == 0 ? ARRAY
					       : DEVICE;
	kernel_ns = strtoull(argv[3], NULL, 0) * 1000;
	check(init(0), "cuInit");
	check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(set_current(context), "cuCtxSetCurrent");
	check(load_module(&module, KERNELS_SPIN), "cuModuleLoadData");
	check(get_function(&spin, module, "spin"), "cuModuleGetFunction");
	check(create_stream(&elsewhere, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(create_stream(&worker, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(alloc_device(&target, USED), "cuMemAlloc");
	launch(1000);
	check(synchronize(), "cuCtxSynchronize");
	single();
	burst();
	loop(strtoull(argv[2], NULL, 0));
	return 0;
}
