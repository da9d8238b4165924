// SPDX-License-Identifier: MIT
/*
 * A program that waits in known ways, for whoever watches: `busy ROUNDS` copies, fills and synchronizes that
 * often, and with `busy ROUNDS forever` again until it is killed. `busy ROUNDS escape LIBRARY` does part of it
 * through a library opened with RTLD_DEEPBIND, which a preload does not reach. `busy ROUNDS free` frees memory
 * while the device is at work.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES (1 << 16)
#define LARGE (1 << 26)

static CUdeviceptr device;
static CUstream stream;
static char host[BYTES];

static void check(CUresult result)
{
	if (result != CUDA_SUCCESS)
		exit(9);
}

static __attribute__((noinline)) void copy_and_wait(void)
{
	check(cuMemcpyHtoD(device, host, BYTES));
	check(cuMemsetD8Async(device, 1, BYTES, stream));
	check(cuStreamSynchronize(stream));
	check(cuMemcpyDtoH(host, device, BYTES));
}

static void escape(const char *path, int rounds)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	void (*function)(CUdeviceptr, int);

	if (!library)
		exit(8);
	*(void **)&function = dlsym(library, "escape_rounds");
	if (!function)
		exit(8);
	function(device, rounds);
}

/* Frees memory while the device is at work elsewhere. */
static void free_beside_work(int rounds)
{
	CUdeviceptr large, small;

	check(cuMemAlloc(&large, LARGE));
	check(cuMemAlloc(&small, BYTES));
	for (int i = 0; i < rounds; i++)
		check(cuMemsetD8Async(large, 1, LARGE, stream));
	check(cuMemFree(small));
	check(cuStreamSynchronize(stream));
}

int main(int count, char **words)
{
	int rounds = count > 1 ? atoi(words[1]) : 1;
	int forever = count > 2 && !strcmp(words[2], "forever");
	CUcontext context;

	check(cuInit(0));
	check(cuDevicePrimaryCtxRetain(&context, 0));
	check(cuCtxSetCurrent(context));
	check(cuMemAlloc(&device, BYTES));
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	do {
		for (int i = 0; i < rounds; i++)
			copy_and_wait();
		if (forever) {
			puts("round");
			fflush(stdout);
			usleep(10000);
		}
	} while (forever);
	if (count > 3 && !strcmp(words[2], "escape"))
		escape(words[3], rounds);
	if (count > 2 && !strcmp(words[2], "free"))
		free_beside_work(rounds);
	check(cuCtxSynchronize());
	check(cuMemFree(device));
	return 3;
}
