// SPDX-License-Identifier: MIT
/* L12: memory is freed while the device works. Fixed: by the stream, in its order. */
#include "common.h"

static void step(CUstream stream)
{
	CUdeviceptr block;

#ifdef FIXED
	OK(cuMemAllocAsync(&block, 4096, stream));
	spin(stream, BUSY);
	OK(cuMemFreeAsync(block, stream));
#else
	block = on_device(4096);
	spin(stream, BUSY);
	OK(cuMemFree(block)); /* FINDING */
#endif
}

int main(void)
{
	CUstream stream;

	begin();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < ROUNDS; i++)
		step(stream);
	OK(cuStreamSynchronize(stream));
	return 0;
}
