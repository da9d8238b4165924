// SPDX-License-Identifier: MIT
/*
 * Case 27, CUDA.jl#778, sppark#81: memory of a pool is used on one stream and given back on another, with no order between. Fixed: it is given back on
 * the stream of its last use.
 */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned int value = 7, count = BYTES / 4;
	CUstream streams[3];
	CUfunction fill;
	CUdeviceptr data;

	begin(argc, argv);
	fill = kernel("fill");
	for (int i = 0; i < 3; i++)
		streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemAllocAsync(&data, BYTES, streams[0]));
	order(streams[0], streams[1]);
	OK(LAUNCH(fill, streams[1], &data, &value, &count));
	/* Long enough for this time: what is wrong is the order, not what comes of it. */
	sleep_ms(50);
	OK(cuMemFreeAsync(data, streams[fixed ? 1 : 2])); /* FOUND: L16 */
	OK(cuStreamSynchronize(streams[1]));
	OK(cuStreamSynchronize(streams[2]));
	return 0;
}
