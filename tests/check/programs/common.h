// SPDX-License-Identifier: MIT
/*
 * Of the programs of the order rules: PROGRAM failing, where each line marked FOUND is found, and PROGRAM fixed, where nothing is. One case a
 * program, driver API; on the simulated driver or a real one. A marked call stands in one line of the program's own file.
 */
#ifndef CHECK_COMMON_H
#define CHECK_COMMON_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../simcuda/kernels.h"

#define BYTES  4096UL
#define ROUNDS 8
#define BUSY   10000000UL /* ns */

#define OK(call)                                                                                   \
	do {                                                                                       \
		CUresult status_ = (call);                                                         \
		if (status_ != CUDA_SUCCESS) {                                                     \
			(void)fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call,   \
				      (int)status_);                                               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* The arguments are addresses of the kernel's parameters. */
#define LAUNCH(function, stream, ...)                                                              \
	({                                                                                         \
		void *parameters_[] = {__VA_ARGS__};                                               \
		cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters_, NULL);         \
	})

static bool fixed;
static CUcontext context;
static CUmodule module;

static inline void arguments(int argc, char **argv)
{
	if (argc < 2 || (strcmp(argv[1], "failing") != 0 && strcmp(argv[1], "fixed") != 0)) {
		(void)fprintf(stderr, "usage: %s failing|fixed\n", argv[0]);
		exit(2);
	}
	fixed = !strcmp(argv[1], "fixed");
}

/* The kernels of the module, not loaded yet. */
static inline void start(void)
{
	CUdevice device;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, simcuda_ptx));
}

static inline void begin(int argc, char **argv)
{
	arguments(argc, argv);
	start();
}

static inline CUfunction unloaded(const char *name)
{
	CUfunction function;

	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

static inline CUfunction kernel(const char *name)
{
	CUfunction function = unloaded(name);

	OK(cuFuncLoad(function));
	return function;
}

static inline CUstream new_stream(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

static inline CUevent new_event(unsigned int flags)
{
	CUevent event;

	OK(cuEventCreate(&event, flags));
	return event;
}

/* `second` goes on when `first` has done what it has. */
static inline void order(CUstream first, CUstream second)
{
	CUevent event = new_event(CU_EVENT_DISABLE_TIMING);

	OK(cuEventRecord(event, first));
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuEventDestroy(event));
}

static inline void *pinned(size_t bytes)
{
	void *memory;

	OK(cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE));
	memset(memory, 0, bytes);
	return memory;
}

static inline void *pageable(size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		exit(1);
	memset(memory, 1, bytes);
	return memory;
}

static inline CUdeviceptr on_device(size_t bytes)
{
	CUdeviceptr memory;

	OK(cuMemAlloc(&memory, bytes));
	return memory;
}

static inline void sleep_ms(long ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};

	(void)nanosleep(&time, NULL);
}

static inline pthread_t new_thread(void *(*function)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, function, argument))
		exit(1);
	return thread;
}

#endif
