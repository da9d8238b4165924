// SPDX-License-Identifier: MIT
/* S07: work is submitted to the stream of another context than the current one. Fixed: its context is made current. */
#include "common.h"

int main(int argc, char **argv)
{
	CUcontext second;
	CUdeviceptr data;
	CUdevice device;
	CUstream stream;
	void *host;

	begin(argc, argv);
	host = pinned(BYTES);
	OK(cuDeviceGet(&device, 1));
	OK(cuDevicePrimaryCtxRetain(&second, device));
	OK(cuCtxSetCurrent(second));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	OK(cuCtxSetCurrent(fixed ? second : context));
	OK(cuMemcpyHtoDAsync(data, host, BYTES, stream)); /* FOUND: S07 */
	OK(cuStreamSynchronize(stream));
	return 0;
}
