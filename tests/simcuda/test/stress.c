// SPDX-License-Identifier: MIT
/*
 * Threads that submit, wait, allocate, free, create and destroy at once. Each thread's own chain of
 * order-sensitive kernels must come out as if it were alone. Argument: seed.
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, STEPS = 300 };

static CUcontext context;
static CUfunction hasher, spinner;
static unsigned seed;

static void *work(void *argument)
{
	unsigned number = (unsigned)(uintptr_t)argument, state = seed * 31 + number;
	CUdeviceptr chain;
	CUstream stream;
	CUevent event;
	uint64_t expected = number, seen;

	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, number % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	OK(cuEventCreate(&event, 0));
	OK(cuMemAlloc(&chain, 8));
	OK(cuMemcpyHtoD(chain, &expected, 8));
	OK(cuStreamSynchronize(NULL));
	for (uint32_t i = 0; i < STEPS; i++) {
		CUdeviceptr other;
		CUstream brief;
		void *pinned;

		OK(hash(hasher, chain, i, stream));
		expected = hash_of(expected, i);
		switch (rand_r(&state) % 9) {
		case 0:
			OK(cuMemAlloc(&other, 1024));
			OK(cuMemFree(other));
			break;
		case 1:
			OK(cuMemAllocAsync(&other, 4096, stream));
			OK(cuMemsetD8Async(other, 1, 4096, stream));
			OK(cuMemFreeAsync(other, stream));
			break;
		case 2:
			OK(cuEventRecord(event, stream));
			OK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
			OK(spin(spinner, 10000, CU_STREAM_PER_THREAD));
			break;
		case 3:
			OK(spin(spinner, 20000, NULL));
			break;
		case 4:
			OK(cuStreamCreate(&brief, CU_STREAM_DEFAULT));
			OK(spin(spinner, 30000, brief));
			OK(cuStreamDestroy(brief));
			break;
		case 5:
			OK(cuStreamSynchronize(stream));
			break;
		case 6:
			OK(cuMemHostAlloc(&pinned, 64, 0));
			OK(cuMemcpyDtoHAsync(pinned, chain, 8, stream));
			OK(cuStreamSynchronize(stream));
			EXPECT(*(uint64_t *)pinned == expected);
			OK(cuMemFreeHost(pinned));
			break;
		case 7:
			cuEventQuery(event);
			break;
		default:
			break;
		}
	}
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH(&seen, chain, 8));
	EXPECT(seen == expected);
	OK(cuMemFree(chain));
	OK(cuEventDestroy(event));
	OK(cuStreamDestroy(stream));
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	CUmodule module;

	seed = argc > 1 ? atoi(argv[1]) : 1;
	setenv("SIMCUDA_SEED", argc > 1 ? argv[1] : "1", 1);
	setenv("SIMCUDA_COSTS", "none", 1);
	fprintf(stderr, "seed %u\n", seed);
	OK(cuInit(0));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	hasher = kernel(module, "hash");
	spinner = kernel(module, "spin");
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	OK(cuCtxSynchronize());
	OK(cuCtxDestroy(context));
	return failures ? 1 : 0;
}
