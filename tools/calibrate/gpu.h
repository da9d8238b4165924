// SPDX-License-Identifier: MIT
/*
 * The driver as the measuring programs see it: a table of the functions they call, found in a
 * library opened by name, so that the programs link against no driver and any folder's libcuda.so.1
 * can be measured.
 *
 * Filled once by gpu_open() in the main thread before any other thread exists; constant afterwards.
 */
#ifndef SLIPSTREAM_CALIBRATE_GPU_H
#define SLIPSTREAM_CALIBRATE_GPU_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cuda.h>

/* The header's own macros turn a name into its current version, here and at every use. */
#define GPU_FUNCTIONS(X)                                                                           \
	X(cuInit)                                                                                  \
	X(cuDriverGetVersion)                                                                      \
	X(cuDeviceGet)                                                                             \
	X(cuDeviceGetName)                                                                         \
	X(cuDevicePrimaryCtxRetain)                                                                \
	X(cuDevicePrimaryCtxSetFlags)                                                              \
	X(cuCtxCreate)                                                                             \
	X(cuCtxDestroy)                                                                            \
	X(cuCtxSetCurrent)                                                                         \
	X(cuCtxGetCurrent)                                                                         \
	X(cuCtxSetLimit)                                                                           \
	X(cuModuleLoadData)                                                                        \
	X(cuModuleUnload)                                                                          \
	X(cuModuleGetFunction)                                                                     \
	X(cuLaunchKernel)                                                                          \
	X(cuLaunchHostFunc)                                                                        \
	X(cuStreamCreate)                                                                          \
	X(cuStreamDestroy)                                                                         \
	X(cuStreamSynchronize)                                                                     \
	X(cuStreamQuery)                                                                           \
	X(cuStreamWaitEvent)                                                                       \
	X(cuStreamWaitValue32)                                                                     \
	X(cuStreamGetFlags)                                                                        \
	X(cuStreamGetPriority)                                                                     \
	X(cuStreamGetId)                                                                           \
	X(cuStreamBeginCapture)                                                                    \
	X(cuStreamEndCapture)                                                                      \
	X(cuStreamIsCapturing)                                                                     \
	X(cuThreadExchangeStreamCaptureMode)                                                       \
	X(cuGraphInstantiateWithFlags)                                                             \
	X(cuGraphLaunch)                                                                           \
	X(cuGraphDestroy)                                                                          \
	X(cuGraphExecDestroy)                                                                      \
	X(cuEventCreate)                                                                           \
	X(cuEventDestroy)                                                                          \
	X(cuEventRecord)                                                                           \
	X(cuEventQuery)                                                                            \
	X(cuEventSynchronize)                                                                      \
	X(cuMemAlloc)                                                                              \
	X(cuMemFree)                                                                               \
	X(cuMemAllocManaged)                                                                       \
	X(cuMemAllocAsync)                                                                         \
	X(cuMemFreeAsync)                                                                          \
	X(cuMemGetAddressRange)                                                                    \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemFreeHost)                                                                           \
	X(cuMemHostRegister)                                                                       \
	X(cuMemHostUnregister)                                                                     \
	X(cuMemHostGetDevicePointer)                                                               \
	X(cuMemHostGetFlags)                                                                       \
	X(cuMemcpyHtoD)                                                                            \
	X(cuMemcpyDtoH)                                                                            \
	X(cuMemcpyDtoD)                                                                            \
	X(cuMemcpyHtoDAsync)                                                                       \
	X(cuMemcpyDtoHAsync)                                                                       \
	X(cuMemsetD8)                                                                              \
	X(cuMemsetD8Async)                                                                         \
	X(cuPointerGetAttribute)                                                                   \
	X(cuGetProcAddress)

#define GPU_FIELD_(name) __typeof__(name) *name;
#define GPU_FIELD(name)  GPU_FIELD_(name)
/* cuCtxSynchronize exists in two forms with different arguments; the plain one is meant. */
struct gpu {
	GPU_FUNCTIONS(GPU_FIELD)
	CUresult (*context_synchronize)(void);
	CUresult (*get_proc_address_v1)(const char *name, void **ret_pointer, int version,
					cuuint64_t flags);
	void *library;
};

extern struct gpu gpu;

/* In a function that returns 0 or -errno: a call that fails ends it, with one line on stderr. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		CUresult result_ = (call);                                                         \
		if (result_) {                                                                     \
			fprintf(stderr, "slipstream calibrate: %s: error %d\n", #call, result_);   \
			return -EIO;                                                               \
		}                                                                                  \
	} while (0)

/*
 * Opens libcuda.so.1, in `folder` if that is not NULL, and fills `gpu`. Returns 0, or -errno after
 * writing one line of what is missing to stderr.
 */
int gpu_open(const char *folder);

/* Behind gpu_open(), in a process with the preload library: the driver's own addresses, where `gpu` has the wrappers. The same otherwise. */
int gpu_open_unhooked(struct gpu *ret_gpu);

#endif
