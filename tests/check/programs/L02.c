// SPDX-License-Identifier: MIT
/* L02: the host writes the source of an asynchronous copy that has not finished. Fixed: behind an event. */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned long time = BUSY;
	volatile uint32_t *host;
	CUdeviceptr data;
	CUfunction spin;
	CUstream stream;
	CUevent event;

	begin(argc, argv);
	spin = kernel("spin");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	event = new_event(CU_EVENT_DISABLE_TIMING);
	data = on_device(BYTES);
	host = pinned(BYTES);
	OK(LAUNCH(spin, stream, &time));
	OK(cuMemcpyHtoDAsync(data, (const void *)host, BYTES, stream));
	OK(cuEventRecord(event, stream));
	if (fixed)
		OK(cuEventSynchronize(event));
	host[16] = 42; /* FOUND: L02 */
	OK(cuEventSynchronize(event));
	OK(cuEventDestroy(event));
	return 0;
}
