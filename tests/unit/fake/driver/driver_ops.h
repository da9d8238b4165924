// SPDX-License-Identifier: MIT
/*
 * The few driver functions that state and the rewrites call, as tests fake them.
 */
#ifndef SLIPSTREAM_FAKE_DRIVER_OPS_H
#define SLIPSTREAM_FAKE_DRIVER_OPS_H

#include <cuda.h>

#include "catalogue/catalogue_generated.h"

struct driver_ops {
	CUresult (*cuCtxGetId)(CUcontext context, unsigned long long *ret_id);
	CUresult (*cuCtxGetCurrent)(CUcontext *ret_context);
	CUresult (*cuCtxGetDevice)(CUdevice *ret_device);
	CUresult (*cuCtxGetFlags)(unsigned int *ret_flags);
	CUresult (*cuMemGetAddressRange_v2)(CUdeviceptr *ret_base, size_t *ret_size,
					    CUdeviceptr address);
	CUresult (*cuStreamQuery)(CUstream stream);
	CUresult (*cuStreamIsCapturing)(CUstream stream, CUstreamCaptureStatus *ret_status);
	CUresult (*cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode *mode);
	/* And the rewrites. */
	CUresult (*cuCtxSynchronize)(void);
	CUresult (*cuDeviceGetAttribute)(int *ret_value, CUdevice_attribute attribute,
					 CUdevice device);
	CUresult (*cuDeviceGetCount)(int *ret_count);
	CUresult (*cuEventCreate)(CUevent *ret_event, unsigned int flags);
	CUresult (*cuEventQuery)(CUevent event);
	CUresult (*cuEventRecord)(CUevent event, CUstream stream);
	CUresult (*cuEventSynchronize)(CUevent event);
	CUresult (*cuMemAllocHost_v2)(void **ret_address, size_t bytes);
	CUresult (*cuMemFreeHost)(void *address);
	CUresult (*cuMemHostAlloc)(void **ret_address, size_t bytes, unsigned int flags);
	CUresult (*cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D *copy, CUstream stream);
	CUresult (*cuPointerGetAttribute)(void *ret_value, CUpointer_attribute attribute,
					  CUdeviceptr address);
	CUresult (*cuPointerGetAttributes)(unsigned int count, CUpointer_attribute *attributes,
					   void **ret_values, CUdeviceptr address);
	CUresult (*cuStreamSynchronize)(CUstream stream);
};

#endif
