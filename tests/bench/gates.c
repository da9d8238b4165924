// SPDX-License-Identifier: MIT
/*
 * What a closed gate (a stream's wait for a value that is written later, by another stream) can hold up: `gates`. Two questions to the driver,
 * on which large staged copies stand (shim/stage/stage.h):
 *
 * 1. While a call of another thread waits for the device, and so for the gate: can this thread still submit to another stream? Each such
 *    call has a line: the longest that a submission took, or HELD UP, if it was over only when the gate was opened by hand.
 * 2. Streams that wait for what lies behind the gate: from how many on does the other stream stand behind one of them, in a queue of the
 *    hardware? For ordinary streams and for ones of the highest priority, the other stream being one of the highest.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../tools/kernels/kernels.h"

#define HELD_UP_NS 500000000
#define BYTES      (1 << 20)
#define LARGE      (64 << 20)
#define WAITERS    256

#define CALLS(X)                                                                                   \
	X(cuInit)                                                                                  \
	X(cuDevicePrimaryCtxRetain)                                                                \
	X(cuCtxSetCurrent)                                                                         \
	X(cuCtxSynchronize)                                                                        \
	X(cuCtxGetStreamPriorityRange)                                                             \
	X(cuCtxSetLimit)                                                                           \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemFree_v2)                                                                            \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemFreeHost)                                                                           \
	X(cuMemHostRegister_v2)                                                                    \
	X(cuMemHostUnregister)                                                                     \
	X(cuMemcpyHtoD_v2)                                                                         \
	X(cuMemcpyHtoDAsync_v2)                                                                    \
	X(cuMemcpyDtoHAsync_v2)                                                                    \
	X(cuMemcpyDtoH_v2)                                                                         \
	X(cuMemsetD8_v2)                                                                           \
	X(cuArrayCreate_v2)                                                                        \
	X(cuArrayDestroy)                                                                          \
	X(cuModuleGetFunction)                                                                     \
	X(cuLaunchKernel)                                                                          \
	X(cuModuleLoadData)                                                                        \
	X(cuModuleUnload)                                                                          \
	X(cuStreamCreateWithPriority)                                                              \
	X(cuStreamDestroy_v2)                                                                      \
	X(cuStreamQuery)                                                                           \
	X(cuStreamSynchronize)                                                                     \
	X(cuStreamWaitEvent)                                                                       \
	X(cuStreamWaitValue32_v2)                                                                  \
	X(cuStreamWriteValue32_v2)                                                                 \
	X(cuEventCreate)                                                                           \
	X(cuEventRecord)                                                                           \
	X(cuEventQuery)                                                                            \
	X(cuEventSynchronize)

#define MEMBER(name) __typeof__(&name) name;
static struct {
	CALLS(MEMBER)
} cuda;

static CUcontext context;
static CUstream held, other; /* behind the gate; the one that opens it */
static CUdeviceptr device, large;
static void *pinned;
static volatile uint32_t *gate; /* pinned: opened by any number not below `number` */
static uint32_t number;

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "gates: %s: %d\n", what, (int)result);
	exit(1);
}

