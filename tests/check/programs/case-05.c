// SPDX-License-Identifier: MIT
/*
 * Case 5, intel/llvm#1798: what a synchronous copy from pageable memory wrote is copied on by a non-blocking stream, perhaps before the first copy has
 * ended. Fixed: the stream waits for the legacy stream's event.
 */
#include "common.h"

int main(int argc, char **argv)
{
	CUdeviceptr data, result;
	CUstream stream;
	void *host;

	begin(argc, argv);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	result = on_device(BYTES);
	host = pageable(BYTES);
	OK(cuMemcpyHtoD(data, host, BYTES));
	if (fixed)
		order(NULL, stream);
	OK(cuMemcpyDtoDAsync(result, data, BYTES, stream)); /* FOUND: L03 */
	OK(cuStreamSynchronize(stream));
	return 0;
}
