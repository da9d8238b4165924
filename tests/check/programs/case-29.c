// SPDX-License-Identifier: MIT
/*
 * Case 29, thrust#1128, cudf#5598, #9614, autoware_universe#10998: a library works on the legacy stream while its client uses two streams of its own.
 * Fixed: the library takes a stream.
 */
#include "common.h"

static CUdeviceptr data;

static void library(CUstream stream)
{
	OK(cuMemsetD8Async(data, 0, BYTES, stream)); /* FOUND: L04 */
}

int main(int argc, char **argv)
{
	unsigned long time = BUSY;
	CUstream first, second;
	CUfunction spin;

	begin(argc, argv);
	spin = kernel("spin");
	first = new_stream(CU_STREAM_DEFAULT);
	second = new_stream(CU_STREAM_DEFAULT);
	data = on_device(BYTES);
	OK(LAUNCH(spin, first, &time));
	OK(LAUNCH(spin, second, &time));
	library(fixed ? first : NULL);
	OK(cuStreamSynchronize(first));
	OK(cuStreamSynchronize(second));
	return 0;
}
