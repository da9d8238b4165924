// SPDX-License-Identifier: MIT
/* S05: the host waits for one stream only to submit to another what depends on it. Fixed: the second stream waits for the first one's event. */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned int count = BYTES / 4;
	CUdeviceptr data, result;
	CUfunction fill;
	CUstream first, second;

	begin(argc, argv);
	fill = kernel("fill");
	first = new_stream(CU_STREAM_NON_BLOCKING);
	second = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	result = on_device(BYTES);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		OK(LAUNCH(fill, first, &data, &i, &count));
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
