// SPDX-License-Identifier: MIT
/*
 * Cases: what the program may do while a large copy waits for its stream, and right after it: other threads that the stream waits for, host
 * functions that call the driver, the end of the thread that copies.
 */
#include "cases.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Long enough for a thread to be in its copy; too short is no harm, the case then tests less. */
#define A_WHILE_US 50000

static CUstream behind;
static CUdeviceptr block;
static unsigned char *bytes;

static void *copy_to_host(void *data)
{
	OK(cuCtxSetCurrent(context));
	OK(cuMemcpyDtoHAsync(bytes, block, LARGE, behind));
	return data;
}

static void *copy_to_device(void *data)
{
	OK(cuCtxSetCurrent(context));
	OK(cuMemcpyHtoDAsync(block, bytes, LARGE, behind));
	return data;
}

static pthread_t begin(void *(*copy)(void *data))
{
	pthread_t thread;

	pthread_create(&thread, NULL, copy, NULL);
	usleep(A_WHILE_US);
	return thread;
}

static void prepare(void)
{
	behind = new_stream(CU_STREAM_NON_BLOCKING);
	block = device_block(LARGE);
	bytes = pattern(LARGE, 1);
	OK(cuMemcpyHtoD(block, bytes, LARGE));
}

/* The copy's stream waits for what the main thread does only after calls on another stream, of which none waits for anything. */
static void others_go_on(void)
{
	static void *(*const copies[])(void *data) = {copy_to_host, copy_to_device};
	CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr word = device_block(4), small = device_block(SOME);
	unsigned char *some = pattern(SOME, 3);
	CUfunction function;
	CUmodule module;
	CUevent event;

	prepare();
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuFuncGetModule(&module, fill_kernel));
	for (unsigned int i = 0; i < 2; i++) {
		pthread_t thread;

		OK(cuMemsetD32(word, 0, 1));
		OK(cuStreamWaitValue32(behind, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
		thread = begin(copies[i]);
		OK(cuEventRecord(event, other));
		OK(cuMemsetD8Async(small, 7, SOME, other));
		OK(cuMemcpyDtoDAsync(small, small + SOME / 2, 64, other));
		OK(cuMemcpyDtoHAsync(some, small, 64, other));
		OK(cuModuleGetFunction(&function, module, "fill"));
		OK(cuStreamWriteValue32(other, word, 1, 0));
		pthread_join(thread, NULL);
	}
	EXPECT(is_pattern(bytes, LARGE, 1));
	EXPECT(device_is(block, LARGE, 1));
}

static CUresult told;

static void CUDA_CB call_driver(void *data)
{
	usleep(2 * A_WHILE_US);
	told = cuMemFree(*(CUdeviceptr *)data);
}

/* What the driver refuses to host functions it refuses at once. */
static void host_function_calls(void)
{
	CUdeviceptr some = device_block(SOME);

	prepare();
	OK(cuLaunchHostFunc(behind, call_driver, &some));
	OK(cuMemcpyDtoHAsync(bytes, block, LARGE, behind));
	EXPECT(told == CUDA_ERROR_NOT_PERMITTED);
}

/* Nothing of a copy to the host is left over in its stream. */
static void leaves_nothing(void)
{
	prepare();
	for (unsigned int i = 0; i < 30; i++) {
		OK(cuMemcpyDtoHAsync(bytes, block, (size_t)5 << 20, behind));
		EXPECT(cuStreamQuery(behind) == CUDA_SUCCESS);
		OK(cuMemcpyDtoH(bytes, block, (size_t)5 << 20));
		EXPECT(cuStreamQuery(NULL) == CUDA_SUCCESS);
	}
}

/* The driver's copies end with their thread as little as with its stream. */
static void cancelled(void)
{
	CUdeviceptr small = device_block(SOME);
	pthread_t thread;

	prepare();
	for (unsigned int i = 0; i < 2; i++) {
		close_gate(behind);
		thread = begin(i ? copy_to_device : copy_to_host);
		pthread_cancel(thread);
		usleep(A_WHILE_US);
		open_gate();
		pthread_join(thread, NULL);
		OK(cuStreamSynchronize(behind));
	}
	OK(cuMemFree(small));
	OK(cuMemcpyDtoH(bytes, block, LARGE));
	EXPECT(is_pattern(bytes, LARGE, 1));
}

const struct named_case between_cases[] = {
	{"others-go-on", others_go_on},
	{"host-function-calls", host_function_calls},
	{"leaves-nothing", leaves_nothing},
	{"cancelled", cancelled},
	{NULL, NULL},
};
