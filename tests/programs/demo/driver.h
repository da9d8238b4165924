// SPDX-License-Identifier: MIT
/*
 * The demo's way into the CUDA driver. Built plainly, it links to nothing: libcuda.so.1 is opened
 * and every function asked from cuGetProcAddress, as the CUDA runtime does. Built with
 * DEMO_LINKED, the same calls are ordinary linked symbols.
 *
 * Every call is written CU(cuMemAlloc)(...) and CHECK()ed: this is a demo, so the first failure
 * ends it with one line.
 */
#ifndef DEMO_DRIVER_H
#define DEMO_DRIVER_H

#include <cuda.h>

/*
 * Functions the demo calls, by base name; cuda.h's macros turn them into the versions it was
 * compiled for.
 */
/* clang-format off */
#define DEMO_FUNCTIONS(X) \
	X(cuInit) X(cuDeviceGet) X(cuDeviceGetName) X(cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent) X(cuCtxSynchronize) \
	X(cuCtxGetLimit) X(cuCtxSetLimit) X(cuModuleLoadData) X(cuModuleUnload) \
	X(cuModuleGetFunction) X(cuStreamCreate) X(cuStreamDestroy) \
	X(cuStreamSynchronize) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) \
	X(cuEventSynchronize) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) \
	X(cuMemFreeHost) X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemcpyHtoD) \
	X(cuMemcpyDtoH) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemsetD8) \
	X(cuMemsetD8Async) X(cuLaunchKernel) X(cuGetErrorName)
/* clang-format on */

#ifdef DEMO_LINKED
#define CU(name) name
#else
/* Filled once by driver_open() before any other thread exists; read afterwards. */
struct driver_api {
#define DEMO_MEMBER(name) __typeof__(&name) name;
	DEMO_FUNCTIONS(DEMO_MEMBER)
#undef DEMO_MEMBER
};
extern struct driver_api driver_api;
#define CU(name) driver_api.name
#endif

/* Makes CU() usable. Ends the program with one line where there is no driver. */
void driver_open(void);

/* Ends the program with one line if `result` is a failure. */
void driver_check(CUresult result, const char *call, const char *file, int line);

#define CHECK(call) driver_check(call, #call, __FILE__, __LINE__)

#endif
