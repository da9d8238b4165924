// SPDX-License-Identifier: MIT
/*
 * Memory that others want: another process, or a full device.
 *
 *	exported TIMES BYTES	a block that was used before is exported; a second process reads and writes it
 *	open HANDLE BYTES VALUE		that process
 *	full		the device is filled while blocks are held: what the driver could allocate is allocated
 *	churn TIMES	pinned blocks of ever other sizes, in a group with little memory
 */
#include "safety.h"

#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#define MOST 4096

extern char **environ;
static struct world world;

static void open_exported(char **arguments)
{
	size_t bytes = strtoull(arguments[1], NULL, 0);
	unsigned char value = (unsigned char)atoi(arguments[2]);
	CUipcMemHandle handle;
	CUdeviceptr block;
	CUresult result;

	for (size_t i = 0; i < sizeof(handle); i++) {
		unsigned int byte = 0;

		if (sscanf(arguments[0] + 2 * i, "%2x", &byte) != 1)
			_exit(2);
		((unsigned char *)&handle)[i] = (unsigned char)byte;
	}
	world_open(&world);
	result = cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	printf("  opened: %d\n", (int)result);
	if (result != CUDA_SUCCESS)
		return;
	EXPECT(device_is_all(block, bytes, value));
	OK(cuMemsetD8(block, (unsigned char)(value + 1), bytes));
	OK(cuCtxSynchronize());
	printf("  closed: %d\n", (int)cuIpcCloseMemHandle(block));
}

static void spawn_open(const CUipcMemHandle *handle, size_t bytes, unsigned char value)
{
	char text[2 * sizeof(*handle) + 1], size[24], byte[8];
	char *command[] = {"safety", "open", text, size, byte, NULL};
	int status = 0;
	pid_t child;

	for (size_t i = 0; i < sizeof(*handle); i++)
		snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)handle)[i]);
	snprintf(size, sizeof(size), "%zu", bytes);
	snprintf(byte, sizeof(byte), "%u", value);
	fflush(stdout);
	if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, command, environ))
		_exit(1);
	if (waitpid(child, &status, 0) != child)
		_exit(1);
	EXPECT(status == 0);
}

static void exported(char **arguments)
{
	unsigned int times = (unsigned int)atoi(arguments[0]);
	size_t bytes = strtoull(arguments[1], NULL, 0);
	CUstream stream;

	world_open(&world);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	for (unsigned int i = 0; i < times; i++) {
		unsigned char value = (unsigned char)(10 * i + 1);
		CUdeviceptr before = device_block(bytes), block;
		CUipcMemHandle handle;
		CUresult result;

		/* An old kernel may still write it when it is freed; none does when it is exported. */
		spin(&world, stream, 2000000);
		fill(&world, stream, before, 0xee, bytes, false);
		OK(cuMemFree(before));
		OK(cuCtxSynchronize());
		block = device_block(bytes);
		printf("# the same address: %d\n", block == before);
		OK(cuMemsetD8(block, value, bytes));
		OK(cuCtxSynchronize());
		result = cuIpcGetMemHandle(&handle, block);
		printf("exported: %d\n", (int)result);
		if (result == CUDA_SUCCESS) {
			spawn_open(&handle, bytes, value);
			EXPECT(device_is_all(block, bytes, (unsigned char)(value + 1)));
		}
		TELL("freed", cuMemFree(block));
		TELL("freed again", cuMemFree(block));
	}
}

/* Blocks of `bytes` until the driver has no more; how many. */
static unsigned int take_all(CUdeviceptr *blocks, unsigned int most, size_t bytes)
{
	unsigned int count = 0;

	while (count < most && cuMemAlloc(&blocks[count], bytes) == CUDA_SUCCESS)
		count++;
	return count;
}

static void give_back(const CUdeviceptr *blocks, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		OK(cuMemFree(blocks[i]));
}

static void full(char **arguments)
{
	static CUdeviceptr blocks[MOST];
	size_t total, left, unit;
	unsigned int count, half, few;
	CUdeviceptr large;
	CUmemoryPool pool;
	CUstream stream;
	void *pinned;

	(void)arguments;
	world_open(&world);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemGetInfo(&left, &total));
	unit = total / 64 / ((size_t)2 << 20) * ((size_t)2 << 20);
	for (unsigned int round = 0; round < 3; round++) {
		count = take_all(blocks, MOST, unit);
		printf("# %u blocks of %zu MiB\n", count, unit >> 20);
		EXPECT(count >= 32);
		half = count / 2;
		few = round == 2 ? 4 : 0;
		if (few) {
			/* Held, since work is in flight, and few enough for that; another size is wanted. */
			spin(&world, stream, 20000000);
			give_back(blocks, few);
			TELL("three units beside work", cuMemAlloc(&large, 3 * unit));
			TELL("free", cuMemFree(large));
			spin(&world, stream, 20000000);
		}
		give_back(blocks + few, half - few);
		OK(cuMemGetInfo(&left, &total));
		EXPECT(left >= (half - 1) * unit);
		/* Of other sizes than what is held. */
		TELL("three units", cuMemAlloc(&large, 3 * unit));
		OK(cuMemsetD8(large + 3 * unit - 4096, 9, 4096));
		OK(cuCtxSynchronize());
		EXPECT(device_is_all(large + 3 * unit - 4096, 4096, 9));
		TELL("free", cuMemFree(large));
		TELL("most of the freed", cuMemAlloc(&large, (half - 2) * unit));
		TELL("free", cuMemFree(large));
		OK(cuMemGetInfo(&left, &total));
		EXPECT(left >= (half - 2) * unit);
		/* And of other kinds. */
		TELL("managed", cuMemAllocManaged(&large, 2 * unit, CU_MEM_ATTACH_GLOBAL));
		TELL("free", cuMemFree(large));
		TELL("asynchronous", cuMemAllocAsync(&large, (half - 4) * unit, stream));
		OK(cuStreamSynchronize(stream));
		TELL("free", cuMemFree(large));
		OK(cuDeviceGetDefaultMemPool(&pool, 0));
		OK(cuMemPoolTrimTo(pool, 0));
		TELL("pinned", cuMemHostAlloc(&pinned, (size_t)1 << 20, 0));
		OK(cuMemFreeHost(pinned));
		give_back(blocks + half, count - half);
	}
	TELL("too much", cuMemAlloc(&large, total + unit));
}

static void churn(char **arguments)
{
	unsigned int times = (unsigned int)atoi(arguments[0]);

	world_open(&world);
	for (unsigned int i = 0; i < times; i++) {
		size_t bytes = (size_t)(32 + 5 * i) << 20;
		unsigned char *pinned = pinned_block(bytes), *second = pinned_block(bytes / 2);

		memset(pinned, (int)i, bytes);
		memset(second, (int)i, bytes / 2);
		OK(cuMemFreeHost(pinned));
		OK(cuMemFreeHost(second));
	}
	printf("through\n");
}

const struct check memory_checks[] = {
	{"exported", exported}, {"open", open_exported}, {"full", full}, {"churn", churn},
	{NULL, NULL},
};
