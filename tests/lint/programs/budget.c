// SPDX-License-Identifier: MIT
/* budget: a region that may not wait does. Fixed: the wait is outside of it. The configuration says: region step, implicit 0. */
#include <slipstream/slipstream.h>

#include "common.h"

static void step(CUstream stream, void *host, CUdeviceptr device)
{
	SLIPSTREAM_REGION("step");
	spin(stream, BUSY);
#ifndef FIXED
	OK(cuMemcpyDtoH(host, device, 4096)); /* FINDING */
#endif
}

int main(void)
{
	CUdeviceptr device;
	void *host;

	begin();
	device = on_device(4096);
	host = pinned(4096);
	for (int i = 0; i < ROUNDS; i++)
		step(NULL, host, device);
	{
		SLIPSTREAM_ALLOW_SYNC("the result is printed next");
		OK(cuMemcpyDtoH(host, device, 4096));
	}
	return 0;
}
