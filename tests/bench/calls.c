// SPDX-License-Identifier: MIT
/*
 * The same call over and over, for a tool that counts instructions: `calls KIND COUNT [BYTES]`, started by calls.py without the shim and with it in each mode.
 * Only what runs inside calls_measured() is to be counted. BYTES (4096): of the copies, at most 1 MiB. KIND:
 *	h2d_sync, d2h_sync, h2d_async, d2h_async	copies of ordinary memory, on the legacy stream or on a blocking one
 *	..._beside					the same, beside a kernel on another, non-blocking stream
 *	..._pinned					the same as the first, of pinned memory
 *	h2d_order					h2d_sync behind a kernel on its stream, with relax=order
 *	launch						of a kernel, on a blocking stream
 *	pair						pinned memory of 4 KiB allocated and freed
 *	free_idle, free_busy				frees of pinned memory of 4 KiB; busy: beside a kernel on another stream
 *	free_device_busy				the same of device memory
 * Prints ns a call. One thread.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/kernels/kernels.h"
#include "figures.h"
#include "gpu.h"

#define BYTES      4096
#define BYTES_MOST (1U << 20)
#define COUNT_MOST 4096
#define BUSY_NS    UINT64_C(300000000)
#define FEW_NS     1000
#define WARM       4 /* times */

static CUstream stream, elsewhere;
static CUdeviceptr device, device_blocks[COUNT_MOST];
static size_t copy_bytes = BYTES;
static void *memory, *blocks[COUNT_MOST];
static CUfunction spin;

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "calls: %s: %d\n", what, (int)result);
	exit(1);
}

static CUresult launch(CUstream on, uint64_t ns)
{
	void *parameters[] = {&ns};

	return gpu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, on, parameters, NULL);
}

static CUresult h2d_sync(unsigned int at)
{
	return gpu.cuMemcpyHtoD(device, memory, copy_bytes);
}

static CUresult d2h_sync(unsigned int at)
{
	return gpu.cuMemcpyDtoH(memory, device, copy_bytes);
}

static CUresult h2d_async(unsigned int at)
{
	return gpu.cuMemcpyHtoDAsync(device, memory, copy_bytes, stream);
}

static CUresult d2h_async(unsigned int at)
{
	return gpu.cuMemcpyDtoHAsync(memory, device, copy_bytes, stream);
}

static CUresult launch_few(unsigned int at)
{
	return launch(stream, FEW_NS);
}

static CUresult pair(unsigned int at)
{
	CUresult result = gpu.cuMemHostAlloc(&blocks[0], BYTES, 0);

	return result ? result : gpu.cuMemFreeHost(blocks[0]);
}

static CUresult free_host(unsigned int at)
{
	return gpu.cuMemFreeHost(blocks[at]);
}

static CUresult free_device(unsigned int at)
{
	return gpu.cuMemFree(device_blocks[at]);
}

static void make_host(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		check(gpu.cuMemHostAlloc(&blocks[i], BYTES, 0), "cuMemHostAlloc");
}

static void make_device(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		check(gpu.cuMemAlloc(&device_blocks[i], BYTES), "cuMemAlloc");
}

static void make_pinned(unsigned int count)
{
	(void)count;
	check(gpu.cuMemHostAlloc(&memory, copy_bytes, 0), "cuMemHostAlloc");
}

