// SPDX-License-Identifier: MIT
/* implicit-wait/d2h: a synchronous copy of more than a few bytes to the host. Fixed: asynchronous, and waited for in words. */
#include "common.h"

static void step(CUstream stream, void *host, CUdeviceptr device)
{
	spin(stream, BUSY);
#ifdef FIXED
	OK(cuMemcpyDtoHAsync(host, device, LARGE, stream));
	OK(cuStreamSynchronize(stream));
#else
	OK(cuMemcpyDtoH(host, device, LARGE)); /* FINDING */
#endif
}

int main(void)
{
	CUdeviceptr device;
	CUstream stream;
	void *host;

	begin();
#ifdef FIXED
	stream = new_stream(CU_STREAM_NON_BLOCKING);
#else
	stream = NULL;
#endif
	device = on_device(LARGE);
	host = pinned(LARGE);
	for (int i = 0; i < ROUNDS; i++)
		step(stream, host, device);
	OK(cuStreamSynchronize(stream));
	return 0;
}
