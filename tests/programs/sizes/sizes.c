// SPDX-License-Identifier: MIT
/*
 * Copies of pageable memory on an idle device, of two sizes in either direction, five times each; linked with the simulated driver. Ends with 1 where
 * a byte is wrong. Which of them were staged is what test_sizes.py looks at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define TIMES       5
#define LARGE       ((size_t)8 << 20)
#define LARGE_TIMES 8

static const size_t sizes[] = {(size_t)256 << 10, (size_t)1 << 20};

static void check(CUresult result, const char *call)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "sizes: %s: error %d\n", call, (int)result);
	exit(1);
}
#define OK(call) check(call, #call)

static void copy(CUdeviceptr device, unsigned char *there, unsigned char *back, size_t size,
		 unsigned int value)
{
	memset(there, (int)value, size);
	memset(back, 0, size);
	OK(cuMemcpyHtoD(device, there, size));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(back, device, size));
	OK(cuCtxSynchronize());
	if (memcmp(there, back, size) != 0) {
		fprintf(stderr, "sizes: other bytes came back of %zu\n", size);
		exit(1);
	}
}

int main(void)
{
	unsigned char *there = malloc(LARGE), *back = malloc(LARGE);
	unsigned int value = 1;
	CUdeviceptr memory;
	CUcontext context;
	CUdevice device;

	if (!there || !back)
		return 1;
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc(&memory, LARGE));
	/* Large ones earn the memory that the others go through (shim/stage/chunks.h), staged or not. */
	for (int n = 0; n < LARGE_TIMES; n++)
		copy(memory, there, back, LARGE, value++);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int n = 0; n < TIMES; n++)
			copy(memory, there, back, sizes[i], value++);
	return 0;
}
