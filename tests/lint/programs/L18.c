// SPDX-License-Identifier: MIT
/* L18: one number is read back in every round. Fixed: into pinned memory, and looked at when it is there. */
#include "common.h"

static int step(CUstream stream, CUdeviceptr device, int *host, CUevent event)
{
	spin(stream, BUSY);
#ifdef FIXED
	OK(cuMemcpyDtoHAsync(host, device, sizeof(*host), stream));
	OK(cuEventRecord(event, stream));
	return cuEventQuery(event) == CUDA_SUCCESS && *host;
#else
	(void)event;
	OK(cuMemcpyDtoH(host, device, sizeof(*host))); /* FINDING */
	return *host;
#endif
}

int main(void)
{
	CUdeviceptr device;
	CUstream stream;
	CUevent event;
	int *host;

	begin();
#ifdef FIXED
	stream = new_stream(CU_STREAM_NON_BLOCKING);
#else
	stream = NULL;
#endif
	device = on_device(4096);
	host = pinned(sizeof(*host));
	OK(cuMemsetD8Async(device, 0, 4096, stream));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < ROUNDS; i++)
		if (step(stream, device, host, event))
			break;
	OK(cuStreamSynchronize(stream));
	return 0;
}
