// SPDX-License-Identifier: MIT
/*
 * Which call waits for a running kernel: every cell of the measured table, by the stream that the
 * kernel is on. A call waits if it lasts longer than half the kernel, its idle time taken off.
 */
#include "check.h"

#define TRIES     20
#define KERNEL_NS 30000000ULL

enum where { ON_NULL, ON_BLOCKING, ON_NON_BLOCKING, WHERE_COUNT };

static CUstream streams[WHERE_COUNT];
static CUfunction spinner;
static CUdeviceptr device, device2;
static char *pinned, *pageable, *fresh;
static size_t stack_size;

static void htod_pageable_4k(void)
{
	OK(cuMemcpyHtoD(device, pageable, 4096));
}

static void htod_pageable_1m(void)
{
	OK(cuMemcpyHtoD(device, pageable, 1 << 20));
}

static void htod_pinned_1m(void)
{
	OK(cuMemcpyHtoD(device, pinned, 1 << 20));
}

static void dtoh_pageable_4k(void)
{
	OK(cuMemcpyDtoH(pageable, device, 4096));
}

static void dtod_1m(void)
{
	OK(cuMemcpyDtoD(device2, device, 1 << 20));
}

static void memset_device(void)
{
	OK(cuMemsetD8(device, 1, 1 << 20));
}

static void memset_pinned(void)
{
	OK(cuMemsetD8((CUdeviceptr)pinned, 1, 1 << 20));
}

static void htod_async_4k(void)
{
	OK(cuMemcpyHtoDAsync(device, pageable, 4096, streams[ON_NON_BLOCKING]));
}

static void htod_async_1m(void)
{
	OK(cuMemcpyHtoDAsync(device, pageable, 1 << 20, streams[ON_NON_BLOCKING]));
}

static void htod_async_16m(void)
{
	OK(cuMemcpyHtoDAsync(device, pageable, 16 << 20, streams[ON_NON_BLOCKING]));
}

static void dtoh_async_4k(void)
{
	OK(cuMemcpyDtoHAsync(pageable, device, 4096, streams[ON_NON_BLOCKING]));
}

static void dtoh_async_1m(void)
{
	OK(cuMemcpyDtoHAsync(pageable, device, 1 << 20, streams[ON_NON_BLOCKING]));
}

static void htod_async_pinned(void)
{
	OK(cuMemcpyHtoDAsync(device, pinned, 1 << 20, streams[ON_NON_BLOCKING]));
}

static void alloc_and_free(void)
{
	CUdeviceptr pointer;

	OK(cuMemAlloc(&pointer, 1 << 20));
	OK(cuMemFree(pointer));
}

static CUdeviceptr large;

static void alloc_large(void)
{
	OK(cuMemAlloc(&large, 256 << 20));
}

static void host_alloc(void)
{
	OK(cuMemHostAlloc((void **)&fresh, 1 << 20, 0));
}

static void host_alloc_and_free(void)
{
	char *block;

	OK(cuMemHostAlloc((void **)&block, 1 << 20, 0));
	OK(cuMemFreeHost(block));
}

static void register_and_unregister(void)
{
	OK(cuMemHostRegister(pageable, 1 << 20, 0));
	OK(cuMemHostUnregister(pageable));
}

static void stream_create_and_destroy(void)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamDestroy(stream));
}

static void event_create_and_destroy(void)
{
	CUevent event;

	OK(cuEventCreate(&event, 0));
	OK(cuEventDestroy(event));
}

static void launch_on_null(void)
{
	OK(spin(spinner, 0, NULL));
}

static void stack_limit(void)
{
	stack_size = stack_size == 2048 ? 4096 : 2048;
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack_size));
}

static void same_stack_limit(void)
{
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack_size));
}

static void pointer_attribute(void)
{
	unsigned type;

	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
}

static void destroy_busy(void)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(spin(spinner, KERNEL_NS, stream));
	OK(cuStreamDestroy(stream));
}

/* Beyond the table: the facts about the NULL stream. */
static void synchronize_null(void)
{
	OK(cuStreamSynchronize(NULL));
}

static void free_async_null(void)
{
	CUdeviceptr pointer;

	OK(cuMemAllocAsync(&pointer, 4096, NULL));
	OK(cuMemFreeAsync(pointer, NULL));
}

