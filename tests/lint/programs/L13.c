// SPDX-License-Identifier: MIT
/* L13: an asynchronous copy to pageable memory behind a busy stream. Fixed: to pinned memory. */
#include "common.h"

static void step(CUstream stream, void *host, CUdeviceptr device)
{
	spin(stream, BUSY);
	OK(cuMemcpyDtoHAsync(host, device, LARGE, stream)); /* FINDING */
}

int main(void)
{
	CUdeviceptr device;
	CUstream stream;
	void *host;

	begin();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	device = on_device(LARGE);
#ifdef FIXED
	host = pinned(LARGE);
#else
	host = calloc(1, LARGE);
#endif
	for (int i = 0; i < ROUNDS; i++)
		step(stream, host, device);
	OK(cuStreamSynchronize(stream));
	return 0;
}
