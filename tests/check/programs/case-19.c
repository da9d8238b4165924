// SPDX-License-Identifier: MIT
/*
 * Case 19, kokkos#9307, cupy#3777: cuMemFree is taken for a wait, and what the kernel reads in host memory is written behind it. No text promises that
 * wait. Fixed: an event is waited for.
 */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned long time = BUSY, bytes = BYTES;
	CUfunction spin, copy;
	CUdeviceptr data, source;
	CUstream stream;
	CUevent event;
	void *host;

	begin(argc, argv);
	spin = kernel("spin");
	copy = kernel("copy");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	event = new_event(CU_EVENT_DISABLE_TIMING);
	data = on_device(BYTES);
	host = pinned(BYTES);
	source = (CUdeviceptr)host;
	OK(LAUNCH(spin, stream, &time));
	OK(LAUNCH(copy, stream, &data, &source, &bytes));
	OK(cuEventRecord(event, stream));
	if (fixed)
		OK(cuEventSynchronize(event));
	OK(cuMemFree(data)); /* FOUND: L12 */
	memset(host, 1, BYTES);
	OK(cuEventDestroy(event));
	return 0;
}
