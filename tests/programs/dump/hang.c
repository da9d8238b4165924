// SPDX-License-Identifier: MIT
/*
 * Programs that hang, for `slipstream dump`: `hang CASE`, run by test_dump.py on the simulated driver. Each prints "ready" when all its threads are on
 * their way, and never ends.
 *
 *	lock	a thread holds the submission lock in a call that blocks in the driver (SIMCUDA_DRAIN_LOCK), a second one waits for the lock, a third
 *		drains the device, a fourth waits for a stream, and freed memory is held
 *	gate	a staged copy's pieces do not arrive (SIMCUDA_DELAY_US)
 *	idle	nothing hangs: the program sleeps
 */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../simcuda/kernels.h"
#include "../expect.h"

#define BYTES 4096
#define LARGE ((size_t)64 << 20)
#define FEW   8 /* operations after which the turn has changed */

static CUcontext context;
static CUstream blocking, loose;
static CUdeviceptr block;
static CUfunction gate;

static void begin(void)
{
	CUmodule module;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&gate, module, "gate"));
	OK(cuFuncLoad(gate));
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&loose, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&block, BYTES));
}

/* For ever. */
static void stop_stream(CUstream stream)
{
	volatile uint32_t *flag;
	CUdeviceptr word;
	void *parameters[] = {&flag};

	OK(cuMemAllocManaged(&word, 4, CU_MEM_ATTACH_GLOBAL));
	flag = (volatile uint32_t *)(uintptr_t)word;
	*flag = 0;
	OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void start(void *(*run)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		exit(1);
	usleep(200000); /* one after the other; the test waits for all of them anyway */
}

static void *wait_for_stream(void *data)
{
	OK(cuCtxSetCurrent(context));
	OK(cuStreamSynchronize(loose));
	return data;
}

static void *drain(void *data)
{
	OK(cuCtxSetCurrent(context));
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1 << 16));
	return data;
}

static void *submit(void *data)
{
	OK(cuCtxSetCurrent(context));
	OK(cuMemsetD8Async(block, 1, BYTES, NULL));
	return data;
}

/* Both kinds of streams are used, and the legacy stream's turn is the substitute's. */
static void take_turns(void)
{
	for (int i = 0; i < FEW; i++) {
		OK(cuMemsetD8Async(block, 1, BYTES, blocking));
		for (int j = 0; j < FEW; j++)
			OK(cuMemsetD8Async(block, 2, BYTES, NULL));
	}
	OK(cuStreamSynchronize(blocking));
	OK(cuStreamSynchronize(NULL));
}

/* Freed while a stream is at work; the next allocation would like one of them. */
static void hold_memory(void)
{
	CUdeviceptr device[2];
	void *pinned;

	OK(cuMemAlloc(&device[0], 1 << 20));
	OK(cuMemAllocHost(&pinned, 1 << 16));
	stop_stream(loose);
	OK(cuMemFree(device[0]));
	OK(cuMemFreeHost(pinned));
	OK(cuMemAlloc(&device[1], 1 << 20));
}

static void hang_lock(void)
{
	begin();
	take_turns();
	hold_memory();
	start(wait_for_stream);
	start(drain);
	start(submit);
	start(submit);
}

static void *copy(void *data)
{
	char *source = malloc(LARGE);
	CUdeviceptr to;

	if (!source)
		exit(1);
	memset(source, 1, LARGE);
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc(&to, LARGE));
	OK(cuMemcpyHtoD(to, source, LARGE));
	return data;
}

static void hang_gate(void)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	start(copy);
}

int main(int argc, char **argv)
{
	const char *name = argc == 2 ? argv[1] : "";

	if (!strcmp(name, "lock"))
		hang_lock();
	else if (!strcmp(name, "gate"))
		hang_gate();
	else if (!strcmp(name, "idle"))
		begin();
	else
		return 2;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
