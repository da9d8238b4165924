// SPDX-License-Identifier: MIT
/*
 * Threads that allocate, submit, and free at once (pinned memory; with an argument, device memory), on a driver whose device reads the blocks late: what it reads must be what the thread
 * wrote before it submitted. Made for the thread sanitizer, which no whole program can be run under.
 *
 * The device is a thread that does the operations of each stream in their order, at random moments. A freed block that goes back to the
 * driver is spoilt and never given out again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "fake/world.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "rewrite/short.h"
#include "state/proof.h"
#include "state/state.h"

#define THREADS 6
#define STEPS   4000
#define QUEUE   4096
#define EVENTS  64
#define BYTES   1000

struct operation {
	uint32_t *block;
	uint32_t value;
};

/* One a thread. `submitted` by its thread, `done` by the device; read by anyone. */
static struct stream {
	struct operation queue[QUEUE];
	uint64_t submitted, done;
} streams[THREADS];

static struct {
	CUstream stream;
	uint64_t number;
} recorded[EVENTS];
static uint32_t events, wrong, stop, real_frees;

static struct stream *stream_of(CUstream handle)
{
	for (int i = 0; i < THREADS; i++)
		if (handle == STREAM(i))
			return &streams[i];
	return NULL;
}

static uint64_t load(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}

static void submit(uint32_t self, uint32_t *block, uint32_t value)
{
	struct stream *stream = &streams[self];

	stream->queue[stream->submitted % QUEUE] = (struct operation){block, value};
	__atomic_store_n(&stream->submitted, stream->submitted + 1, __ATOMIC_RELEASE);
	world_launch(STREAM(self), KERNEL(0));
}

/* Submitted by another thread behind the next query's answer, and before that is looked at. */
static uint32_t *late;

static CUresult query(CUstream handle)
{
	struct stream *stream = stream_of(handle);
	uint64_t submitted = load(&stream->submitted);
	CUresult result = load(&stream->done) >= submitted ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	uint32_t *block = late;

	if (block) {
		late = NULL;
		submit(0, block, *block);
	}
	return result;
}

