// SPDX-License-Identifier: MIT
/* S01: each asynchronous copy is waited for at once. Fixed: all of them, where the data is needed. */
#include "common.h"

int main(int argc, char **argv)
{
	CUdeviceptr data;
	CUstream stream;
	uint8_t *host;

	begin(argc, argv);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(ROUNDS * BYTES);
	host = pinned(ROUNDS * BYTES);
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemcpyHtoDAsync(data + i * BYTES, host + i * BYTES, BYTES, stream));
		if (!fixed)
			OK(cuStreamSynchronize(stream)); /* FOUND: S01 */
	}
	OK(cuStreamSynchronize(stream));
	return 0;
}
