// SPDX-License-Identifier: MIT
/*
 * A launch that fails since its context is broken: `failed-launch N`, on signals_driver.c, run by run.py. The N-th launch of a row fails, and
 * so must each call that follows it, wherever in the row that was. Exit status 0: it does.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES 2000

/* signals_driver.c: the context is broken after so many launches. */
void driver_break(uint32_t after);

static CUstream stream;
static CUfunction kernel;

static CUresult launch(void)
{
	return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

static void succeed(CUresult result)
{
	if (result != CUDA_SUCCESS)
		exit(2);
}

int main(int argc, char **argv)
{
	uint32_t wanted = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
	void *block, *other, *next;
	CUresult alloc, release;

	succeed(cuInit(0));
	succeed(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	succeed(cuModuleGetFunction(&kernel, NULL, "kernel"));
	/* The library learns its clock's rate. */
	succeed(launch());
	usleep(20000);
	succeed(cuStreamSynchronize(stream));
	succeed(cuMemHostAlloc(&block, BYTES, 0));
	succeed(cuMemHostAlloc(&other, BYTES, 0));
	succeed(cuMemFreeHost(other));
	driver_break(wanted - 1);
	while (--wanted)
		succeed(launch());
	if (launch() != CUDA_ERROR_ILLEGAL_ADDRESS)
		return 2;
	alloc = cuMemHostAlloc(&next, BYTES, 0);
	release = cuMemFreeHost(block);
	if (alloc == CUDA_ERROR_ILLEGAL_ADDRESS && release == CUDA_ERROR_ILLEGAL_ADDRESS)
		return 0;
	fprintf(stderr, "behind the failed launch an allocation returned %d, a free %d\n",
		(int)alloc, (int)release);
	return 1;
}
