// SPDX-License-Identifier: MIT
/*
 * Case 22, onnxruntime#20947, TensorRT-LLM#3147, cuCollections#727: a large "asynchronous" copy from malloc()ed memory waits for its stream. Fixed:
 * pinned memory.
 */
#include "common.h"

#define LARGE (32UL << 20)

int main(int argc, char **argv)
{
	unsigned long time = 3 * BUSY;
	CUdeviceptr data;
	CUfunction spin;
	CUstream stream;
	void *host;

	begin(argc, argv);
	spin = kernel("spin");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(LARGE);
	host = fixed ? pinned(LARGE) : pageable(LARGE);
	OK(LAUNCH(spin, stream, &time));
	OK(cuMemcpyHtoDAsync(data, host, LARGE, stream)); /* FOUND: L13 */
	OK(cuStreamSynchronize(stream));
	return 0;
}
