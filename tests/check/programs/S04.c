// SPDX-License-Identifier: MIT
/* S04: host and device touch managed memory in turn, and every page moves by a fault. Fixed: it is prefetched both ways. */
#include "common.h"

#define COUNT 65536U

static void prefetch(CUdeviceptr memory, CUmemLocationType type, CUstream stream)
{
	CUmemLocation to = {.type = type};

	OK(cuMemPrefetchAsync(memory, 4UL * COUNT, to, 0, stream));
}

int main(int argc, char **argv)
{
	unsigned int count = COUNT, value;
	CUdeviceptr memory;
	CUfunction fill;
	CUstream stream;

	begin(argc, argv);
	fill = kernel("fill");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemAllocManaged(&memory, 4UL * COUNT, CU_MEM_ATTACH_GLOBAL));
	for (value = 0; value < ROUNDS; value++) {
		memset((void *)memory, (int)value, 4UL * COUNT);
		if (fixed)
			prefetch(memory, CU_MEM_LOCATION_TYPE_DEVICE, stream);
		OK(LAUNCH(fill, stream, &memory, &value, &count)); /* FOUND: S04 */
		if (fixed)
			prefetch(memory, CU_MEM_LOCATION_TYPE_HOST, stream);
		OK(cuStreamSynchronize(stream));
	}
	return 0;
}
