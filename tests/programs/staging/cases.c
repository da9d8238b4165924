// SPDX-License-Identifier: MIT
/*
 * One rule of staged copies at a time: `cases NAME`, run by run.py in mode fix on the simulated driver. Exit status 0: the rule holds; 1: it
 * does not, and stderr says what is not so. A rule that is broken may also hang; run.py has a time limit.
 */
#include "cases.h"

#include <string.h>
#include <time.h>

#include "../../simcuda/kernels.h"

int failures;
CUcontext context;
CUfunction spin_kernel, fill_kernel, copy_kernel, gate_kernel;
static volatile uint32_t *flag;

void load_kernels(void)
{
	CUmodule module;

	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&spin_kernel, module, "spin"));
	OK(cuModuleGetFunction(&fill_kernel, module, "fill"));
	OK(cuModuleGetFunction(&copy_kernel, module, "copy"));
	OK(cuModuleGetFunction(&gate_kernel, module, "gate"));
	OK(cuFuncLoad(spin_kernel));
	OK(cuFuncLoad(fill_kernel));
	OK(cuFuncLoad(copy_kernel));
	OK(cuFuncLoad(gate_kernel));
}

CUstream new_stream(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

void spin(CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};

	OK(cuLaunchKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void fill(CUstream stream, CUdeviceptr to, uint32_t value, size_t bytes)
{
	uint32_t count = (uint32_t)(bytes / 4);
	void *parameters[] = {&to, &value, &count};

	OK(cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void close_gate(CUstream stream)
{
	void *parameters[] = {&flag};
	CUdeviceptr word;

	if (!flag) {
		OK(cuMemAllocManaged(&word, 4, CU_MEM_ATTACH_GLOBAL));
		flag = (volatile uint32_t *)(uintptr_t)word;
	}
	*flag = 0;
	OK(cuLaunchKernel(gate_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void open_gate(void)
{
	*flag = 1;
}

CUdeviceptr device_block(size_t bytes)
{
	CUdeviceptr block;

	OK(cuMemAlloc(&block, bytes));
	return block;
}

void paint(void *at, size_t bytes, unsigned int value)
{
	unsigned char *to = at;

	for (size_t i = 0; i < bytes; i++)
		to[i] = (unsigned char)(value * 131 + i * 7 + (i >> 8));
}

unsigned char *pattern(size_t bytes, unsigned int value)
{
	unsigned char *block = malloc(bytes);

	paint(block, bytes, value);
	return block;
}

bool is_pattern(const void *at, size_t bytes, unsigned int value)
{
	const unsigned char *from = at;

	for (size_t i = 0; i < bytes; i++)
		if (from[i] != (unsigned char)(value * 131 + i * 7 + (i >> 8)))
			return false;
	return true;
}

bool device_is(CUdeviceptr at, size_t bytes, unsigned int value)
{
	void *bounce;
	bool is;

	OK(cuCtxSynchronize());
	OK(cuMemAllocHost(&bounce, bytes));
	OK(cuMemcpyDtoH(bounce, at, bytes));
	is = is_pattern(bounce, bytes, value);
	OK(cuMemFreeHost(bounce));
	return is;
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Pinned chunks are earned by what is copied. One copy so large that it has them itself, and those after it have them, too.
 */
static void warm_up(void)
{
	size_t bytes = (size_t)128 << 20;
	void *host = malloc(bytes);
	CUdeviceptr block;

	OK(cuMemAlloc(&block, bytes));
	memset(host, 1, bytes);
	OK(cuMemcpyHtoD(block, host, bytes));
	OK(cuMemFree(block));
	free(host);
}

static bool run(const struct named_case *cases, const char *name)
{
	for (; cases->name; cases++)
		if (strcmp(cases->name, name) == 0) {
			cases->run();
			return true;
		}
	return false;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	OK(cuInit(0));
	if (strcmp(argv[1], "primary-memops") == 0)
		OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SYNC_MEMOPS));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	load_kernels();
	if (strcmp(argv[1], "faults") != 0)
		warm_up();
	if (!run(order_cases, argv[1]) && !run(memory_cases, argv[1]) &&
	    !run(life_cases, argv[1]) && !run(shape_cases, argv[1]) &&
	    !run(between_cases, argv[1]) && !run(known_cases, argv[1])) {
		fprintf(stderr, "cases: no case %s\n", argv[1]);
		return 2;
	}
	return failures ? 1 : 0;
}
