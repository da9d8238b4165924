// SPDX-License-Identifier: MIT
/* S05: the host waits for one stream only to submit to another what depends on it. Fixed: the second stream waits for the first one's event. */
#include "common.h"

int main(int argc, char **argv)
{
	CUdeviceptr data, result;
	CUstream first, second;

	begin(argc, argv);
	first = new_stream(CU_STREAM_NON_BLOCKING);
	second = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	result = on_device(BYTES);
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemsetD8Async(data, (unsigned char)i, BYTES, first));
		if (fixed)
			order(first, second);
		else
			OK(cuStreamSynchronize(first)); /* FOUND: S05 */
		OK(cuMemcpyDtoDAsync(result, data, BYTES, second));
		order(second, first);
	}
	OK(cuStreamSynchronize(second));
	return 0;
}
