// SPDX-License-Identifier: MIT
/*
 * Cases: copies, allocations and attributes of the legacy stream, and calls that are refused.
 */
#include "cases.h"

#include <string.h>

static CUstream a;

static void start(void)
{
	a = new_stream('a', CU_STREAM_DEFAULT);
	mix(a);
}

static int get_policy(CUstream stream)
{
	CUstreamAttrValue value;

	memset(&value, 0, sizeof(value));
	OK(cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	return (int)value.syncPolicy;
}

static void attributes(void)
{
	CUstreamAttrValue value;

	memset(&value, 0, sizeof(value));
	start();
	value.syncPolicy = CU_SYNC_POLICY_YIELD;
	begin();
	SAY(cuStreamSetAttribute(NULL, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	step(NULL, 0);
	step(NULL, 0);
	SAY(cuStreamCopyAttributes(a, NULL));
	SAY(cuStreamCopyAttributes(CU_STREAM_LEGACY, a));
	step(NULL, 0);
	end();
	printf("policy %d %d\n", get_policy(NULL), get_policy(a));
	say_words();
}

/* Copies that never wait go along; those that may, by the kinds of their memory, do not. */
static void copies(void)
{
	CUdeviceptr block, waiting;
	unsigned char pageable[64];
	int on = 1;
	void *pinned;

	start();
	OK(cuMemAlloc(&block, 4096));
	OK(cuMemAlloc(&waiting, 4096));
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, waiting));
	OK(cuMemHostAlloc(&pinned, 4096, 0));
	memset(pinned, 3, 4096);
	memset(pageable, 4, sizeof(pageable));
	step(a, 1);
	begin();
	OK(cuMemcpyHtoDAsync(block, pinned, 64, NULL));
	OK(cuMemcpyDtoDAsync(block + 64, block, 64, NULL));
	OK(cuMemsetD8Async(block + 128, 5, 64, NULL));
	OK(cuMemcpyDtoHAsync((char *)pinned + 1024, block, 192, NULL));
	step(a, 1);
	OK(cuMemsetD8Async((CUdeviceptr)(uintptr_t)pinned + 2048, 6, 64, NULL));
	OK(cuMemcpyHtoDAsync(block, pageable, 64, NULL));
	step(a, 1);
	OK(cuMemcpyDtoH(pageable, block, 64));
	OK(cuMemcpyDtoDAsync(waiting, block, 64, NULL));
	end();
	step(NULL, 0);
	OK(cuStreamSynchronize(NULL));
	for (int i = 0; i < 192; i++)
		EXPECT(((unsigned char *)pinned)[1024 + i] == (i < 128 ? 3 : 5));
	for (int i = 0; i < 64; i++)
		EXPECT(pageable[i] == 4);
	say_words();
}

/* Synchronous calls on the legacy stream wait for what is on its substitute. */
static void synchronous_calls(void)
{
	unsigned char bytes[64];
	uint64_t value[WORDS];

	start();
	for (int i = 0; i < 20; i++) {
		step(a, 1);
		step(NULL, 0);
		OK(cuMemcpyDtoH(value, word, sizeof(value)));
		printf("%016llx %016llx\n", (unsigned long long)value[0],
		       (unsigned long long)value[1]);
		step(NULL, 0);
		memset(bytes, i, sizeof(bytes));
		OK(cuMemcpyHtoD(word + 256, bytes, sizeof(bytes)));
		OK(cuMemsetD32(word + 512, (unsigned int)i, 4));
		step(a, 1);
		OK(cuMemcpyDtoD(word + 320, word, 8));
		OK(cuMemcpyDtoH(value, word + 320, 8));
		printf("%016llx\n", (unsigned long long)value[0]);
	}
	say_words();
}

static void allocations(void)
{
	CUdeviceptr block;

	start();
	step(a, 1);
	begin();
	OK(cuMemAllocAsync(&block, 4096, NULL));
	OK(cuMemsetD8Async(block, 7, 4096, NULL));
	step(NULL, 0);
	OK(cuMemFreeAsync(block, NULL));
	step(a, 1);
	end();
	say_words();
}

/* Calls that the driver refuses are refused, and leave order as it was. */
static void refused_calls(void)
{
	CUevent event;
	CUstream gone = new_stream('g', CU_STREAM_DEFAULT);
	CUcontext other;

	start();
	OK(cuStreamDestroy(gone));
	step(a, 1);
	SAY(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	SAY(cuEventRecord(NULL, NULL));
	SAY(cuStreamWaitEvent(NULL, NULL, 0));
	SAY(cuMemcpyDtoDAsync(word, 64, 8, NULL));
	SAY(cuStreamWriteValue32(NULL, 64, 1, 0));
	SAY(cuLaunchHostFunc(NULL, NULL, NULL));
	SAY(cuGraphLaunch(NULL, NULL));
	OK(cuCtxCreate(&other, NULL, 0, 0));
	OK(cuEventCreate(&event, 0));
	OK(cuCtxSetCurrent(context));
	SAY(cuEventRecord(event, NULL));
	SAY(cuStreamWaitEvent(NULL, event, 7));
	step(NULL, 0);
	step(a, 1);
	close_gate(NULL, 1);
	SAY(cuLaunchKernel(hash_kernel, 1, 1, 1, 1, 1, 1, 0, gone, NULL, NULL));
	SAY(cuStreamQuery(gone));
	open_gate(1);
	say_words();
}

const struct named_case memory_cases[] = {
	{"attributes-reach-the-substitute", attributes},
	{"copies-that-never-wait-go-along", copies},
	{"synchronous-calls-see-all-before", synchronous_calls},
	{"allocations-in-order", allocations},
	{"refused-calls-leave-order", refused_calls},
	{NULL, NULL},
};
