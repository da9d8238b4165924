// SPDX-License-Identifier: MIT
/* L04: work on the legacy default stream between work of a blocking stream. Fixed: streams without that order. */
#include "common.h"

static void step(CUstream compute, CUstream other, CUdeviceptr device)
{
	spin(compute, BUSY);
	OK(cuMemsetD8Async(device, 0, 4096, other)); /* FINDING */
}

int main(void)
{
	CUstream compute, other;
	CUdeviceptr device;

	begin();
#ifdef FIXED
	compute = new_stream(CU_STREAM_NON_BLOCKING);
	other = new_stream(CU_STREAM_NON_BLOCKING);
#else
	compute = new_stream(CU_STREAM_DEFAULT);
	other = NULL;
#endif
	device = on_device(4096);
	for (int i = 0; i < ROUNDS; i++)
		step(compute, other, device);
	OK(cuCtxSynchronize());
	return 0;
}
