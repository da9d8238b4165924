// SPDX-License-Identifier: MIT
/* implicit-wait, all the others that are certain: synchronous copies and memsets behind a busy stream, the stack limit. Fixed: the
 * asynchronous forms; the limit once, at start. */
#include "common.h"

static void step(CUstream stream, char *pageable, char *fast, CUdeviceptr device, int round)
{
	spin(stream, BUSY);
#ifdef FIXED
	(void)pageable;
	(void)round;
	OK(cuMemcpyHtoDAsync(device, fast, LARGE, stream));
	OK(cuMemsetD8Async((CUdeviceptr)fast, 1, 4096, stream));
#else
	OK(cuMemcpyHtoD(device, pageable, LARGE)); /* pageable-h2d */
	spin(stream, BUSY);
	OK(cuMemcpyHtoD(device, fast, LARGE)); /* pinned-h2d */
	spin(stream, BUSY);
	OK(cuMemsetD8((CUdeviceptr)fast, 1, 4096)); /* memset-host */
	spin(stream, BUSY);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048 + 1024 * (size_t)(round % 2))); /* stack-limit */
#endif
}

int main(void)
{
	CUdeviceptr device;
	CUstream stream;
	char *pageable, *fast;

	begin();
#ifdef FIXED
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
#else
	stream = NULL;
#endif
	device = on_device(LARGE);
	fast = pinned(LARGE);
	pageable = calloc(1, LARGE);
	for (int i = 0; i < ROUNDS; i++)
		step(stream, pageable, fast, device, i);
	OK(cuStreamSynchronize(stream));
	return 0;
}
