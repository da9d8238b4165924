// SPDX-License-Identifier: MIT
/*
 * persistent MS: a kernel polls a word of host memory while pinned and device memory is allocated and freed and copies go on. A helper opens
 * its gate after MS milliseconds, whatever happens: without mode fix the first free waits for that.
 */
#include "safety.h"

#include <pthread.h>
#include <string.h>

#define PAIRS   30
#define SLOW_NS 300000000

static struct world world;
static volatile uint32_t *word;
static unsigned int open_after_ms;

static void *open_gate(void *data)
{
	(void)data;
	usleep(open_after_ms * 1000);
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Of all frees: those that took long, and those that were over while the kernel polled. */
static unsigned int slow, meanwhile;

static void timed_free(void *pinned, CUdeviceptr device)
{
	uint64_t begin = now_ns();

	if (pinned)
		OK(cuMemFreeHost(pinned));
	else
		OK(cuMemFree(device));
	slow += now_ns() - begin > SLOW_NS;
	meanwhile += !*word;
}

/* Allocated, used by another stream, freed. */
static void pair(CUstream stream, CUdeviceptr slot, size_t bytes, unsigned int i)
{
	unsigned char *pinned = pinned_block(bytes);
	CUdeviceptr block = device_block(bytes);

	memset(pinned, (int)(i + 1), bytes);
	OK(cuMemcpyHtoDAsync(block, pinned, bytes, stream));
	OK(cuMemcpyDtoDAsync(slot, block, bytes, stream));
	timed_free(pinned, 0);
	timed_free(NULL, block);
}

static void persistent(char **arguments)
{
	static const size_t sizes[] = {4096, 65536, (size_t)1 << 20};
	unsigned char *pageable = malloc((size_t)32 << 20), *bounce;
	CUstream polling, working;
	CUdeviceptr slot, large;
	void *parameters[1], *pinned;
	pthread_t helper;

	open_after_ms = (unsigned int)atoi(arguments[0]);
	world_open(&world);
	earn_staging();
	polling = new_stream(CU_STREAM_NON_BLOCKING);
	working = new_stream(CU_STREAM_NON_BLOCKING);
	slot = device_block(sizes[2]);
	large = device_block((size_t)32 << 20);
	OK(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	word = pinned;
	*word = 0;
	for (unsigned int i = 0; i < 6; i++) {
		pair(working, slot, sizes[i % 3], i);
		OK(cuCtxSynchronize());
	}
	/* The first copies of a process may take memory of their own. */
	memset(pageable, 1, (size_t)32 << 20);
	OK(cuMemcpyHtoDAsync(large, pageable, (size_t)32 << 20, working));
	OK(cuCtxSynchronize());
	bounce = pinned_block(sizes[2]);
	slow = meanwhile = 0;

	parameters[0] = &pinned;
	OK(cuLaunchKernel(world.gate, 1, 1, 1, 1, 1, 1, 0, polling, parameters, NULL));
	if (pthread_create(&helper, NULL, open_gate, NULL))
		_exit(1);
	for (unsigned int i = 0; i < PAIRS; i++) {
		pair(working, slot, sizes[i % 3], i);
		if (i % 5 == 0) {
			memset(pageable, (int)i, (size_t)32 << 20);
			OK(cuMemcpyHtoDAsync(large, pageable, (size_t)32 << 20, working));
			memset(pageable, 0, (size_t)32 << 20);
			OK(cuStreamSynchronize(working));
			OK(cuMemcpyDtoHAsync(bounce, slot, sizes[i % 3], working));
			OK(cuStreamSynchronize(working));
			EXPECT(is_all(bounce, sizes[i % 3], (unsigned char)(i + 1)));
			OK(cuMemcpyDtoHAsync(pageable, large, (size_t)32 << 20, working));
			EXPECT(is_all(pageable, (size_t)32 << 20, (unsigned char)i));
		}
	}
	printf("# of %u frees %u were slow, %u over while the kernel polled\n", 2 * PAIRS, slow,
	       meanwhile);
	OK(cuStreamSynchronize(working));
	EXPECT(device_is_all(slot, sizes[(PAIRS - 1) % 3], PAIRS));
	pthread_join(helper, NULL);
	OK(cuStreamSynchronize(polling));
}

const struct check gate_checks[] = {{"persistent", persistent}, {NULL, NULL}};
