// SPDX-License-Identifier: MIT
/*
 * Cases: threads that come and go, contexts that end or fail, forks, the end of the process, and calls of the driver that fail.
 */
#include "cases.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool stop;

static void *churn(void *data)
{
	unsigned int seed = (unsigned int)(uintptr_t)data;
	CUstream stream = NULL;
	CUdeviceptr block, big;
	unsigned char *bytes = malloc(LARGE);

	OK(cuCtxSetCurrent(context));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	block = device_block(SOME);
	big = device_block(LARGE);
	for (unsigned int i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		size_t size = i % 4 ? SOME : LARGE;
		CUdeviceptr at = i % 4 ? block : big;

		paint(bytes, size, seed * 50 + i);
		OK(cuMemcpyHtoDAsync(at, bytes, size, i % 3 ? stream : CU_STREAM_PER_THREAD));
		memset(bytes, 0, size);
		OK(cuMemcpyDtoHAsync(bytes, at, size, i % 3 ? stream : CU_STREAM_PER_THREAD));
		EXPECT(is_pattern(bytes, size, seed * 50 + i));
	}
	free(bytes);
	return NULL;
}

/* Threads copy at once, end, and others come. */
static void threads(void)
{
	pthread_t thread[6];

	for (int round = 0; round < 3; round++) {
		__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
		for (int i = 0; i < 6; i++)
			pthread_create(&thread[i], NULL, churn, (void *)(uintptr_t)i);
		usleep(150000);
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
		for (int i = 0; i < 6; i++)
			pthread_join(thread[i], NULL);
	}
}

/* Calls that drain the device, with what submissions need in their hands (run.py has the driver hold that). */
static void *drain(void *data)
{
	void *host = aligned_alloc(4096, 8192);
	CUdeviceptr block;

	OK(cuCtxSetCurrent(context));
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		OK(cuMemAlloc(&block, SOME));
		OK(cuMemFree(block));
		OK(cuMemHostRegister(host, 8192, 0));
		OK(cuMemHostUnregister(host));
		usleep(500);
	}
	return NULL;
}

static void drained(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr block = device_block(LARGE);
	unsigned char *bytes = malloc(LARGE);
	pthread_t thread[2];

	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, drain, NULL);
	for (unsigned int i = 0; i < 40; i++) {
		paint(bytes, LARGE, i);
		OK(cuMemcpyHtoDAsync(block, bytes, LARGE, stream));
		memset(bytes, 0, LARGE);
		OK(cuMemcpyDtoHAsync(bytes, block, LARGE, stream));
		EXPECT(is_pattern(bytes, LARGE, i));
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
}

/* The process ends while others copy: at once, or through its exit handlers. */
static void ends(bool at_once)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, churn, (void *)(uintptr_t)i);
	usleep(100000);
	fflush(NULL);
	if (at_once)
		_exit(failures ? 1 : 0);
	exit(failures ? 1 : 0);
}

static void ends_at_once(void)
{
	ends(true);
}

static void ends_by_exit(void)
{
	ends(false);
}

static void forked(void)
{
	CUdeviceptr block = device_block(LARGE);
	unsigned char *bytes = pattern(LARGE, 1);
	int status = -1;
	pid_t child;

	OK(cuMemcpyHtoD(block, bytes, LARGE));
	child = fork();
	if (child == 0)
		_exit(cuMemcpyHtoD(block, bytes, LARGE) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuMemcpyDtoH(bytes, block, SOME) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	memset(bytes, 0, LARGE);
	OK(cuMemcpyDtoH(bytes, block, LARGE));
	EXPECT(is_pattern(bytes, LARGE, 1));
}

/* A context is reset while copies are under way; its handle comes back. */
static void reset(void)
{
	unsigned char *bytes = malloc(LARGE);
	CUdeviceptr block, again;

	for (unsigned int i = 0; i < 4; i++) {
		load_kernels();
		block = device_block(LARGE);
		again = device_block(LARGE);
		paint(bytes, LARGE, i);
		OK(cuMemcpyHtoD(block, bytes, LARGE));
		spin(NULL, 10000000);
		OK(cuMemcpyHtoDAsync(again, bytes, i % 2 ? LARGE : SOME, NULL));
		memset(bytes, 0, LARGE);
		OK(cuMemcpyDtoH(bytes, block, LARGE));
		EXPECT(is_pattern(bytes, LARGE, i));
		spin(NULL, 10000000);
		OK(cuMemcpyHtoDAsync(again, bytes, SOME, NULL));
		OK(cuDevicePrimaryCtxReset(0));
		OK(cuDevicePrimaryCtxRetain(&context, 0));
		OK(cuCtxSetCurrent(context));
	}
}

/* A context that has failed fails every copy. */
static void broken(void)
{
	CUdeviceptr block = device_block(LARGE);
	unsigned char *bytes = pattern(LARGE, 1);

	spin(NULL, 10000000);
	fill(NULL, 64, 1, 16);
	EXPECT(cuMemcpyHtoD(block, bytes, SOME) == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemcpyHtoD(block, bytes, LARGE) == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemcpyDtoH(bytes, block, SOME) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* The same, seen first by a copy to the host. */
static void broken_to_host(void)
{
	CUdeviceptr block = device_block(LARGE);
	unsigned char *bytes = pattern(LARGE, 1);
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

	spin(stream, 10000000);
	fill(stream, 64, 1, 16);
	EXPECT(cuMemcpyDtoHAsync(bytes, block, LARGE, stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemcpyHtoDAsync(block, bytes, LARGE, stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static bool is_injected(CUresult result)
{
	return result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_UNKNOWN;
}

/* There and back. Succeeds with all bytes right, or tells the driver's error. */
static void try_copies(CUdeviceptr block, unsigned char *bytes, size_t size, CUstream stream,
		       unsigned int value)
{
	bool async = stream || value / 2 % 2;
	CUresult to, from;

	paint(bytes, size, value);
	spin(stream, 100000);
	to = async ? cuMemcpyHtoDAsync(block, bytes, size, stream)
		   : cuMemcpyHtoD(block, bytes, size);
	memset(bytes, 0, size);
	from = async ? cuMemcpyDtoHAsync(bytes, block, size, stream)
		     : cuMemcpyDtoH(bytes, block, size);
	EXPECT(to == CUDA_SUCCESS || is_injected(to));
	EXPECT(from == CUDA_SUCCESS || is_injected(from));
	if (to == CUDA_SUCCESS && from == CUDA_SUCCESS)
		EXPECT(is_pattern(bytes, size, value));
}

/* Under fault injection: enough small copies for two chunks, then some of more than one. Nothing hangs. */
static void faults(void)
{
	CUstream streams[] = {new_stream(CU_STREAM_NON_BLOCKING), NULL};
	CUdeviceptr block = device_block(LARGE);
	unsigned char *bytes = malloc(LARGE);

	for (unsigned int i = 0; i < 24; i++)
		try_copies(block, bytes, SOME / 2 * (1 + i % 2), streams[i % 2], i);
	for (unsigned int i = 0; i < 10; i++)
		try_copies(block, bytes, (size_t)5 << 20, streams[i % 2], 50 + i);
	OK(cuCtxSynchronize());
}

const struct named_case life_cases[] = {
	{"threads", threads},
	{"drained", drained},
	{"ends-at-once", ends_at_once},
	{"ends-by-exit", ends_by_exit},
	{"forked", forked},
	{"reset", reset},
	{"broken", broken},
	{"broken-to-host", broken_to_host},
	{"faults", faults},
	{NULL, NULL},
};
