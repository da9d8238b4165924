// SPDX-License-Identifier: MIT
/* Shared by the tests of the simulated driver: checks that say what and where, and a clock. */
#ifndef SIMCUDA_TEST_CHECK_H
#define SIMCUDA_TEST_CHECK_H

#include "../kernels.h"
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int failures;

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

#define STATUS(wanted, call)                                                                       \
	do {                                                                                       \
		CUresult status_ = (call);                                                         \
		if (status_ != (wanted)) {                                                         \
			fprintf(stderr, "%s:%d: %s gave %d, wanted %d\n", __FILE__, __LINE__,      \
				#call, (int)status_, (int)(wanted));                               \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

#define OK(call) STATUS(CUDA_SUCCESS, call)

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline CUfunction kernel(CUmodule module, const char *name)
{
	CUfunction function = NULL;

	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

static inline CUresult spin(CUfunction function, uint64_t ns, CUstream stream)
{
	void *parameters[] = {&ns};

	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

/* Adds a salt to *state in an order-sensitive way. */
static inline CUresult hash(CUfunction function, CUdeviceptr state, uint32_t salt, CUstream stream)
{
	uint32_t n = 0;
	CUdeviceptr data = state;
	void *parameters[] = {&state, &data, &n, &salt};

	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static inline uint64_t hash_of(uint64_t state, uint32_t salt)
{
	return (state ^ salt) * 1099511628211ULL;
}

#endif
