// SPDX-License-Identifier: MIT
/*
 * Case 28, CUDA.jl#1157: memory is given back to a pool, and events are only asked for, never waited for: the pool keeps everything, and an allocation
 * outside of it finds no memory. Fixed: the stream is waited for, and the pool gives its memory back.
 */
#include "common.h"

int main(int argc, char **argv)
{
	size_t available, total, bytes;
	CUdeviceptr data;
	CUstream stream;
	CUevent event;

	begin(argc, argv);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	event = new_event(CU_EVENT_DISABLE_TIMING);
	OK(cuMemGetInfo(&available, &total));
	bytes = available / 10 * 6;
	OK(cuMemAllocAsync(&data, bytes, stream));
	OK(cuMemFreeAsync(data, stream));
	OK(cuEventRecord(event, stream));
	while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		sleep_ms(1);
	if (fixed)
		OK(cuStreamSynchronize(stream));
	if (cuMemAlloc(&data, bytes) == CUDA_SUCCESS) /* FOUND: L17 */
		OK(cuMemFree(data));
	OK(cuEventDestroy(event));
	return 0;
}
