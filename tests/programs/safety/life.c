// SPDX-License-Identifier: MIT
/*
 * Ends of contexts, children and processes.
 *
 *	reset TIMES	the primary context is reset with blocks held and work in flight; its handle comes back
 *	contexts TIMES	contexts are made and destroyed, so that handles come back
 *	forked		children before and after the first use of CUDA
 *	ends WAY	the process ends in the middle: by exit, _exit, quick (quick_exit), or return of main
 *	busy		works until it is killed; "ready" on stdout once it does
 */
#include "safety.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

#define KINDS 4

static const size_t sizes[KINDS] = {4096, 65536, 1 << 20, 4 << 20};
static struct world world;

struct blocks {
	unsigned char *pinned[KINDS];
	CUdeviceptr device[KINDS];
};

static void allocate(struct blocks *blocks)
{
	for (int i = 0; i < KINDS; i++) {
		blocks->pinned[i] = pinned_block(sizes[i]);
		blocks->device[i] = device_block(sizes[i]);
	}
}

static void release(const struct blocks *blocks)
{
	for (int i = 0; i < KINDS; i++) {
		OK(cuMemFreeHost(blocks->pinned[i]));
		OK(cuMemFree(blocks->device[i]));
	}
}

/* They are of the current context, and device and host can use them. */
static void use(const struct blocks *blocks, unsigned char value)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

	for (int i = 0; i < KINDS; i++) {
		CUcontext host_owner = NULL, device_owner = NULL;

		OK(cuPointerGetAttribute(&host_owner, CU_POINTER_ATTRIBUTE_CONTEXT,
					 (uintptr_t)blocks->pinned[i]));
		OK(cuPointerGetAttribute(&device_owner, CU_POINTER_ATTRIBUTE_CONTEXT,
					 blocks->device[i]));
		EXPECT(host_owner == world.context && device_owner == world.context);
		fill(&world, stream, blocks->device[i], value, sizes[i], false);
		OK(cuMemcpyDtoHAsync(blocks->pinned[i], blocks->device[i], sizes[i], stream));
		OK(cuStreamSynchronize(stream));
		EXPECT(is_all(blocks->pinned[i], sizes[i], value));
		fill(&world, stream, (uintptr_t)blocks->pinned[i], (unsigned char)(value + 1),
		     sizes[i], false);
		OK(cuMemcpyHtoDAsync(blocks->device[i], blocks->pinned[i], sizes[i], stream));
		OK(cuStreamSynchronize(stream));
		EXPECT(device_is_all(blocks->device[i], sizes[i], (unsigned char)(value + 1)));
	}
	OK(cuStreamDestroy(stream));
}

/* Some free and held, some held with work in flight, some still the program's. */
static void leave_blocks(struct blocks *live, unsigned int i)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *pageable = malloc((size_t)16 << 20);
	CUdeviceptr large = device_block((size_t)16 << 20);
	struct blocks freed, busy;

	allocate(&freed);
	allocate(&busy);
	allocate(live);
	release(&freed);
	memset(pageable, 1, (size_t)16 << 20);
	OK(cuMemcpyHtoDAsync(large, pageable, (size_t)16 << 20, stream));
	if (i % 2)
		spin(&world, stream, 3000000);
	for (int k = 0; k < KINDS; k++)
		OK(cuMemcpyDtoHAsync(busy.pinned[k], busy.device[k], sizes[k], stream));
	release(&busy);
	free(pageable);
}

static void stale_frees(const struct blocks *blocks)
{
	for (int i = 0; i < KINDS; i++) {
		TELL("stale pinned", cuMemFreeHost(blocks->pinned[i]));
		TELL("stale device", cuMemFree(blocks->device[i]));
	}
}

static void reset(char **arguments)
{
	struct blocks live, next;
	unsigned int times = (unsigned int)atoi(arguments[0]), same = 0;
	CUcontext before;

	world_open(&world);
	for (unsigned int i = 0; i < times; i++) {
		earn_staging();
		leave_blocks(&live, i);
		before = world.context;
		TELL("reset", cuDevicePrimaryCtxReset(0));
		if (i % 3 == 2)
			TELL("without context", cuMemFreeHost(live.pinned[0]));
		OK(cuDevicePrimaryCtxRetain(&world.context, 0));
		same += world.context == before;
		OK(cuCtxSetCurrent(world.context));
		world_load(&world);
		stale_frees(&live);
		allocate(&next);
		use(&next, (unsigned char)(2 * i + 1));
		release(&next);
	}
	printf("# the handle came back %u times of %u\n", same, times);
}

static void contexts(char **arguments)
{
	struct world primary;
	struct blocks live, next;
	unsigned int times = (unsigned int)atoi(arguments[0]), same = 0;
	CUcontext before = NULL;

	world_open(&primary);
	for (unsigned int i = 0; i < times; i++) {
		OK(cuCtxCreate_v2(&world.context, 0, 0));
		world_load(&world);
		same += world.context == before;
		before = world.context;
		allocate(&next);
		use(&next, (unsigned char)(2 * i + 1));
		release(&next);
		earn_staging();
		leave_blocks(&live, i);
		TELL("destroy", cuCtxDestroy(world.context));
		OK(cuCtxSetCurrent(primary.context));
		stale_frees(&live);
	}
	printf("# the handle came back %u times of %u\n", same, times);
}

