// SPDX-License-Identifier: MIT
/*
 * Mixes the legacy stream with blocking and per-thread streams, for a trace of it:
 *
 *	program THREADS SEED OPERATIONS
 *
 * Each thread has a blocking stream, at times a new one. Nothing is computed.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#define SIZE 256u
#define CHECK(call)                                                                                \
	do {                                                                                       \
		CUresult result_ = (call);                                                         \
		if (result_ != CUDA_SUCCESS) {                                                     \
			fprintf(stderr, "%s: %d\n", #call, result_);                               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static CUcontext context;
static unsigned int seed, operations, threads;

static void operate(unsigned int what, CUstream *stream, CUdeviceptr memory, CUevent event)
{
	static const unsigned char source[SIZE];

	if (what < 40) {
		CHECK(cuMemsetD8Async(memory, 1, SIZE, NULL));
	} else if (what < 75) {
		CHECK(cuMemsetD8Async(memory, 2, SIZE, *stream));
	} else if (what < 82) {
		CHECK(cuMemsetD8Async(memory, 3, SIZE, CU_STREAM_PER_THREAD));
	} else if (what < 88) {
		CHECK(cuEventRecord(event, NULL));
	} else if (what < 93) {
		CHECK(cuStreamWaitEvent(*stream, event, 0));
	} else if (what < 95) {
		CHECK(cuMemcpyHtoD(memory, source, SIZE));
	} else if (what < 97) {
		CHECK(cuMemcpyHtoDAsync(memory, source, SIZE, *stream));
	} else if (what < 98 && threads == 1) {
		CHECK(cuStreamSynchronize(NULL));
	} else {
		CHECK(cuStreamDestroy(*stream));
		CHECK(cuStreamCreate(stream, CU_STREAM_DEFAULT));
	}
}

static void *work(void *number)
{
	unsigned int state = seed + (unsigned int)(uintptr_t)number * 7919;
	CUdeviceptr memory;
	CUstream stream;
	CUevent event;

	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&memory, SIZE));
	CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned int i = 0; i < operations; i++)
		operate((unsigned int)rand_r(&state) % 100, &stream, memory, event);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuEventDestroy(event));
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t ids[16];
	CUdevice device;

	if (argc != 4)
		return 2;
	threads = (unsigned int)atoi(argv[1]);
	seed = (unsigned int)atoi(argv[2]);
	operations = (unsigned int)atoi(argv[3]);
	if (!threads || threads > 16)
		return 2;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, work, (void *)i))
			return 2;
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
