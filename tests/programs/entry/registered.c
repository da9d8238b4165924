// SPDX-License-Identifier: MIT
/*
 * Registers host memory twice and in parts, and copies across its end; prints every status and the bytes that
 * arrived. run.py compares with and without the shim. Runs on the simulated driver.
 */
#include "entry_test.h"

#define CALL(name, ...) printf(#name " %d\n", name(__VA_ARGS__))
#define PAGE            4096

static unsigned char host[8 * PAGE] __attribute__((aligned(PAGE)));
static CUdeviceptr memory;

/* A copy of two pages from there, and what the device has then. */
static void copy(size_t from)
{
	unsigned char back[2 * PAGE];

	memset(back, 0, sizeof(back));
	for (size_t i = 0; i < 2 * PAGE; i++)
		host[from + i] = (unsigned char)(from / PAGE + i / 7);
	CALL(cuMemcpyHtoD, memory, host + from, 2 * PAGE);
	CALL(cuMemcpyHtoDAsync, memory, host + from, 2 * PAGE, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemcpyDtoH, back, memory, 2 * PAGE);
	printf("bytes %d\n", memcmp(back, host + from, 2 * PAGE) == 0);
}

static void twice(void)
{
	CALL(cuMemHostRegister, host, 4 * PAGE, 0);
	CALL(cuMemHostRegister, host, 4 * PAGE, 0);
	CALL(cuMemHostRegister, host + PAGE, PAGE, 0);
	CALL(cuMemHostRegister, host + 3 * PAGE, 2 * PAGE, 0);
	copy(PAGE);
	CALL(cuMemHostUnregister, host + PAGE);
	CALL(cuMemHostUnregister, host);
	CALL(cuMemHostUnregister, host);
	copy(PAGE);
	CALL(cuMemHostRegister, host, 4 * PAGE, 0);
	copy(PAGE);
	CALL(cuMemHostUnregister, host);
}

static void across(void)
{
	CALL(cuMemHostRegister, host + 2 * PAGE, 2 * PAGE, 0);
	copy(2 * PAGE); /* within */
	copy(3 * PAGE); /* over its end */
	copy(PAGE);     /* over its beginning */
	copy(5 * PAGE); /* outside */
	CALL(cuMemHostUnregister, host + 2 * PAGE);
}

int main(int argc, char **argv)
{
	CUcontext context = NULL;
	CUdevice device = 0;

	CALL(cuInit, 0);
	CALL(cuDeviceGet, &device, 0);
	CALL(cuDevicePrimaryCtxRetain, &context, device);
	CALL(cuCtxSetCurrent, context);
	CALL(cuMemAlloc, &memory, 2 * PAGE);
	if (argc > 1 && !strcmp(argv[1], "twice"))
		twice();
	else if (argc > 1 && !strcmp(argv[1], "across"))
		across();
	else
		return 2;
	return 0;
}
