// SPDX-License-Identifier: MIT
/*
 * The cost of a call by the shim's wrapper against the same call by the driver's own address, in
 * one process: bursts of either by turns, so that the noise between processes (other addresses,
 * clocks, tenants of the machine) falls out of the difference. Started by overhead.py under the
 * shim; without it there is nothing to compare: status 77.
 *
 * Between two bursts everything is idle, waited for by the side that submitted. Which of a pair
 * goes first is drawn from a seed.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

#include "../../tools/kernels/kernels.h"
#include "cells.h"
#include "driver_symbols.h"
#include "sides.h"

#define KERNELS  8
#define STREAMS  3
#define MAX_PAIR 4000

static struct bench bench;
static CUfunction kernel[KERNELS];
static CUstream streams[STREAMS]; /* NULL, blocking, non-blocking */
static CUevent event;
static CUdeviceptr device;
static void *pinned, *pageable;
static uint64_t random_state;

static uint64_t draw(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* One launch; `i` chooses where there is a choice. */
static inline CUresult launch(const struct gpu *by, CUfunction function, CUstream stream)
{
	uint64_t ns = 0;
	void *arguments[] = {&ns};

	return by->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/* One call of a cell, many in a row: the loop is in the function, so that nothing else is timed. */
#define CELL(name, call)                                                                           \
	static CUresult name(const struct gpu *by, unsigned count)                                 \
	{                                                                                          \
		CUresult result = CUDA_SUCCESS;                                                    \
                                                                                                   \
		for (unsigned i = 0; i < count; i++)                                               \
			result |= (call);                                                          \
		return result;                                                                     \
	}

static CUcontext current;
static CUmemorytype kind;

CELL(get_current, by->cuCtxGetCurrent(&current))
CELL(launch_null, launch(by, kernel[0], NULL))
CELL(launch_blocking, launch(by, kernel[0], streams[1]))
CELL(launch_non_blocking, launch(by, kernel[0], streams[2]))
CELL(launch_8_kernels, launch(by, kernel[i % KERNELS], streams[2]))
CELL(launch_3_streams, launch(by, kernel[0], streams[i % STREAMS]))
CELL(event_record, by->cuEventRecord(event, streams[2]))
CELL(wait_event, by->cuStreamWaitEvent(streams[1], event, 0))
CELL(copy_async_pinned, by->cuMemcpyHtoDAsync(device, pinned, 4096, streams[2]))
CELL(copy_pageable, by->cuMemcpyHtoD(device, pageable, 4096))
CELL(stream_synchronize, by->cuStreamSynchronize(streams[2]))
CELL(pointer_attribute, by->cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device))

static const struct paired_cell {
	const char *name;
	CUresult (*burst)(const struct gpu *by, unsigned count);
	unsigned calls; /* in a burst; launches fewer than the driver queues */
	unsigned share; /* of the pairs asked for, percent */
	bool control;   /* both sides by the driver's address: what the method itself makes up */
} paired_cells[] = {
	{"get_current", get_current, 20000, 100, false},
	{"launch_null", launch_null, 500, 100, false},
	{"launch_blocking", launch_blocking, 500, 100, false},
	{"launch_non_blocking", launch_non_blocking, 500, 100, false},
	{"control_launch", launch_non_blocking, 500, 100, true},
	{"launch_8_kernels", launch_8_kernels, 500, 60, false},
	{"launch_3_streams", launch_3_streams, 500, 60, false},
	{"event_record", event_record, 500, 60, false},
	{"wait_event", wait_event, 500, 60, false},
	{"copy_async_pinned_4k", copy_async_pinned, 500, 60, false},
	{"copy_pageable_4k", copy_pageable, 200, 60, false},
	{"stream_synchronize_idle", stream_synchronize, 500, 60, false},
	{"pointer_attribute", pointer_attribute, 2000, 60, false},
};

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void fail(const char *what, CUresult result)
{
	fprintf(stderr, "paired: %s: error %d\n", what, result);
	exit(1);
}

static double time_burst(const struct paired_cell *cell, int which)
{
	const struct gpu *by = &side[cell->control ? RAW : which];
	uint64_t begin = bench_now();
	CUresult result = cell->burst(by, cell->calls);
	double ns = (double)(bench_now() - begin) / cell->calls;

	if (!result)
		result = by->context_synchronize();
	if (result)
		fail(cell->name, result);
	return ns;
}

/*
 * Medians of either side, and of the paired differences with its 95 % interval by ranks: the
 * median lies between the samples of rank n/2 -+ 0.98 sqrt(n), whatever their distribution.
 */
static void run_cell(const struct paired_cell *cell, unsigned asked)
{
	static double raw[MAX_PAIR], shim[MAX_PAIR], difference[MAX_PAIR];
	unsigned pairs = asked * cell->share / 100;
	unsigned root = 1, spread;

	if (pairs < 3)
		pairs = 3;
	for (unsigned i = 0; i < pairs + 3; i++) {
		double ns[SIDES];
		int first = (int)(draw() >> 32 & 1);
		unsigned at = i < 3 ? 0 : i - 3; /* the first three warm up */

		ns[first] = time_burst(cell, first);
		ns[!first] = time_burst(cell, !first);
		raw[at] = ns[RAW];
		shim[at] = ns[WRAPPED];
		difference[at] = ns[WRAPPED] - ns[RAW];
	}
	qsort(raw, pairs, sizeof(*raw), compare_double);
	qsort(shim, pairs, sizeof(*shim), compare_double);
	qsort(difference, pairs, sizeof(*difference), compare_double);
	while (root * root < pairs)
		root++;
	spread = root < pairs / 2 ? root : pairs / 2;
	printf("cell %s raw %.3f shim %.3f difference %.3f low %.3f high %.3f pairs %u calls %u\n",
	       cell->name, raw[pairs / 2], shim[pairs / 2], difference[pairs / 2],
	       difference[pairs / 2 - spread],
	       difference[pairs / 2 + spread < pairs ? pairs / 2 + spread : pairs - 1], pairs,
	       cell->calls);
	fflush(stdout);
}

/* Both sides, and how the three ways in relate. Returns 77 if there is no shim. */
static int open_sides(void)
{
	void *by_address = NULL, *linked;
	int status = sides_open();

	if (status)
		return status;
	linked = library_symbol("libslipstream.so", "cuLaunchKernel");
	if (gpu.cuGetProcAddress("cuLaunchKernel", &by_address, 12000, 0, NULL))
		by_address = NULL;
	printf("ways dlsym wrapped linked %s getprocaddress %s\n",
	       linked == (void *)gpu.cuLaunchKernel ? "same"
	       : linked                             ? "other"
						    : "none",
	       by_address == (void *)gpu.cuLaunchKernel         ? "same"
	       : by_address == (void *)side[RAW].cuLaunchKernel ? "raw"
								: "other");
	return 0;
}

static void make_things(void)
{
	CUmodule module;
	CUresult result = CUDA_SUCCESS;

	streams[1] = bench.stream[BENCH_BLOCKING];
	streams[2] = bench.stream[BENCH_NON_BLOCKING];
	/* One entry a module: eight modules are eight functions to driver and shim. */
	for (int i = 0; i < KERNELS && !result; i++) {
		result = gpu.cuModuleLoadData(&module, KERNELS_SPIN);
		if (!result)
			result = gpu.cuModuleGetFunction(&kernel[i], module, "spin");
		if (!result)
			result = launch(&gpu, kernel[i], NULL);
	}
	if (!result)
		result = gpu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (!result)
		result = gpu.cuEventRecord(event, streams[2]);
	if (!result)
		result = gpu.cuMemAlloc(&device, 4096);
	if (!result)
		result = gpu.cuMemHostAlloc(&pinned, 4096, 0);
	pageable = calloc(1, 4096);
	if (!result && !pageable)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!result)
		result = gpu.context_synchronize();
	if (result)
		fail("preparing", result);
}

