// SPDX-License-Identifier: MIT
/*
 * What the planted programs share: a context, and ten functions that allocate pinned memory, use it and free it, so that the one that matters is one
 * call site among many. Each prints what a program without the planted dependence would print as well.
 */
#ifndef PLANTED_H
#define PLANTED_H

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../simcuda/kernels.h"
#define EXPECT_END exit(2)
#include "../expect.h"

#define BYTES 8192

/* Two call sites each, with a dirty block freed. */
#define INNOCENT(number)                                                                           \
	static __attribute__((noinline)) void innocent_##number(void)                              \
	{                                                                                          \
		void *memory;                                                                      \
                                                                                                   \
		OK(cuMemHostAlloc(&memory, BYTES, 0));                                             \
		memset(memory, 0x5a, BYTES);                                                       \
		OK(cuMemFreeHost(memory));                                                         \
	}

INNOCENT(0)
INNOCENT(1)
INNOCENT(2)
INNOCENT(3)
INNOCENT(4)
INNOCENT(5)
INNOCENT(6)
INNOCENT(7)
INNOCENT(8)
INNOCENT(9)

static inline void run_innocent(void)
{
	static void (*const all[])(void) = {innocent_0, innocent_1, innocent_2, innocent_3,
					    innocent_4, innocent_5, innocent_6, innocent_7,
					    innocent_8, innocent_9};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		all[i]();
}

static CUmodule start(void)
{
	CUcontext context;
	CUmodule module;
	CUdevice device;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	return module;
}

#endif
