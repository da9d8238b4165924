// SPDX-License-Identifier: MIT
/*
 * Case 14, pytorch#50925, nccl#744: half of a collective waits on device 0 for the half on device 1, which the thread submits behind a free that waits
 * for device 0. Here the halves are a wait for a value and its write. Fixed: both halves first.
 */
#include "common.h"

static CUcontext second;
static CUstream streams[2];
static uint32_t *arrived;

static void half_on_second(void)
{
	OK(cuCtxSetCurrent(second));
	OK(cuStreamWriteValue32(streams[1], (CUdeviceptr)arrived, 1, 0));
	OK(cuCtxSetCurrent(context));
}

int main(int argc, char **argv)
{
	CUdeviceptr data;
	CUdevice device;

	begin(argc, argv);
	OK(cuDeviceGet(&device, 1));
	OK(cuDevicePrimaryCtxRetain(&second, device));
	streams[0] = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuCtxSetCurrent(second));
	streams[1] = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuCtxSetCurrent(context));
	arrived = pinned(sizeof(*arrived));
	data = on_device(BYTES);
	OK(cuStreamWaitValue32(streams[0], (CUdeviceptr)arrived, 1, CU_STREAM_WAIT_VALUE_GEQ));
	if (fixed) {
		half_on_second();
		OK(cuStreamSynchronize(streams[0]));
	}
	OK(cuMemFree(data)); /* FOUND: L10 */
	if (!fixed)
		half_on_second();
	OK(cuStreamSynchronize(streams[0]));
	return 0;
}