/* Under state's asking, one at a time, as all that asks. */
static CUresult event_create(CUevent *ret_event, unsigned int flags)
{
	assert_int_equal(flags, CU_EVENT_DISABLE_TIMING);
	*ret_event = (CUevent)(uintptr_t)++events;
	return events < EVENTS ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult event_record(CUevent event, CUstream handle)
{
	recorded[(uintptr_t)event].stream = handle;
	recorded[(uintptr_t)event].number = load(&stream_of(handle)->submitted);
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	return load(&stream_of(recorded[(uintptr_t)event].stream)->done) >=
			       recorded[(uintptr_t)event].number
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_NOT_READY;
}

/* All memory ever given out: none is unmapped under the device, or given out by malloc() again. */
static void *made[THREADS * STEPS + 10];
static uint32_t made_count;

static CUresult host_alloc(void **ret_address, size_t bytes, unsigned int flags)
{
	*ret_address = malloc(bytes);
	made[__atomic_fetch_add(&made_count, 1, __ATOMIC_RELAXED)] = *ret_address;
	return CUDA_SUCCESS;
}

static CUresult host_free(void *address)
{
	for (int i = 0; i < THREADS; i++)
		while (query(STREAM(i)) != CUDA_SUCCESS)
			sched_yield();
	__atomic_add_fetch(&real_frees, 1, __ATOMIC_RELAXED);
	__atomic_store_n((uint32_t *)address, 0xdead, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

/* The same of device memory, whose addresses are the host's here. */
static bool on_device;

static CUresult device_alloc(CUdeviceptr *ret_address, size_t bytes)
{
	void *address = NULL;
	CUresult result = host_alloc(&address, bytes, 0);

	*ret_address = (uintptr_t)address;
	return result;
}

static CUresult device_free(CUdeviceptr address)
{
	return host_free((void *)(uintptr_t)address);
}

static CUresult device_bytes(size_t *ret_bytes, CUdevice number)
{
	*ret_bytes = 800000; /* an eighth is little, so that frees go to the driver, too */
	return CUDA_SUCCESS;
}

static CUresult current_device(CUdevice *ret_number)
{
	*ret_number = 0;
	return CUDA_SUCCESS;
}

static void *device(void *data)
{
	uint64_t state = 1;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct stream *stream;
		uint64_t done;

		state = state * 6364136223846793005u + 1442695040888963407u;
		stream = &streams[(state >> 33) % THREADS];
		done = stream->done;
		if (load(&stream->submitted) > done) {
			const struct operation *operation = &stream->queue[done % QUEUE];

			if (__atomic_load_n(operation->block, __ATOMIC_RELAXED) != operation->value)
				__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
			__atomic_store_n(&stream->done, done + 1, __ATOMIC_RELEASE);
		} else {
			sched_yield();
		}
	}
	return NULL;
}

/* Pairs that went the short way, which a wrapper tries first. */
static uint64_t short_allocs, short_frees;

static uint32_t *allocate_on_device(void)
{
	struct call call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
	CUresult result = CUDA_ERROR_UNKNOWN;
	CUdeviceptr address = 0;

	state_before(&call);
	if (!rewrite_device_alloc(&call, &result, &address, BYTES))
		result = device_alloc(&address, BYTES);
	if (result != CUDA_SUCCESS)
		abort();
	state_allocated(&call, MEMORY_DEVICE, address, BYTES);
	state_after(&call, result);
	return (uint32_t *)(uintptr_t)address;
}

static uint32_t *allocate(void)
{
	struct call call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
	CUresult result = CUDA_ERROR_UNKNOWN;
	void *address = NULL;

	if (on_device)
		return allocate_on_device();
	if (short_magazine && short_host_alloc(0, &address, BYTES, 0)) {
		__atomic_fetch_add(&short_allocs, 1, __ATOMIC_RELAXED);
		return address;
	}
	state_before(&call);
	if (!rewrite_host_alloc(&call, &result, &address, BYTES, 0))
		result = host_alloc(&address, BYTES, 0);
	if (result != CUDA_SUCCESS)
		abort();
	state_allocated(&call, MEMORY_PINNED, (uintptr_t)address, BYTES);
	state_after(&call, result);
	return address;
}

static void release(uint32_t *block)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	CUresult result = CUDA_ERROR_UNKNOWN;

	if (!on_device && short_magazine && short_host_free(0, block)) {
		__atomic_fetch_add(&short_frees, 1, __ATOMIC_RELAXED);
		return;
	}
	call.subject = (uintptr_t)block;
	state_before(&call);
	state_freeing(&call, (uintptr_t)block);
	if (on_device ? !rewrite_device_free(&call, &result, (uintptr_t)block)
		      : !rewrite_host_free(&call, &result, block))
		result = host_free(block);
	if (result != CUDA_SUCCESS)
		abort();
	state_freed(&call, result);
	state_after(&call, result);
}

static void *work(void *data)
{
	uint32_t self = (uint32_t)(uintptr_t)data;
	struct stream *stream = &streams[self];
	uint64_t state = self + 7;

	world_context = 1;
	for (uint32_t i = 1; i <= STEPS; i++) {
		uint32_t *block = allocate(), value = self << 24 | i;

		__atomic_store_n(block, value, __ATOMIC_RELAXED);
		state = state * 6364136223846793005u + 1442695040888963407u;
		if (state >> 62) {
			while (stream->submitted - load(&stream->done) >= QUEUE - 1)
				sched_yield();
			submit(self, block, value);
		}
		release(block);
		if (state >> 40 & 127) /* now and then it waits for its own */
			continue;
		while (query(STREAM(self)) != CUDA_SUCCESS)
			sched_yield();
		world_synchronize(STREAM(self));
	}
	/* As the library's own handler does: others look into what a thread has on its stack. */
	state_thread_ends();
	state_thread_exit();
	return NULL;
}

/* A query covers what was submitted before it, and nothing of what was meanwhile. */
static void submit_behind_query(void)
{
	uint32_t *block = allocate();
	struct state_mark marks[4];
	uint32_t count = 0;

	*block = 1;
	submit(0, block, 1);
	release(block);
	__atomic_store_n(&streams[0].done, 1, __ATOMIC_RELEASE);
	late = block;
	assert_ptr_equal(allocate(), block);
	assert_null(late);
	assert_true(state_unfinished(marks, 4, &count));
	assert_int_equal(count, 1);
	__atomic_store_n(&streams[0].done, 2, __ATOMIC_RELEASE);
	world_synchronize(STREAM(0));
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS + 1];
	uint64_t hits;

	driver.cuStreamQuery = query;
	driver.cuEventCreate = event_create;
	driver.cuEventRecord = event_record;
	driver.cuEventQuery = event_query;
	driver.cuMemHostAlloc = host_alloc;
	driver.cuMemFreeHost = host_free;
	driver.cuMemAlloc_v2 = device_alloc;
	driver.cuMemFree_v2 = device_free;
	driver.cuDeviceTotalMem_v2 = device_bytes;
	driver.cuCtxGetDevice = current_device;
	config.mode = CONFIG_FIX;
	config.fix = on_device ? CONFIG_FIX_FREES : CONFIG_FIX_PINNED;
	config.relax = CONFIG_RELAX_FREE;
	rewrite_start();
	pool_start(POOL_PINNED, 100000); /* small, so that frees go to the driver, too */
	for (uintptr_t i = 0; i < THREADS; i++)
		world_create_stream(STREAM(i), CU_STREAM_NON_BLOCKING);
	submit_behind_query();
	pthread_create(&threads[THREADS], NULL, device, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		while (query(STREAM(i)) != CUDA_SUCCESS)
			sched_yield();
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(threads[THREADS], NULL);
	hits = on_device ? counts_frees->hits : counts->hits;
	printf("%llu and %llu of %d allocations from freed blocks, the long and the short way; "
	       "%llu frees the short way, %llu events, %llu queries, %u freed by the driver\n",
	       (unsigned long long)hits, (unsigned long long)short_allocs, THREADS * STEPS,
	       (unsigned long long)short_frees, (unsigned long long)counts->events,
	       (unsigned long long)counts->queries, real_frees);
	assert_null(state_objection());
	assert_int_equal(wrong, 0);
	assert_true(hits + short_allocs > STEPS);
	assert_true(on_device || (short_allocs > 0 && short_frees > 0));
	assert_true(counts->events > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_threads, world_begin),
	};

	on_device = argc > 1;
	return cmocka_run_group_tests_name(on_device ? "rewrite-threads-device" : "rewrite-threads",
					   tests, NULL, NULL);
}
