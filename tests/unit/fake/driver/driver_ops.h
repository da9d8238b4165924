// SPDX-License-Identifier: MIT
/*
 * The few driver functions that state calls, as tests fake them.
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
};

#endif
