// SPDX-License-Identifier: MIT
/*
 * safety CHECK [ARGUMENT...]: one check of the safety suite (safety.h). Exit status 0: all that was expected is so; 1: stderr says what is not.
 * A broken rule may also hang; safety.py has a time limit.
 */
#include "safety.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../simcuda/kernels.h"

#define GRID  128
#define BLOCK 128

int failures;

void world_load(struct world *world)
{
	CUmodule module;

	OK(cuCtxGetCurrent(&world->context));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&world->spin, module, "spin"));
	OK(cuModuleGetFunction(&world->gate, module, "gate"));
	OK(cuModuleGetFunction(&world->copy, module, "copy"));
	OK(cuModuleGetFunction(&world->fill, module, "fill"));
	OK(cuFuncLoad(world->spin));
	OK(cuFuncLoad(world->gate));
	OK(cuFuncLoad(world->copy));
	OK(cuFuncLoad(world->fill));
}

void world_open(struct world *world)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&world->context, 0));
	OK(cuCtxSetCurrent(world->context));
	world_load(world);
}

void earn_staging(void)
{
	size_t bytes = (size_t)128 << 20;
	void *host = malloc(bytes);
	CUdeviceptr block = device_block(bytes);

	memset(host, 1, bytes);
	OK(cuMemcpyHtoD(block, host, bytes));
	OK(cuMemFree(block));
	free(host);
}

CUstream new_stream(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

void spin(const struct world *world, CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};

	OK(cuLaunchKernel(world->spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void fill(const struct world *world, CUstream stream, CUdeviceptr to, unsigned char value,
	  size_t bytes, bool slow)
{
	uint32_t word = value * 0x01010101u, count = (uint32_t)(bytes / 4);
	void *parameters[] = {&to, &word, &count};

	OK(cuLaunchKernel(world->fill, slow ? 1 : GRID, 1, 1, slow ? 1 : BLOCK, 1, 1, 0, stream,
			  parameters, NULL));
}

void copy(const struct world *world, CUstream stream, CUdeviceptr to, CUdeviceptr from,
	  size_t bytes, bool slow)
{
	uint64_t count = bytes;
	void *parameters[] = {&to, &from, &count};

	OK(cuLaunchKernel(world->copy, slow ? 1 : GRID, 1, 1, slow ? 1 : BLOCK, 1, 1, 0, stream,
			  parameters, NULL));
}

bool is_all(const void *at, size_t bytes, unsigned char value)
{
	const unsigned char *from = at;

	return !bytes || (from[0] == value && memcmp(from, from + 1, bytes - 1) == 0);
}

bool device_is_all(CUdeviceptr at, size_t bytes, unsigned char value)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	void *bounce = pinned_block(bytes);
	bool is;

	memset(bounce, ~value, bytes);
	OK(cuMemcpyDtoHAsync(bounce, at, bytes, stream));
	OK(cuStreamSynchronize(stream));
	is = is_all(bounce, bytes, value);
	OK(cuMemFreeHost(bounce));
	OK(cuStreamDestroy(stream));
	return is;
}

CUdeviceptr device_block(size_t bytes)
{
	CUdeviceptr block;

	OK(cuMemAlloc(&block, bytes));
	return block;
}

void *pinned_block(size_t bytes)
{
	void *block;

	OK(cuMemHostAlloc(&block, bytes, 0));
	return block;
}

uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

unsigned int below(uint64_t *state, unsigned int bound)
{
	return (unsigned int)(draw(state) % bound);
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
	const struct check *lists[] = {poison_checks, copies_checks, gate_checks,
				       calls_checks,  life_checks,   memory_checks};

	for (size_t i = 0; argc > 1 && i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct check *check = lists[i]; check->name; check++)
			if (strcmp(check->name, argv[1]) == 0) {
				check->run(argv + 2);
				fflush(stdout);
				return failures ? 1 : 0;
			}
	fprintf(stderr, "usage: safety CHECK [ARGUMENT...]\n");
	return 2;
}
