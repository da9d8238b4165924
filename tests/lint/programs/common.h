// SPDX-License-Identifier: MIT
/*
 * Of the programs of lint's rules: each is built twice, as it stands, where the line marked FINDING is found, and with -DFIXED, where nothing
 * is. Driver API; on the simulated driver or a real one.
 */
#ifndef LINT_COMMON_H
#define LINT_COMMON_H

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../simcuda/kernels.h"

#define ROUNDS 8
#define LARGE  (16UL << 20)
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

static CUfunction spin_function;

static inline void begin(void)
{
	CUmodule module;
	CUcontext context;
	CUdevice device;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&spin_function, module, "spin"));
}

/* Keeps the stream busy for so many ns. */
static inline void spin(CUstream stream, unsigned long ns)
{
	void *arguments[] = {&ns};

	OK(cuLaunchKernel(spin_function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static inline CUstream new_stream(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

static inline void *pinned(size_t bytes)
{
	void *memory;

	OK(cuMemHostAlloc(&memory, bytes, 0));
	memset(memory, 0, bytes);
	return memory;
}

static inline CUdeviceptr on_device(size_t bytes)
{
	CUdeviceptr memory;

	OK(cuMemAlloc(&memory, bytes));
	return memory;
}

#endif
