// SPDX-License-Identifier: MIT
/* S09: two non-blocking streams write the same memory with no order between. Fixed: an event. */
#include "common.h"

int main(int argc, char **argv)
{
	CUstream first, second;
	CUdeviceptr data;

	begin(argc, argv);
	first = new_stream(CU_STREAM_NON_BLOCKING);
	second = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	OK(cuMemsetD8Async(data, 1, BYTES, first));
	if (fixed)
		order(first, second);
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* FOUND: S09 */
	OK(cuStreamSynchronize(first));
	OK(cuStreamSynchronize(second));
	return 0;
}
