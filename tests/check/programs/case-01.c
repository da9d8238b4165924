// SPDX-License-Identifier: MIT
/*
 * Case 1, rust-cuda#15: pageable memory is copied to the device synchronously, and a kernel on a non-blocking stream reads it. The call returned when
 * the source was staged, and the legacy stream orders no non-blocking one. Fixed: the copy is on the kernel's stream.
 */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned long bytes = BYTES;
	CUdeviceptr data, result;
	CUfunction copy;
	CUstream stream;
	void *host;

	begin(argc, argv);
	copy = kernel("copy");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	result = on_device(BYTES);
	host = fixed ? pinned(BYTES) : pageable(BYTES);
	if (fixed)
		OK(cuMemcpyHtoDAsync(data, host, BYTES, stream));
	else
		OK(cuMemcpyHtoD(data, host, BYTES));
	OK(LAUNCH(copy, stream, &result, &data, &bytes)); /* FOUND: L03 */
	OK(cuStreamSynchronize(stream));
	return 0;
}