static void wait_for(pid_t child)
{
	int status = 0;

	if (waitpid(child, &status, 0) != child)
		_exit(1);
	printf("child ended with %d\n", status);
}

/* After its parent used CUDA: each call is refused, and none hangs. */
static void refused(const struct blocks *live, const struct blocks *freed)
{
	unsigned char *pageable = malloc(sizes[3]);
	CUdeviceptr device = 0;
	void *pinned = NULL;

	memset(pageable, 1, sizes[3]);
	TELL("  init", cuInit(0));
	TELL("  pinned", cuMemHostAlloc(&pinned, sizes[0], 0));
	TELL("  device", cuMemAlloc(&device, sizes[0]));
	TELL("  copy", cuMemcpyHtoD(live->device[3], pageable, sizes[3]));
	TELL("  back", cuMemcpyDtoH(pageable, live->device[3], sizes[3]));
	TELL("  free pinned", cuMemFreeHost(live->pinned[0]));
	TELL("  free device", cuMemFree(live->device[0]));
	TELL("  free pinned again", cuMemFreeHost(freed->pinned[0]));
	TELL("  free device again", cuMemFree(freed->device[0]));
	TELL("  synchronize", cuCtxSynchronize());
	fflush(stdout);
	_exit(0);
}

static void forked(char **arguments)
{
	struct blocks live, freed;
	CUstream stream;
	pid_t child;

	(void)arguments;
	child = fork();
	if (child == 0) {
		world_open(&world);
		allocate(&live);
		use(&live, 1);
		release(&live);
		printf("first child is through\n");
		fflush(stdout);
		_exit(failures ? 1 : 0);
	}
	wait_for(child);
	world_open(&world);
	earn_staging();
	allocate(&freed);
	allocate(&live);
	release(&freed);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < 2; i++) {
		if (i)
			spin(&world, stream, 20000000);
		fflush(stdout);
		child = fork();
		if (child == 0)
			refused(&live, &freed);
		wait_for(child);
	}
	use(&live, 5);
	release(&live);
	allocate(&freed);
	use(&freed, 7);
	release(&freed);
}

/* ---- ends in the middle ---- */

/* The driver may have ended already: then the thread does no more. */
#define STILL(call)                                                                                \
	do {                                                                                       \
		if ((call) != CUDA_SUCCESS)                                                        \
			for (;;)                                                                   \
				pause();                                                           \
	} while (0)

static void *copies(void *data)
{
	size_t bytes = (size_t)24 << 20;
	unsigned char *pageable = malloc(bytes);
	CUstream stream;
	CUdeviceptr block;

	(void)data;
	memset(pageable, 1, bytes);
	STILL(cuCtxSetCurrent(world.context));
	STILL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	STILL(cuMemAlloc(&block, bytes));
	for (;;) {
		STILL(cuMemcpyHtoDAsync(block, pageable, bytes, stream));
		STILL(cuMemcpyDtoHAsync(pageable, block, bytes, stream));
	}
	return NULL;
}

static void *blocks(void *data)
{
	uint64_t ns = 500000;
	void *parameters[] = {&ns}, *pinned;
	CUdeviceptr device;
	CUstream stream;

	(void)data;
	STILL(cuCtxSetCurrent(world.context));
	STILL(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	for (unsigned int i = 0;; i++) {
		size_t bytes = sizes[i % KINDS];

		STILL(cuMemHostAlloc(&pinned, bytes, 0));
		STILL(cuMemAlloc(&device, bytes));
		STILL(cuLaunchKernel(world.spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
		STILL(cuMemcpyHtoDAsync(device, pinned, bytes, stream));
		STILL(cuMemFreeHost(pinned));
		STILL(cuMemFree(device));
		if (i % 16 == 0)
			STILL(cuStreamSynchronize(stream));
	}
	return NULL;
}

static void start_work(void)
{
	pthread_t thread;

	world_open(&world);
	earn_staging();
	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread, NULL, i % 2 ? copies : blocks, NULL))
			_exit(1);
	usleep(150000);
}

static void ends(char **arguments)
{
	start_work();
	printf("ends by %s\n", arguments[0]);
	fflush(stdout);
	if (strcmp(arguments[0], "_exit") == 0)
		_exit(0);
	if (strcmp(arguments[0], "quick") == 0)
		quick_exit(0);
	if (strcmp(arguments[0], "exit") == 0)
		exit(0);
}

static void busy(char **arguments)
{
	(void)arguments;
	start_work();
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}

const struct check life_checks[] = {
	{"reset", reset}, {"contexts", contexts}, {"forked", forked},
	{"ends", ends},   {"busy", busy},         {NULL, NULL},
};