static const struct kind {
	const char *name;
	CUresult (*call)(unsigned int at);
	void (*prepare)(unsigned int count);
	enum { NOT_BUSY, BUSY_ELSEWHERE, BUSY_LEGACY } busy;
} kinds[] = {
	{"h2d_sync_beside", h2d_sync, NULL, BUSY_ELSEWHERE},
	{"d2h_sync_beside", d2h_sync, NULL, BUSY_ELSEWHERE},
	{"h2d_async_beside", h2d_async, NULL, BUSY_ELSEWHERE},
	{"d2h_async_beside", d2h_async, NULL, BUSY_ELSEWHERE},
	{"h2d_sync_pinned", h2d_sync, make_pinned, NOT_BUSY},
	{"d2h_sync_pinned", d2h_sync, make_pinned, NOT_BUSY},
	{"h2d_async_pinned", h2d_async, make_pinned, NOT_BUSY},
	{"d2h_async_pinned", d2h_async, make_pinned, NOT_BUSY},
	{"h2d_sync", h2d_sync, NULL, NOT_BUSY},
	{"d2h_sync", d2h_sync, NULL, NOT_BUSY},
	{"h2d_async", h2d_async, NULL, NOT_BUSY},
	{"d2h_async", d2h_async, NULL, NOT_BUSY},
	{"h2d_order", h2d_sync, NULL, BUSY_LEGACY},
	{"launch", launch_few, NULL, NOT_BUSY},
	{"pair", pair, NULL, NOT_BUSY},
	{"free_idle", free_host, make_host, NOT_BUSY},
	{"free_busy", free_host, make_host, BUSY_ELSEWHERE},
	{"free_device_busy", free_device, make_device, BUSY_ELSEWHERE},
};

/* Known to the counting tool by its name, so nothing of it may be elsewhere. */
BENCH_ALONE CUresult calls_measured(CUresult (*call)(unsigned int at), unsigned int count);

CUresult calls_measured(CUresult (*call)(unsigned int at), unsigned int count)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < count && !result; i++)
		result = call(i);
	return result;
}

static void prepare(const struct kind *kind)
{
	CUcontext context;
	CUmodule module;

	check(gpu.cuInit(0), "cuInit");
	check(gpu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(gpu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	check(gpu.cuModuleLoadData(&module, KERNELS_SPIN), "cuModuleLoadData");
	check(gpu.cuModuleGetFunction(&spin, module, "spin"), "cuModuleGetFunction");
	check(gpu.cuStreamCreate(&stream, 0), "cuStreamCreate");
	/* Where it is there, no wait is left out with relax=order. */
	if (kind->busy == BUSY_ELSEWHERE) {
		check(gpu.cuStreamCreate(&elsewhere, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
		check(launch(elsewhere, FEW_NS), "cuLaunchKernel");
	}
	check(gpu.cuMemAlloc(&device, copy_bytes), "cuMemAlloc");
	memory = calloc(1, copy_bytes);
	if (!memory)
		exit(1);
	memset(memory, 1, copy_bytes);
	check(launch(stream, FEW_NS), "cuLaunchKernel");
	check(gpu.context_synchronize(), "cuCtxSynchronize");
}

int main(int argc, char **argv)
{
	unsigned int count = argc >= 3 ? (unsigned int)strtoul(argv[2], NULL, 0) : 0;
	const struct kind *kind = NULL;
	uint64_t begin;

	if (argc == 4)
		copy_bytes = strtoul(argv[3], NULL, 0);
	for (size_t i = 0; argc >= 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, argv[1]))
			kind = &kinds[i];
	if (!kind || argc > 4 || !count || count > COUNT_MOST || !copy_bytes ||
	    copy_bytes > BYTES_MOST) {
		fprintf(stderr, "usage: calls KIND COUNT [BYTES] (at most %d, %u)\n", COUNT_MOST,
			BYTES_MOST);
		return 2;
	}
	if (gpu_open(NULL))
		return 77;
	prepare(kind);
	/* Warmed up as it is measured; what is freed then, and what is held, is there for the next time. */
	for (int time = 0; time <= WARM; time++) {
		if (kind->prepare)
			kind->prepare(count);
		check(gpu.context_synchronize(), "cuCtxSynchronize");
		if (kind->busy == BUSY_LEGACY || (kind->busy && time == WARM))
			check(launch(kind->busy == BUSY_LEGACY ? NULL : elsewhere, BUSY_NS),
			      "cuLaunchKernel");
		if (time == WARM)
			break;
		for (unsigned int i = 0; i < count; i++)
			check(kind->call(i), kind->name);
		check(gpu.context_synchronize(), "cuCtxSynchronize");
	}
	begin = figures_now();
	check(calls_measured(kind->call, count), kind->name);
	printf("%.1f\n", (double)(figures_now() - begin) / count);
	return 0;
}
