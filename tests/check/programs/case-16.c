// SPDX-License-Identifier: MIT
/*
 * Case 16, torchcomms#2334, Mooncake#1755, uccl#220: a kernel polls a flag; one thread launches a kernel for the first time, which is loaded then and
 * waits for the device with the driver's lock held; so the copy of another thread that would set the flag is not submitted. Fixed: all is loaded at start.
 */
#include "common.h"

static CUstream streams[3];
static CUdeviceptr flag, data;
static CUfunction late;
static uint32_t *one;

static void *launch(void *unused)
{
	unsigned int value = 7, count = BYTES / 4;

	(void)unused;
	OK(cuCtxSetCurrent(context));
	OK(LAUNCH(late, streams[1], &data, &value, &count)); /* FOUND: L11 */
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	CUfunction gate;

	begin(argc, argv);
	gate = kernel("gate");
	late = fixed ? kernel("fill") : unloaded("fill");
	for (int i = 0; i < 3; i++)
		streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
	flag = on_device(4);
	data = on_device(BYTES);
	one = pinned(sizeof(*one));
	*one = 1;
	OK(cuMemsetD32Async(flag, 0, 1, streams[0]));
	OK(LAUNCH(gate, streams[0], &flag));
	thread = new_thread(launch, NULL);
	sleep_ms(200);
	/* The two sides meet on purpose: the flag is what the kernel polls. */
	OK(cuMemcpyHtoDAsync(flag, one, 4, streams[2]));
	(void)pthread_join(thread, NULL);
	OK(cuStreamSynchronize(streams[0]));
	return 0;
}
