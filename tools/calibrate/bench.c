// SPDX-License-Identifier: MIT
/*
 * The bench: contexts, streams, the busy kernel and the gate, and one timed run of a cell. Used by
 * measure.c, facts.c and the table test; relies on gpu.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "../kernels/kernels.h"
#include "cells.h"
#include "gpu.h"

/* ns: a call not back by then waits for the gate, even on a busy machine. */
#define GATE_WAIT UINT64_C(100000000)

uint64_t bench_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int bench_open(struct bench *bench, enum bench_variant variant)
{
	CUctxCreateParams none = {0};
	void *word;

	*bench = (struct bench){.stack_limit = 1024};
	TRY(gpu.cuInit(0));
	TRY(gpu.cuDeviceGet(&bench->device, 0));
	if (variant == BENCH_SCHEDULE_BLOCKING)
		TRY(gpu.cuDevicePrimaryCtxSetFlags(bench->device, CU_CTX_SCHED_BLOCKING_SYNC));
	TRY(gpu.cuDevicePrimaryCtxRetain(&bench->kernel_context, bench->device));
	TRY(gpu.cuCtxSetCurrent(bench->kernel_context));
	TRY(gpu.cuModuleLoadData(&bench->module, KERNELS_SPIN));
	TRY(gpu.cuModuleGetFunction(&bench->spin, bench->module, "spin"));
	TRY(gpu.cuStreamCreate(&bench->stream[BENCH_BLOCKING], CU_STREAM_DEFAULT));
	TRY(gpu.cuStreamCreate(&bench->stream[BENCH_NON_BLOCKING], CU_STREAM_NON_BLOCKING));
	bench->context = bench->kernel_context;
	bench->call_stream = bench->stream[BENCH_NON_BLOCKING];

	TRY(gpu.cuMemHostAlloc(&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	TRY(gpu.cuMemHostGetDevicePointer(&bench->gate_device, word, 0));
	bench->gate = word;
	*bench->gate = 0;

	/* The first launch loads the kernel: not to be met inside a timed cell. */
	for (int i = 0; i < BENCH_STREAMS; i++)
		TRY(bench_kernel(bench, i, 1000));
	TRY(gpu.context_synchronize());

	if (variant == BENCH_SECOND_CONTEXT) {
		TRY(gpu.cuCtxCreate(&bench->context, &none, 0, bench->device));
		TRY(gpu.cuStreamCreate(&bench->call_stream, CU_STREAM_NON_BLOCKING));
	}
	TRY(gpu.cuStreamCreate(&bench->observer[BENCH_BLOCKING], CU_STREAM_DEFAULT));
	TRY(gpu.cuStreamCreate(&bench->observer[BENCH_NON_BLOCKING], CU_STREAM_NON_BLOCKING));
	TRY(gpu.cuEventCreate(&bench->observed, CU_EVENT_DISABLE_TIMING));
	return 0;
}

CUresult bench_kernel(struct bench *bench, enum bench_stream stream, uint64_t ns)
{
	void *arguments[] = {&ns};

	return gpu.cuLaunchKernel(bench->spin, 1, 1, 1, 1, 1, 1, 0, bench->stream[stream],
				  arguments, NULL);
}

CUresult bench_park(struct bench *bench, enum bench_stream stream)
{
	bench->gate_value++;
	return gpu.cuStreamWaitValue32(bench->stream[stream], bench->gate_device, bench->gate_value,
				       CU_STREAM_WAIT_VALUE_GEQ);
}

void bench_open_gate(struct bench *bench)
{
	*bench->gate = bench->gate_value;
}

CUresult bench_idle(struct bench *bench)
{
	CUresult result = gpu.context_synchronize();

	if (result || bench->context == bench->kernel_context)
		return result;
	result = gpu.cuCtxSetCurrent(bench->kernel_context);
	if (!result)
		result = gpu.context_synchronize();
	if (!result)
		result = gpu.cuCtxSetCurrent(bench->context);
	return result;
}

CUresult cell_run(struct bench *bench, const struct cell *cell, enum bench_stream stream,
		  uint64_t kernel_ns, uint64_t *ret_ns)
{
	bool two = bench->context != bench->kernel_context;
	CUresult result = CUDA_SUCCESS, called;
	uint64_t begin;

	if (cell->before)
		result = cell->before(bench, cell);
	if (!result)
		result = bench_idle(bench);
	if (result)
		return result;
	if (kernel_ns) {
		if (two)
			result = gpu.cuCtxSetCurrent(bench->kernel_context);
		if (!result)
			result = bench_kernel(bench, stream, kernel_ns);
		if (!result && two)
			result = gpu.cuCtxSetCurrent(bench->context);
		if (result)
			return result;
	}

	if (bench->around)
		bench->around(true);
	begin = bench_now();
	called = cell->call(bench, cell);
	*ret_ns = bench_now() - begin;
	if (bench->around)
		bench->around(false);

	result = bench_idle(bench);
	if (called)
		return called;
	if (!result && cell->after)
		result = cell->after(bench, cell);
	return result;
}

struct gate_call {
	struct bench *bench;
	const struct cell *cell;
	CUresult result;
	atomic_bool done; /* written by the calling thread, read by the one that holds the gate */
};

static void *gate_thread(void *argument)
{
	struct gate_call *call = argument;

	call->result = gpu.cuCtxSetCurrent(call->bench->context);
	if (!call->result)
		call->result = call->cell->call(call->bench, call->cell);
	/* Release: pairs with the acquire in wait_done(), which then reads result. */
	atomic_store_explicit(&call->done, true, memory_order_release);
	return NULL;
}

static bool wait_done(struct gate_call *call, uint64_t ns)
{
	uint64_t begin = bench_now();
	struct timespec pause = {.tv_nsec = 20000};

	while (bench_now() - begin < ns) {
		if (atomic_load_explicit(&call->done, memory_order_acquire))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* Whether new work on an observer stream stays behind the gate. */
static CUresult held_back(struct bench *bench, enum bench_stream kind, int *ret_held)
{
	struct timespec pause = {.tv_nsec = 2000000};
	CUresult result;

	result = gpu.cuMemsetD8Async(bench->device_buffer[1], 0, 16, bench->observer[kind]);
	if (!result)
		result = gpu.cuEventRecord(bench->observed, bench->observer[kind]);
	if (result)
		return result;
	nanosleep(&pause, NULL);
	result = gpu.cuEventQuery(bench->observed);
	*ret_held = result == CUDA_ERROR_NOT_READY;
	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult cell_gate(struct bench *bench, const struct cell *cell, enum bench_stream stream,
		   struct cell_gate *ret_gate)
{
	struct gate_call call = {.bench = bench, .cell = cell};
	CUresult result = CUDA_SUCCESS;
	pthread_t thread;

	*ret_gate = (struct cell_gate){.joins_blocking = -1, .joins_non_blocking = -1};
	if (!bench->device_buffer[1])
		result = gpu.cuMemAlloc(&bench->device_buffer[1], BENCH_BUFFER);
	if (!result && cell->before)
		result = cell->before(bench, cell);
	if (!result)
		result = bench_idle(bench);
	if (!result)
		result = bench_park(bench, stream);
	if (result)
		return result;

	if (pthread_create(&thread, NULL, gate_thread, &call)) {
		bench_open_gate(bench);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	ret_gate->blocks = !wait_done(&call, GATE_WAIT);
	if (!ret_gate->blocks && !call.result) {
		result = held_back(bench, BENCH_BLOCKING, &ret_gate->joins_blocking);
		if (!result)
			result =
				held_back(bench, BENCH_NON_BLOCKING, &ret_gate->joins_non_blocking);
	}
	bench_open_gate(bench);
	pthread_join(thread, NULL);
	if (!result)
		result = bench_idle(bench);
	if (!result)
		result = call.result;
	if (!result && cell->after)
		result = cell->after(bench, cell);
	return result;
}
