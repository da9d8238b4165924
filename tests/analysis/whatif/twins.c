// SPDX-License-Identifier: MIT
/*
 * Twins: small programs that wait where they need not, each in two forms. The fixed form is the naive one
 * without that wait, and nothing else, so the difference of their times is what the wait cost: the truth that
 * what-if is held against (twins.py, tests/gpu/whatif.py).
 *
 *	twins NAME naive|fixed ROUNDS KERNEL_US HOST_US
 *
 * prints the loop's time in ns. Names:
 *	free		cuMemFree of a scratch buffer after each launch; fixed: all after the loop
 *	pageable	a synchronous copy from pageable memory between kernels; fixed: asynchronous, from pinned memory
 *	context		cuCtxSynchronize between kernels of two streams that an event orders; fixed: the event alone
 *
 * The driver is found when it runs, by dlopen, so the same program runs on the simulated driver and on a GPU.
 * What the host does between calls is sleep, which takes as long on a busy machine.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#include "kernels/kernels.h"

#define ROUNDS_MAX 1000
#define COPY_BYTES 4096
#define SCRATCH    4096

/* clang-format off */
#define FUNCTIONS(X) \
	X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) \
	X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuStreamCreate) \
	X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuEventCreate) X(cuEventRecord) X(cuMemAlloc) \
	X(cuMemFree) X(cuMemHostAlloc) X(cuMemcpyHtoD) X(cuMemcpyHtoDAsync)
/* clang-format on */

static struct {
#define MEMBER(name) __typeof__(&name) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
} cu;

/* cuda.h's macros turn the name into that of the version it declares. */
#define EXPORTED(name)    #name
#define EXPORTED_OF(name) EXPORTED(name)

static void find(void *library, const char *name, void *ret_function)
{
	void *function = dlsym(library, name);

	if (!function) {
		fprintf(stderr, "twins: the driver has no %s\n", name);
		exit(1);
	}
	memcpy(ret_function, &function, sizeof(function));
}

static void open_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "twins: %s\n", dlerror());
		exit(77);
	}
#define FIND(name) find(library, EXPORTED_OF(name), &cu.name);
	FUNCTIONS(FIND)
#undef FIND
}

static void check(CUresult result, const char *call)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "twins: %s: %d\n", call, (int)result);
	exit(1);
}
#define CHECK(call) check(call, #call)

struct twin {
	int fixed;
	unsigned int rounds;
	uint64_t kernel_ns, host_ns;
	CUfunction spin;
	CUstream stream[2];
	CUevent event;
	CUdeviceptr scratch[ROUNDS_MAX], buffer;
	void *pageable, *pinned;
};

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void work(const struct twin *twin)
{
	struct timespec time = {.tv_sec = (time_t)(twin->host_ns / 1000000000),
				.tv_nsec = (long)(twin->host_ns % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) == EINTR)
		;
}

static void launch(struct twin *twin, CUstream stream)
{
	uint64_t ns = twin->kernel_ns;
	void *parameters[] = {&ns};

	CHECK(cu.cuLaunchKernel(twin->spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void open_twin(struct twin *twin)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;

	CHECK(cu.cuInit(0));
	CHECK(cu.cuDeviceGet(&device, 0));
	CHECK(cu.cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cu.cuCtxSetCurrent(context));
	CHECK(cu.cuModuleLoadData(&module, KERNELS_SPIN));
	CHECK(cu.cuModuleGetFunction(&twin->spin, module, "spin"));
	for (int i = 0; i < 2; i++)
		CHECK(cu.cuStreamCreate(&twin->stream[i], CU_STREAM_DEFAULT));
	CHECK(cu.cuEventCreate(&twin->event, CU_EVENT_DISABLE_TIMING));
	for (unsigned int i = 0; i < twin->rounds; i++)
		CHECK(cu.cuMemAlloc(&twin->scratch[i], SCRATCH));
	CHECK(cu.cuMemAlloc(&twin->buffer, COPY_BYTES));
	CHECK(cu.cuMemHostAlloc(&twin->pinned, COPY_BYTES, 0));
	twin->pageable = calloc(1, COPY_BYTES);
	if (!twin->pageable)
		exit(1);
	/* First uses: loading, page faults. */
	launch(twin, twin->stream[0]);
	CHECK(cu.cuMemcpyHtoD(twin->buffer, twin->pageable, COPY_BYTES));
	CHECK(cu.cuMemcpyHtoDAsync(twin->buffer, twin->pinned, COPY_BYTES, twin->stream[0]));
	CHECK(cu.cuCtxSynchronize());
}

static void round_free(struct twin *twin, unsigned int number)
{
	launch(twin, twin->stream[0]);
	if (!twin->fixed)
		CHECK(cu.cuMemFree(twin->scratch[number]));
	work(twin);
}

static void round_pageable(struct twin *twin, unsigned int number)
{
	(void)number;
	launch(twin, twin->stream[0]);
	if (twin->fixed)
		CHECK(cu.cuMemcpyHtoDAsync(twin->buffer, twin->pinned, COPY_BYTES,
					   twin->stream[0]));
	else
		CHECK(cu.cuMemcpyHtoD(twin->buffer, twin->pageable, COPY_BYTES));
	work(twin);
}

static void round_context(struct twin *twin, unsigned int number)
{
	(void)number;
	launch(twin, twin->stream[0]);
	CHECK(cu.cuEventRecord(twin->event, twin->stream[0]));
	CHECK(cu.cuStreamWaitEvent(twin->stream[1], twin->event, 0));
	if (!twin->fixed)
		CHECK(cu.cuCtxSynchronize());
	work(twin);
	launch(twin, twin->stream[1]);
	CHECK(cu.cuStreamSynchronize(twin->stream[1]));
}

int main(int argc, char **argv)
{
	static struct twin twin;
	void (*round)(struct twin *, unsigned int);
	int64_t begin;

	if (argc != 6) {
		fputs("usage: twins free|pageable|context naive|fixed ROUNDS KERNEL_US HOST_US\n",
		      stderr);
		return 2;
	}
	round = strcmp(argv[1], "free") == 0       ? round_free
		: strcmp(argv[1], "pageable") == 0 ? round_pageable
						   : round_context;
	twin.fixed = strcmp(argv[2], "fixed") == 0;
	twin.rounds = (unsigned int)strtoul(argv[3], NULL, 10);
	if (twin.rounds > ROUNDS_MAX)
		twin.rounds = ROUNDS_MAX;
	twin.kernel_ns = strtoull(argv[4], NULL, 10) * 1000;
	twin.host_ns = strtoull(argv[5], NULL, 10) * 1000;
	open_driver();
	open_twin(&twin);

	begin = now();
	for (unsigned int i = 0; i < twin.rounds; i++)
		round(&twin, i);
	CHECK(cu.cuCtxSynchronize());
	if (twin.fixed && round == round_free)
		for (unsigned int i = 0; i < twin.rounds; i++)
			CHECK(cu.cuMemFree(twin.scratch[i]));
	printf("%lld\n", (long long)(now() - begin));
	return 0;
}