static const struct {
	const char *name;
	void (*call)(void);
	int waits[WHERE_COUNT];
} cells[] = {
	{"HtoD pageable 4 KiB", htod_pageable_4k, {1, 1, 0}},
	{"HtoD pageable 1 MiB", htod_pageable_1m, {1, 1, 0}},
	{"HtoD pinned 1 MiB", htod_pinned_1m, {1, 1, 0}},
	{"DtoH pageable 4 KiB", dtoh_pageable_4k, {1, 1, 0}},
	{"DtoD 1 MiB", dtod_1m, {0, 0, 0}},
	{"memset device", memset_device, {0, 0, 0}},
	{"memset pinned", memset_pinned, {1, 1, 0}},
	{"HtoDAsync pageable 4 KiB", htod_async_4k, {0, 0, 0}},
	{"HtoDAsync pageable 1 MiB", htod_async_1m, {0, 0, 0}},
	{"HtoDAsync pageable 16 MiB", htod_async_16m, {0, 0, 1}},
	{"DtoHAsync pageable 4 KiB", dtoh_async_4k, {0, 0, 1}},
	{"DtoHAsync pageable 1 MiB", dtoh_async_1m, {0, 0, 1}},
	{"HtoDAsync pinned", htod_async_pinned, {0, 0, 0}},
	{"MemAlloc + MemFree", alloc_and_free, {1, 1, 1}},
	{"MemAlloc 256 MiB", alloc_large, {0, 0, 0}},
	{"HostAlloc", host_alloc, {0, 0, 0}},
	{"HostAlloc + FreeHost", host_alloc_and_free, {1, 1, 1}},
	{"HostRegister + Unregister", register_and_unregister, {1, 1, 1}},
	{"StreamCreate + Destroy", stream_create_and_destroy, {0, 0, 0}},
	{"EventCreate + Destroy", event_create_and_destroy, {0, 0, 0}},
	{"launch on NULL", launch_on_null, {0, 0, 0}},
	{"stack limit, changing", stack_limit, {1, 1, 1}},
	{"stack limit, same", same_stack_limit, {0, 0, 0}},
	{"PointerGetAttribute", pointer_attribute, {0, 0, 0}},
	{"destroy of a busy stream", destroy_busy, {0, 0, 0}},
	{"StreamSynchronize(NULL)", synchronize_null, {1, 1, 0}},
	{"AllocAsync + FreeAsync on NULL", free_async_null, {0, 0, 0}},
};

static void clean(void)
{
	OK(cuCtxSynchronize());
	if (large)
		OK(cuMemFree(large));
	if (fresh)
		OK(cuMemFreeHost(fresh));
	large = 0;
	fresh = NULL;
}

static uint64_t timed(void (*call)(void))
{
	uint64_t start = now_ns();

	call();
	return now_ns() - start;
}

int main(void)
{
	CUcontext context;
	CUmodule module;

	OK(cuInit(0));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	spinner = kernel(module, "spin");
	OK(cuStreamCreate(&streams[ON_BLOCKING], CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&streams[ON_NON_BLOCKING], CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&device, 16 << 20));
	OK(cuMemAlloc(&device2, 16 << 20));
	OK(cuMemHostAlloc((void **)&pinned, 16 << 20, 0));
	pageable = malloc(16 << 20);
	memset(pageable, 1, 16 << 20);
	memset(pinned, 1, 16 << 20);
	OK(cuMemcpyHtoD(device, pageable, 16 << 20)); /* touch */
	OK(cuMemcpyHtoD(device2, pageable, 16 << 20));
	OK(spin(spinner, 0, NULL)); /* loaded */
	for (unsigned i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
		uint64_t idle = UINT64_MAX;

		/* The least of three: other load on the machine can only add. */
		for (int try = 0; try < 3; try++) {
			clean();
			uint64_t once = timed(cells[i].call);

			if (once < idle)
				idle = once;
		}
		for (int where = 0; where < WHERE_COUNT; where++) {
			int waited;

			clean();
			/*
			 * Other load on the machine can make a call look slower, or hold it back
			 * until the kernel has ended. What the call does for itself it does in each
			 * try.
			 */
			for (int try = 0; try < TRIES; try++) {
				clean();
				OK(spin(spinner, KERNEL_NS, streams[where]));
				uint64_t busy = timed(cells[i].call);

				waited = busy > idle + KERNEL_NS / 2;
				if (waited == cells[i].waits[where])
					break;
			}
			if (waited != cells[i].waits[where]) {
				fprintf(stderr, "%s, kernel on %s: %s\n", cells[i].name,
					where == ON_NULL       ? "NULL"
					: where == ON_BLOCKING ? "a blocking stream"
							       : "a non-blocking stream",
					waited ? "waited" : "did not wait");
				failures++;
			}
		}
	}
	clean();
	return failures ? 1 : 0;
}
