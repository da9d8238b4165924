// SPDX-License-Identifier: MIT
/* L17: a pool that gives its memory back at every wait grows in every round. Fixed: it keeps what it has. */
#include "common.h"

static void step(CUstream stream)
{
	CUdeviceptr block;

	OK(cuMemAllocAsync(&block, 256UL << 20, stream)); /* FINDING */
	spin(stream, 1000);
	OK(cuMemFreeAsync(block, stream));
	OK(cuStreamSynchronize(stream));
}

int main(void)
{
	CUmemoryPool pool;
	CUstream stream;

	begin();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
#ifdef FIXED
	{
		cuuint64_t all = UINT64_MAX;

		OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	}
#endif
	for (int i = 0; i < ROUNDS; i++)
		step(stream);
	return 0;
}
