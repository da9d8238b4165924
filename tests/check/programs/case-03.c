// SPDX-License-Identifier: MIT
/*
 * Case 3, alpaka#851, nixl#773: memory of the device is set by cuMemsetD8, which does not wait for the device, and a kernel on a non-blocking stream
 * uses it. Fixed: an event between.
 */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned long bytes = BYTES;
	CUdeviceptr data, result;
	CUfunction copy;
	CUstream stream;

	begin(argc, argv);
	copy = kernel("copy");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	result = on_device(BYTES);
	OK(cuMemsetD8(data, 0, BYTES));
	if (fixed)
		order(NULL, stream);
	OK(LAUNCH(copy, stream, &result, &data, &bytes)); /* FOUND: L03 */
	OK(cuStreamSynchronize(stream));
	return 0;
}