/* The processor to stay on, or -1. The driver's own threads exist by now and are left alone. */
static int pin(void)
{
	int processor = sched_getcpu();
	cpu_set_t set;

	if (processor < 0)
		return -1;
	CPU_ZERO(&set);
	CPU_SET((size_t)processor, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -1 : processor;
}

/* What looking at a clock costs, to judge the wrappers that do. */
static int clocks(void)
{
	const unsigned count = 1000000;
	uint64_t begin = bench_now(), sum = 0;
	double tick, clock;

	for (unsigned i = 0; i < count; i++)
		sum += __rdtsc();
	tick = (double)(bench_now() - begin) / count;
	begin = bench_now();
	for (unsigned i = 0; i < count; i++)
		sum += bench_now();
	clock = (double)(bench_now() - begin) / count;
	/* The sum is used so that the loops stay. */
	printf("tick_ns %.2f\nclock_ns %.2f\n", tick, sum ? clock : 0);
	return 0;
}

/*
 * What the shim itself does at start. The driver's cuInit takes 100 to 250 ms, give or take 10, so
 * it is called first, by its own address; cuInit by the wrapper then finds the driver ready, and
 * what it takes is the shim's set-up. Without the shim both are the driver's: the difference of
 * the sums between processes is the shim's own work.
 */
static int start(void)
{
	CUresult (*driver_init)(unsigned);
	uint64_t begin = bench_now(), opened, driver, done;
	CUcontext context;

	if (gpu_open(NULL))
		return 1;
	opened = bench_now();
	driver_init = sides_raw_symbol("cuInit");
	if (driver_init(0))
		return 1;
	driver = bench_now();
	if (gpu.cuInit(0) || gpu.cuCtxGetCurrent(&context))
		return 1;
	done = bench_now();
	printf("open_ms %.4f\ndriver_init_ms %.4f\nset_up_ms %.4f\n",
	       (double)(opened - begin) / 1e6, (double)(driver - opened) / 1e6,
	       (double)(done - driver) / 1e6);
	return 0;
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (end == text || *end) {
		fprintf(stderr, "paired: %s is no number\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	uint64_t pairs, seed;
	int status;

	if (argc == 2 && !strcmp(argv[1], "clocks"))
		return clocks();
	if (argc == 2 && !strcmp(argv[1], "start"))
		return start();
	if (argc != 4 || strcmp(argv[1], "calls") != 0) {
		fprintf(stderr, "usage: paired calls PAIRS SEED|clocks|start\n");
		return 2;
	}
	pairs = number(argv[2]);
	seed = number(argv[3]);
	if (!pairs || pairs > MAX_PAIR) {
		fprintf(stderr, "paired: %s: 1 to %d pairs\n", argv[2], MAX_PAIR);
		return 2;
	}
	/* 0 would stay 0. */
	random_state = seed ^ UINT64_C(0x9e3779b97f4a7c15);
	if (!random_state)
		random_state = 1;
	status = open_sides();
	if (status)
		return status;
	if (bench_open(&bench, BENCH_PLAIN))
		return 1;
	make_things();
	printf("seed %" PRIu64 "\nprocessor %d\n", seed, pin());
	for (size_t i = 0; i < sizeof(paired_cells) / sizeof(*paired_cells); i++)
		run_cell(&paired_cells[i], (unsigned)pairs);
	return 0;
}
