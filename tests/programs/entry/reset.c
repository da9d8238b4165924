// SPDX-License-Identifier: MIT
/*
 * Uses a primary context, resets it, and uses it again, four times over: the driver hands out the
 * same handles for new things. Prints every status and what was read back; run.py compares with and
 * without the shim. Runs on the simulated driver.
 */
#include "entry_test.h"

#define CALL(name, ...) printf(#name " %d\n", name(__VA_ARGS__))
#define BYTES           4096

int main(void)
{
	CUcontext context = NULL, first = NULL;
	unsigned char data[BYTES], back[BYTES];
	CUdeviceptr memory = 0;
	CUstream stream = NULL;
	CUevent event = NULL;
	CUdevice device = 0;

	CALL(cuInit, 0);
	CALL(cuDeviceGet, &device, 0);
	for (int round = 0; round < 4; round++) {
		CALL(cuDevicePrimaryCtxRetain, &context, device);
		if (!first)
			first = context;
		printf("same handle %d\n", context == first);
		CALL(cuCtxSetCurrent, context);
		CALL(cuStreamCreate, &stream, CU_STREAM_DEFAULT);
		CALL(cuEventCreate, &event, CU_EVENT_DEFAULT);
		CALL(cuMemAlloc, &memory, BYTES);
		memset(data, round + 1, BYTES);
		CALL(cuMemcpyHtoDAsync, memory, data, BYTES, stream);
		CALL(cuEventRecord, event, stream);
		CALL(cuStreamSynchronize, stream);
		CALL(cuEventSynchronize, event);
		CALL(cuMemcpyDtoH, back, memory, BYTES);
		printf("bytes %d\n", memcmp(data, back, BYTES) == 0);
		CALL(cuDevicePrimaryCtxReset, device);
		CALL(cuStreamQuery, stream);
	}
	return 0;
}
