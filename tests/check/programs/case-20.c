// SPDX-License-Identifier: MIT
/*
 * Case 20, pytorch#86264, #137878, sglang#16493: the host reads the destination of an asynchronous copy at once. Fixed: behind an event.
 */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned long time = BUSY;
	CUdeviceptr data;
	CUfunction spin;
	CUstream stream;
	CUevent event;
	volatile uint32_t *host;
	uint32_t sum = 0;

	begin(argc, argv);
	spin = kernel("spin");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	event = new_event(CU_EVENT_DISABLE_TIMING);
	data = on_device(BYTES);
	host = pinned(BYTES);
	OK(cuMemsetD32Async(data, 42, BYTES / 4, stream));
	OK(LAUNCH(spin, stream, &time));
	OK(cuMemcpyDtoHAsync((void *)host, data, BYTES, stream));
	OK(cuEventRecord(event, stream));
	if (fixed)
		OK(cuEventSynchronize(event));
	sum += host[16]; /* FOUND: L01 */
	OK(cuEventSynchronize(event));
	OK(cuEventDestroy(event));
	return sum == 1;
}
