// SPDX-License-Identifier: MIT
/* Beside S03, L06, L10, L11, L15 and L17: queries with time between, gates that another thread opens, attributes set in time, memory that is not there. */
#include "calls.h"

static void queries_with_sleep(void)
{
	spin_on(first, 60 * BUSY);
	while (cuStreamQuery(first) == CUDA_ERROR_NOT_READY)
		sleep_ms(1);
}

static void queries_with_work(void)
{
	spin_on(first, BUSY);
	for (int i = 0; i < 1000 && cuStreamQuery(first) == CUDA_ERROR_NOT_READY; i++)
		spin_on(second, 0);
	OK(cuStreamSynchronize(first));
	OK(cuStreamSynchronize(second));
}

static void queries_that_say_done(void)
{
	for (int i = 0; i < 2000; i++)
		OK(cuStreamQuery(first));
}

static void few_queries(void)
{
	spin_on(first, BUSY);
	for (int i = 0; i < 100; i++)
		(void)cuStreamQuery(first);
	OK(cuStreamSynchronize(first));
}

static uint32_t *gate;

static void close_gate(CUstream stream)
{
	gate = pinned(sizeof(*gate));
	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static void *open_gate(void *unused)
{
	(void)unused;
	sleep_ms(100);
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void gate_of_another_thread(void)
{
	pthread_t thread;

	close_gate(first);
	thread = new_thread(open_gate, NULL);
	OK(cuStreamSynchronize(first));
	(void)pthread_join(thread, NULL);
}

static void queue_full_for_a_while(void)
{
	for (int i = 1; i <= 4096; i++) {
		spin_on(first, 0);
		if (i % 512 == 0)
			OK(cuStreamSynchronize(first));
	}
}

static void sync_memops_at_once(void)
{
	CUpointer_attribute sync_memops = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	unsigned int on = 1;

	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr memory = on_device(BYTES);

		OK(cuPointerSetAttribute(&on, sync_memops, memory));
		OK(cuMemsetD8Async(memory, 0, BYTES, first));
		OK(cuStreamSynchronize(first));
	}
}

static void first_launch_at_start(void)
{
	unsigned long bytes = BYTES;
	CUfunction late = own_unloaded("copy");

	OK(LAUNCH(late, first, &result, &data, &bytes));
	OK(cuStreamSynchronize(first));
}

static void no_memory_at_all(void)
{
	size_t available, total;
	CUdeviceptr memory;

	OK(cuMemGetInfo(&available, &total));
	if (cuMemAlloc(&memory, total * 2) != CUDA_ERROR_OUT_OF_MEMORY)
		exit(1);
}

static void expect_no_memory(size_t bytes)
{
	CUdeviceptr memory;

	if (cuMemAlloc(&memory, bytes) != CUDA_ERROR_OUT_OF_MEMORY)
		exit(1);
}

/* The pool gave it back, and the program took it. */
static void pool_waited_for(void)
{
	size_t available, total, bytes;
	CUdeviceptr memory;

	OK(cuMemGetInfo(&available, &total));
	bytes = available / 10 * 6;
	OK(cuMemAllocAsync(&memory, bytes, first));
	OK(cuMemFreeAsync(memory, first));
	OK(cuStreamSynchronize(first));
	OK(cuMemAlloc(&memory, bytes));
	expect_no_memory(bytes);
	OK(cuMemFree(memory));
}

/* The pool gave it out again. */
static void pool_used_again(void)
{
	size_t available, total, bytes;
	CUdeviceptr memory;

	OK(cuMemGetInfo(&available, &total));
	bytes = available / 10 * 6;
	OK(cuMemAllocAsync(&memory, bytes, first));
	OK(cuMemFreeAsync(memory, first));
	OK(cuMemAllocAsync(&memory, bytes, first));
	expect_no_memory(bytes);
	OK(cuMemFreeAsync(memory, first));
	OK(cuStreamSynchronize(first));
}

static void given_back_on(CUcontext other)
{
	size_t available, total;
	CUdeviceptr memory;
	CUstream stream;

	OK(cuCtxPushCurrent(other));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemGetInfo(&available, &total));
	OK(cuMemAllocAsync(&memory, available / 10 * 6, stream));
	OK(cuMemFreeAsync(memory, stream));
	OK(cuCtxPopCurrent(NULL));
}

/* What another device's pool holds is no help. */
static void pool_of_another_device(void)
{
	size_t available, total, bytes;
	CUdeviceptr memory;
	CUcontext other;
	CUdevice device;

	OK(cuDeviceGet(&device, 1));
	OK(cuDevicePrimaryCtxRetain(&other, device));
	OK(cuMemGetInfo(&available, &total));
	bytes = available / 10 * 6;
	OK(cuMemAlloc(&memory, bytes));
	given_back_on(other);
	expect_no_memory(bytes);
	OK(cuMemFree(memory));
}

static void pool_holds_less(void)
{
	size_t available, total;
	CUdeviceptr memory;

	OK(cuMemGetInfo(&available, &total));
	OK(cuMemAllocAsync(&memory, BYTES, first));
	OK(cuMemFreeAsync(memory, first));
	if (cuMemAlloc(&memory, total * 2) != CUDA_ERROR_OUT_OF_MEMORY)
		exit(1);
	OK(cuStreamSynchronize(first));
}

const struct named clean_waits[] = {
	{"queries-with-sleep", queries_with_sleep},
	{"queries-with-work", queries_with_work},
	{"queries-that-say-done", queries_that_say_done},
	{"few-queries", few_queries},
	{"gate-of-another-thread", gate_of_another_thread},
	{"queue-full-for-a-while", queue_full_for_a_while},
	{"sync-memops-at-once", sync_memops_at_once},
	{"first-launch-at-start", first_launch_at_start},
	{"no-memory-at-all", no_memory_at_all},
	{"pool-waited-for", pool_waited_for},
	{"pool-used-again", pool_used_again},
	{"pool-of-another-device", pool_of_another_device},
	{"pool-holds-less", pool_holds_less},
	{NULL, NULL},
};
