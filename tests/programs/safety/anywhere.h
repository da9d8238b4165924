/* SPDX-License-Identifier: MIT */
/*
 * Included by the compiler before the random programs of pinned, frees and staging, so that one source also runs on a real driver: on a machine
 * with one device, and with kernels of many threads where one thread would take long. Kernels that depend on their order
 * (simcuda/kernels.h) work in one thread whatever the launch.
 */
#ifndef SAFETY_ANYWHERE_H
#define SAFETY_ANYWHERE_H

#include <cuda.h>

CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);

static inline CUresult anywhere_context(CUcontext *ret_context, unsigned int flags, CUdevice device)
{
	int count = 1;

	cuDeviceGetCount(&count);
	return cuCtxCreate_v2(ret_context, flags, device % count);
}
#undef cuCtxCreate_v2
#define cuCtxCreate_v2 anywhere_context

#ifdef ANYWHERE_WIDE
#undef cuLaunchKernel
#define cuLaunchKernel(function, x, y, z, u, v, w, shared, stream, parameters, extra)              \
	cuLaunchKernel(function, 64 * (x), y, z, 64 * (u), v, w, shared, stream, parameters, extra)
#endif

/*
 * NVIDIA's driver takes a block of cuMemAlloc back in a stream's order, the simulated one refuses it; the program expects that. `safety
 * wrong-frees` asks the driver.
 */
#ifdef ANYWHERE_NO_FREE_ASYNC
#undef cuMemFreeAsync
#define cuMemFreeAsync(block, stream) CUDA_ERROR_INVALID_VALUE
#endif

/* Contexts of one real device do not reach each other's memory. */
#ifdef ANYWHERE_OWN_CONTEXT
#define REACHABLE(t, block) ((block)->context == (t)->current)
#endif

#endif