#define DO(call) check(cuda.call, #call)

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static bool find_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		return false;
#define FIND(name)                                                                                 \
	{                                                                                          \
		void *symbol = dlsym(library, #name);                                              \
                                                                                                   \
		if (!symbol) {                                                                     \
			fprintf(stderr, "gates: no %s\n", #name);                                  \
			exit(1);                                                                   \
		}                                                                                  \
		memcpy(&cuda.name, &symbol, sizeof(symbol));                                       \
	}
	CALLS(FIND)
	return true;
}

/* ---- calls that wait ---- */

static void *memory;
static CUmodule module;
static CUstream spare;
static CUevent behind;

static void prepare_nothing(void)
{
}

static void prepare_device(void)
{
	CUdeviceptr made;

	DO(cuMemAlloc_v2(&made, BYTES));
	memory = (void *)(uintptr_t)made;
}

static void prepare_pinned(void)
{
	DO(cuMemHostAlloc(&memory, BYTES, 0));
}

static void prepare_ordinary(void)
{
	memory = aligned_alloc(4096, BYTES);
	memset(memory, 1, BYTES);
}

static void prepare_registered(void)
{
	prepare_ordinary();
	DO(cuMemHostRegister_v2(memory, BYTES, 0));
}

static void prepare_module(void)
{
	DO(cuModuleLoadData(&module, KERNELS_SPIN));
}

static void prepare_stream(void)
{
	DO(cuStreamCreateWithPriority(&spare, CU_STREAM_NON_BLOCKING, 0));
}

static CUresult free_device(void)
{
	return cuda.cuMemFree_v2((CUdeviceptr)(uintptr_t)memory);
}

static CUresult free_pinned(void)
{
	return cuda.cuMemFreeHost(memory);
}

static CUresult unregister(void)
{
	return cuda.cuMemHostUnregister(memory);
}

static CUresult allocate_device(void)
{
	return cuda.cuMemAlloc_v2(&(CUdeviceptr){0}, 64 << 20);
}

static CUresult allocate_pinned(void)
{
	return cuda.cuMemHostAlloc(&memory, BYTES, 0);
}

static CUresult register_memory(void)
{
	return cuda.cuMemHostRegister_v2(memory, BYTES, 0);
}

static CUresult synchronize_context(void)
{
	return cuda.cuCtxSynchronize();
}

static CUresult synchronize_stream(void)
{
	return cuda.cuStreamSynchronize(held);
}

static CUresult synchronize_event(void)
{
	return cuda.cuEventSynchronize(behind);
}

static CUresult copy_pageable(void)
{
	return cuda.cuMemcpyHtoDAsync_v2(device, memory, BYTES, held);
}

static CUresult copy_back(void)
{
	return cuda.cuMemcpyDtoHAsync_v2(memory, device, BYTES, held);
}

static CUresult copy_sync(void)
{
	return cuda.cuMemcpyHtoD_v2(device, memory, BYTES);
}

static CUarray array;

static void prepare_array(void)
{
	const CUDA_ARRAY_DESCRIPTOR described = {
		.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};

	DO(cuArrayCreate_v2(&array, &described));
}

static CUresult destroy_array(void)
{
	return cuda.cuArrayDestroy(array);
}

static void prepare_large(void)
{
	memory = aligned_alloc(4096, LARGE);
	memset(memory, 1, LARGE);
}

static CUresult copy_large(void)
{
	return cuda.cuMemcpyHtoDAsync_v2(large, memory, LARGE, held);
}

static CUresult copy_back_sync(void)
{
	return cuda.cuMemcpyDtoH_v2(memory, device, BYTES);
}

static CUresult set_pinned(void)
{
	return cuda.cuMemsetD8_v2((CUdeviceptr)(uintptr_t)memory, 1, BYTES);
}

static CUfunction spin;

static void prepare_launches(void)
{
	DO(cuModuleLoadData(&module, KERNELS_SPIN));
	DO(cuModuleGetFunction(&spin, module, "spin"));
}

/* More than any queue holds. */
static CUresult fill_queue(void)
{
	uint64_t nanoseconds = 1;
	void *arguments[] = {&nanoseconds};
	CUresult result = CUDA_SUCCESS;

	for (int i = 0; i < 5000 && result == CUDA_SUCCESS; i++)
		result = cuda.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, held, arguments, NULL);
	return result;
}

static CUresult fill_queue_with_events(void)
{
	CUresult result = CUDA_SUCCESS;

	for (int i = 0; i < 5000 && result == CUDA_SUCCESS; i++)
		result = cuda.cuEventRecord(behind, held);
	return result;
}

static CUresult load_module(void)
{
	return cuda.cuModuleLoadData(&module, KERNELS_SPIN);
}

static CUresult unload_module(void)
{
	return cuda.cuModuleUnload(module);
}

static CUresult destroy_stream(void)
{
	return cuda.cuStreamDestroy_v2(spare);
}

static CUresult set_limit(void)
{
	static size_t bytes = 2048;

	return cuda.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, bytes += 1024);
}

static const struct waiting_call {
	const char *name;
	void (*prepare)(void);
	CUresult (*call)(void);
} calls[] = {
	{"cuMemFree", prepare_device, free_device},
	{"cuMemFreeHost", prepare_pinned, free_pinned},
	{"cuMemHostUnregister", prepare_registered, unregister},
	{"cuMemAlloc", prepare_nothing, allocate_device},
	{"cuMemHostAlloc", prepare_nothing, allocate_pinned},
	{"cuMemHostRegister", prepare_ordinary, register_memory},
	{"cuCtxSynchronize", prepare_nothing, synchronize_context},
	{"cuStreamSynchronize", prepare_nothing, synchronize_stream},
	{"cuEventSynchronize", prepare_nothing, synchronize_event},
	{"cuMemcpyHtoDAsync", prepare_ordinary, copy_pageable},
	{"cuMemcpyDtoHAsync", prepare_ordinary, copy_back},
	{"cuMemcpyHtoD (legacy)", prepare_ordinary, copy_sync},
	{"cuMemcpyHtoDAsync, 64 MiB", prepare_large, copy_large},
	{"cuMemcpyDtoH (legacy)", prepare_ordinary, copy_back_sync},
	{"cuMemsetD8, pinned", prepare_pinned, set_pinned},
	{"cuArrayDestroy", prepare_array, destroy_array},
	{"cuLaunchKernel, 5000", prepare_launches, fill_queue},
	{"cuEventRecord, 5000", prepare_nothing, fill_queue_with_events},
	{"cuModuleLoadData", prepare_nothing, load_module},
	{"cuModuleUnload", prepare_module, unload_module},
	{"cuStreamDestroy", prepare_stream, destroy_stream},
	{"cuCtxSetLimit", prepare_nothing, set_limit},
};

static uint32_t returned, over;
static CUresult status;

