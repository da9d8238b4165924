// SPDX-License-Identifier: MIT
/*
 * Case 15, onnxruntime#5430: a synchronous copy waits for a blocking stream, whose gate (a receive) the same thread opens behind the copy (the send).
 * Fixed: the gate is opened before.
 */
#include "common.h"

int main(int argc, char **argv)
{
	CUdeviceptr data;
	CUstream stream;
	uint32_t *gate;
	void *host;

	begin(argc, argv);
	stream = new_stream(CU_STREAM_DEFAULT);
	gate = pinned(sizeof(*gate));
	data = on_device(BYTES);
	host = pinned(BYTES);
	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	if (fixed) {
		__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
		OK(cuStreamSynchronize(stream));
	}
	OK(cuMemcpyHtoD(data, host, BYTES)); /* FOUND: L10 */
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	OK(cuStreamSynchronize(stream));
	return 0;
}
