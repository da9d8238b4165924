// SPDX-License-Identifier: MIT
/*
 * Case 4, intel/llvm#21602: memory is filled on a non-blocking stream, and read back by a synchronous copy, which waits for the legacy stream only.
 * Fixed: the stream is waited for.
 */
#include "common.h"

int main(int argc, char **argv)
{
	CUdeviceptr data;
	CUstream stream;
	uint32_t *host;

	begin(argc, argv);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	host = pinned(BYTES);
	OK(cuMemsetD32Async(data, 42, BYTES / 4, stream));
	if (fixed)
		OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH(host, data, BYTES)); /* FOUND: L03 */
	OK(cuStreamSynchronize(stream));
	return 0;
}
