// SPDX-License-Identifier: MIT
/* S03: a stream is asked again and again. Fixed: an event is waited for. */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned long time = 5 * BUSY;
	CUfunction spin;
	CUstream stream;
	CUevent event;
	CUresult status = CUDA_ERROR_NOT_READY;

	begin(argc, argv);
	spin = kernel("spin");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	event = new_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
	OK(LAUNCH(spin, stream, &time));
	OK(cuEventRecord(event, stream));
	if (fixed)
		OK(cuEventSynchronize(event));
	while (!fixed && status == CUDA_ERROR_NOT_READY)
		status = cuStreamQuery(stream); /* FOUND: S03 */
	OK(cuStreamSynchronize(stream));
	OK(cuEventDestroy(event));
	return 0;
}
