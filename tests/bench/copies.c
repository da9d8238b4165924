// SPDX-License-Identifier: MIT
/*
 * What copies of ordinary memory take: `copies MILLISECONDS [LARGEST]`, started by copies.py with and without the shim. For each size from
 * 1 byte up to LARGEST (1 GiB), to the device and from it, synchronous (on the legacy stream) and asynchronous (on a blocking stream), on
 * an idle device and behind a kernel of 2 ms on the copy's stream, for so many milliseconds a cell.
 *
 * Prints a line a cell: direction, form, state, bytes, times copied, median microseconds until the call returned, and until the stream was
 * done. Checks the bytes of each cell's last copy.
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

#define TIMES_MAX 4000
#define TIMES_MIN 5
#define BUSY_NS   2000000

static struct {
	CUresult (*cuInit)(unsigned int);
	CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, CUdevice);
	CUresult (*cuCtxSetCurrent)(CUcontext);
	CUresult (*cuMemAlloc)(CUdeviceptr *, size_t);
	CUresult (*cuMemFree)(CUdeviceptr);
	CUresult (*cuMemcpyHtoD)(CUdeviceptr, const void *, size_t);
	CUresult (*cuMemcpyDtoH)(void *, CUdeviceptr, size_t);
	CUresult (*cuMemcpyHtoDAsync)(CUdeviceptr, const void *, size_t, CUstream);
	CUresult (*cuMemcpyDtoHAsync)(void *, CUdeviceptr, size_t, CUstream);
	CUresult (*cuStreamCreate)(CUstream *, unsigned int);
	CUresult (*cuStreamSynchronize)(CUstream);
	CUresult (*cuModuleLoadData)(CUmodule *, const void *);
	CUresult (*cuModuleGetFunction)(CUfunction *, CUmodule, const char *);
	CUresult (*cuLaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
				   unsigned, unsigned, CUstream, void **, void **);
} cuda;

static CUstream stream;
static CUfunction spin;

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "copies: %s: %d\n", what, (int)result);
	exit(1);
}

static void find(void *library, void *member, const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol) {
		fprintf(stderr, "copies: %s\n", dlerror());
		exit(1);
	}
	memcpy(member, &symbol, sizeof(symbol));
}

static bool find_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		return false;
	find(library, &cuda.cuInit, "cuInit");
	find(library, &cuda.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
	find(library, &cuda.cuCtxSetCurrent, "cuCtxSetCurrent");
	find(library, &cuda.cuMemAlloc, "cuMemAlloc_v2");
	find(library, &cuda.cuMemFree, "cuMemFree_v2");
	find(library, &cuda.cuMemcpyHtoD, "cuMemcpyHtoD_v2");
	find(library, &cuda.cuMemcpyDtoH, "cuMemcpyDtoH_v2");
	find(library, &cuda.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
	find(library, &cuda.cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
	find(library, &cuda.cuStreamCreate, "cuStreamCreate");
	find(library, &cuda.cuStreamSynchronize, "cuStreamSynchronize");
	find(library, &cuda.cuModuleLoadData, "cuModuleLoadData");
	find(library, &cuda.cuModuleGetFunction, "cuModuleGetFunction");
	find(library, &cuda.cuLaunchKernel, "cuLaunchKernel");
	return true;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static void make_busy(CUstream on)
{
	uint64_t ns = BUSY_NS;
	void *parameters[] = {&ns};

	check(cuda.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, on, parameters, NULL),
	      "cuLaunchKernel");
}

static void copy(bool to_device, bool async, CUdeviceptr device, unsigned char *host, size_t bytes)
{
	CUresult result;

	if (to_device)
		result = async ? cuda.cuMemcpyHtoDAsync(device, host, bytes, stream)
			       : cuda.cuMemcpyHtoD(device, host, bytes);
	else
		result = async ? cuda.cuMemcpyDtoHAsync(host, device, bytes, stream)
			       : cuda.cuMemcpyDtoH(host, device, bytes);
	check(result, "a copy");
}

/* The same pattern from another place each time. */
static void fill(unsigned char *memory, size_t bytes, uint64_t seed)
{
	uint64_t word = seed * 2862933555777941757u + 3037000493u;

	for (size_t i = 0; i < bytes; i += 8) {
		memcpy(memory + i, &word, 8);
		word = word * 6364136223846793005u + 1442695040888963407u;
	}
}

static void cell(bool to_device, bool async, bool busy, CUdeviceptr device, unsigned char *host,
		 unsigned char *other, size_t bytes, uint64_t run_ns)
{
	static double call[TIMES_MAX], all[TIMES_MAX];
	CUstream on = async ? stream : NULL;
	uint64_t began, begin, returned;
	int times = 0, warm = 2;

	fill(host, bytes, bytes + to_device);
	if (!to_device) {
		check(cuda.cuMemcpyHtoD(device, host, bytes), "cuMemcpyHtoD");
		memset(host, 0, bytes);
	}
	began = now();
	do {
		check(cuda.cuStreamSynchronize(on), "cuStreamSynchronize");
		if (busy)
			make_busy(on);
		begin = now();
		copy(to_device, async, device, host, bytes);
		returned = now();
		check(cuda.cuStreamSynchronize(on), "cuStreamSynchronize");
		if (warm && warm--) {
			began = now();
			continue;
		}
		call[times] = (double)(returned - begin) / 1000;
		all[times++] = (double)(now() - begin) / 1000;
	} while (times < TIMES_MAX && (times < TIMES_MIN || now() - began < run_ns));
	if (to_device)
		check(cuda.cuMemcpyDtoH(other, device, bytes), "cuMemcpyDtoH");
	else
		fill(other, bytes, bytes);
	if (memcmp(host, other, bytes) != 0) {
		fprintf(stderr, "copies: %zu bytes are wrong\n", bytes);
		exit(1);
	}
	qsort(call, (size_t)times, sizeof(double), compare);
	qsort(all, (size_t)times, sizeof(double), compare);
	printf("%s %s %s %zu %d %.2f %.2f\n", to_device ? "to" : "from", async ? "async" : "sync",
	       busy ? "busy" : "idle", bytes, times, call[times / 2], all[times / 2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	uint64_t run_ns = argc > 1 ? strtoull(argv[1], NULL, 0) * 1000000 : 0;
	size_t largest = argc > 2 ? strtoull(argv[2], NULL, 0) : (size_t)1 << 30, bytes;
	unsigned char *host, *other;
	CUdeviceptr device;
	CUcontext context;
	CUmodule module;

	if (argc < 2 || !find_driver()) {
		fprintf(stderr, argc < 2 ? "usage: copies MILLISECONDS [LARGEST]\n"
					 : "copies: no libcuda.so.1\n");
		return 77;
	}
	check(cuda.cuInit(0), "cuInit");
	check(cuda.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	check(cuda.cuModuleLoadData(&module, KERNELS_SPIN), "cuModuleLoadData");
	check(cuda.cuModuleGetFunction(&spin, module, "spin"), "cuModuleGetFunction");
	check(cuda.cuStreamCreate(&stream, 0), "cuStreamCreate");
	check(cuda.cuMemAlloc(&device, largest), "cuMemAlloc");
	host = malloc(largest + 8);
	other = malloc(largest + 8);
	if (!host || !other)
		return 1;
	make_busy(NULL);
	for (bytes = 1; bytes <= largest; bytes *= bytes < 4096 || bytes >= 1 << 24 ? 16 : 4)
		for (int way = 0; way < 8; way++)
			cell(way & 1, way & 2, way & 4, device, host, other, bytes, run_ns);
	return 0;
}
