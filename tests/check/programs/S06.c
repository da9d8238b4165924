// SPDX-License-Identifier: MIT
/* S06: an event keeps time, and is used for order only. Fixed: it keeps none. */
#include "common.h"

int main(int argc, char **argv)
{
	CUstream first, second;
	CUdeviceptr data;
	CUevent event;
	unsigned int flags;

	begin(argc, argv);
	first = new_stream(CU_STREAM_NON_BLOCKING);
	second = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	flags = fixed ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT;
	OK(cuEventCreate(&event, flags)); /* FOUND: S06 */
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemsetD8Async(data, 0, BYTES, first));
		OK(cuEventRecord(event, first));
		OK(cuStreamWaitEvent(second, event, 0));
	}
	OK(cuStreamSynchronize(second));
	OK(cuEventDestroy(event));
	return 0;
}
