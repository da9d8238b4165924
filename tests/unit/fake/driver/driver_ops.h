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
	CUresult (*cuCtxGetStreamPriorityRange)(int *ret_least, int *ret_greatest);
	CUresult (*cuMemGetAddressRange_v2)(CUdeviceptr *ret_base, size_t *ret_size,
					    CUdeviceptr address);
	CUresult (*cuStreamQuery)(CUstream stream);
	CUresult (*cuStreamIsCapturing)(CUstream stream, CUstreamCaptureStatus *ret_status);
	CUresult (*cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode *mode);
	/* And the rewrites. */
	CUresult (*cuArray3DCreate_v2)(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *shape);
	CUresult (*cuArrayCreate_v2)(CUarray *ret_array, const CUDA_ARRAY_DESCRIPTOR *shape);
	CUresult (*cuArrayDestroy)(CUarray array);
	CUresult (*cuCtxSynchronize)(void);
	CUresult (*cuCtxPopCurrent_v2)(CUcontext *ret_context);
	CUresult (*cuCtxPushCurrent_v2)(CUcontext context);
	CUresult (*cuDeviceGetAttribute)(int *ret_value, CUdevice_attribute attribute,
					 CUdevice device);
	CUresult (*cuDeviceGetCount)(int *ret_count);
	CUresult (*cuDeviceGetName)(char *ret_name, int size, CUdevice device);
	CUresult (*cuDriverGetVersion)(int *ret_version);
	CUresult (*cuDeviceTotalMem_v2)(size_t *ret_bytes, CUdevice device);
	CUresult (*cuEventCreate)(CUevent *ret_event, unsigned int flags);
	CUresult (*cuEventQuery)(CUevent event);
	CUresult (*cuEventRecord)(CUevent event, CUstream stream);
	CUresult (*cuEventSynchronize)(CUevent event);
	CUresult (*cuMemAllocHost_v2)(void **ret_address, size_t bytes);
	CUresult (*cuMemAlloc_v2)(CUdeviceptr *ret_address, size_t bytes);
	CUresult (*cuMemFreeAsync)(CUdeviceptr address, CUstream stream);
	CUresult (*cuMemFreeAsync_ptsz)(CUdeviceptr address, CUstream stream);
	CUresult (*cuMemFreeHost)(void *address);
	CUresult (*cuMemHostUnregister)(void *address);
	CUresult (*cuMemFree_v2)(CUdeviceptr address);
	CUresult (*cuMemGetInfo_v2)(size_t *ret_free, size_t *ret_total);
	CUresult (*cuMemHostAlloc)(void **ret_address, size_t bytes, unsigned int flags);
	CUresult (*cuMemHostGetDevicePointer_v2)(CUdeviceptr *ret_address, void *host,
						 unsigned int flags);
	CUresult (*cuMemHostRegister_v2)(void *address, size_t bytes, unsigned int flags);
	CUresult (*cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D *copy, CUstream stream);
	CUresult (*cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D *copy, CUstream stream);
	CUresult (*cuMemcpyDtoHAsync_v2)(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
	CUresult (*cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void *from, size_t bytes,
					 CUstream stream);
	CUresult (*cuMipmappedArrayCreate)(CUmipmappedArray *ret_array,
					   const CUDA_ARRAY3D_DESCRIPTOR *shape,
					   unsigned int levels);
	CUresult (*cuMipmappedArrayDestroy)(CUmipmappedArray array);
	CUresult (*cuPointerGetAttribute)(void *ret_value, CUpointer_attribute attribute,
					  CUdeviceptr address);
	CUresult (*cuPointerGetAttributes)(unsigned int count, CUpointer_attribute *attributes,
					   void **ret_values, CUdeviceptr address);
	CUresult (*cuStreamSynchronize)(CUstream stream);
	CUresult (*cuStreamBatchMemOp_v2)(CUstream stream, unsigned int count,
					  CUstreamBatchMemOpParams *operations, unsigned int flags);
	CUresult (*cuStreamCreateWithPriority)(CUstream *ret_stream, unsigned int flags,
					       int priority);
	CUresult (*cuStreamWaitValue32_v2)(CUstream stream, CUdeviceptr address, cuuint32_t value,
					   unsigned int flags);
	CUresult (*cuStreamWriteValue32_v2)(CUstream stream, CUdeviceptr address, cuuint32_t value,
					    unsigned int flags);
};

#endif