static void *make_call(void *data)
{
	const struct waiting_call *call = data;

	DO(cuCtxSetCurrent(context));
	status = call->call();
	__atomic_store_n(&returned, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Opens the gate if the question is not over in time. */
static void *watch(void *opened)
{
	uint64_t end = now() + HELD_UP_NS;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		if (now() > end) {
			*(bool *)opened = true;
			*gate = number;
			return NULL;
		}
		usleep(1000);
	}
	return NULL;
}

static void close_gate(void)
{
	number++;
	DO(cuStreamWaitValue32_v2(held, (CUdeviceptr)(uintptr_t)gate, number,
				  CU_STREAM_WAIT_VALUE_GEQ));
	DO(cuEventRecord(behind, held));
}

static void ask_about(const struct waiting_call *call)
{
	pthread_t caller, watcher;
	uint64_t begin, longest = 0;
	bool opened = false, waited;
	CUevent event;

	DO(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	call->prepare();
	DO(cuCtxSynchronize());
	close_gate();
	returned = over = 0;
	pthread_create(&watcher, NULL, watch, &opened);
	pthread_create(&caller, NULL, make_call, (void *)(uintptr_t)call);
	usleep(5000);
	waited = !__atomic_load_n(&returned, __ATOMIC_ACQUIRE);
	for (int i = 0; i < 20; i++) {
#define TIMED(what)                                                                                \
	begin = now();                                                                             \
	what;                                                                                      \
	begin = now() - begin;                                                                     \
	longest = begin > longest ? begin : longest
		TIMED(DO(cuMemcpyHtoDAsync_v2(device, pinned, BYTES, other)));
		TIMED(DO(cuStreamWriteValue32_v2(other, (CUdeviceptr)(uintptr_t)gate + 64, 1, 0)));
		TIMED(DO(cuEventRecord(event, other)));
		TIMED(cuda.cuEventQuery(event));
		TIMED(cuda.cuStreamQuery(other));
	}
	TIMED(DO(cuStreamWriteValue32_v2(other, (CUdeviceptr)(uintptr_t)gate, number, 0)));
	pthread_join(caller, NULL);
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	pthread_join(watcher, NULL);
	printf("  %-26s %s, status %d: %s%.1f us\n", call->name, waited ? "waits" : "does not wait",
	       (int)status, opened ? "HELD UP, " : "", (double)longest / 1000);
	fflush(stdout);
	DO(cuCtxSynchronize());
}

/* ---- queues of the hardware ---- */

static void ask_about_queues(int priority, const char *what)
{
	static CUstream waiters[WAITERS];
	unsigned int count, made = 0, i;

	for (count = 1; count <= WAITERS; count *= 2) {
		CUevent moved;
		bool stuck;
		uint64_t end;

		for (; made < count; made++)
			DO(cuStreamCreateWithPriority(&waiters[made], CU_STREAM_NON_BLOCKING,
						      priority));
		DO(cuEventCreate(&moved, CU_EVENT_DISABLE_TIMING));
		DO(cuCtxSynchronize());
		close_gate();
		for (i = 0; i < count; i++) {
			DO(cuStreamWaitEvent(waiters[i], behind, 0));
			DO(cuMemcpyHtoDAsync_v2(device, pinned, 64, waiters[i]));
		}
		DO(cuMemcpyHtoDAsync_v2(device, pinned, BYTES, other));
		DO(cuEventRecord(moved, other));
		end = now() + HELD_UP_NS / 4;
		while (cuda.cuEventQuery(moved) == CUDA_ERROR_NOT_READY && now() < end)
			;
		stuck = cuda.cuEventQuery(moved) == CUDA_ERROR_NOT_READY;
		*gate = number;
		DO(cuCtxSynchronize());
		printf("  %3u %s streams wait behind the gate: %s\n", count, what,
		       stuck ? "the other stream is STUCK" : "the other stream moves");
		fflush(stdout);
		if (stuck)
			break;
	}
	for (i = 0; i < made; i++)
		DO(cuStreamDestroy_v2(waiters[i]));
}

int main(void)
{
	int least, greatest;

	if (!find_driver()) {
		fprintf(stderr, "gates: no libcuda.so.1\n");
		return 77;
	}
	DO(cuInit(0));
	DO(cuDevicePrimaryCtxRetain(&context, 0));
	DO(cuCtxSetCurrent(context));
	DO(cuCtxGetStreamPriorityRange(&least, &greatest));
	DO(cuStreamCreateWithPriority(&held, CU_STREAM_DEFAULT, least));
	DO(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, greatest));
	DO(cuMemAlloc_v2(&device, BYTES));
	DO(cuMemAlloc_v2(&large, LARGE));
	DO(cuMemHostAlloc(&pinned, BYTES, CU_MEMHOSTALLOC_PORTABLE));
	DO(cuMemHostAlloc((void **)(uintptr_t)&gate, 4096, CU_MEMHOSTALLOC_PORTABLE));
	*gate = 0;
	DO(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
	printf("a call waits for the device, another thread submits:\n");
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		ask_about(&calls[i]);
	printf("priorities %d to %d:\n", least, greatest);
	ask_about_queues(least, "ordinary");
	ask_about_queues(greatest, "high");
	return 0;
}
