// SPDX-License-Identifier: MIT
/*
 * Two planted dependences, of which one alone spoils the outcome: both make_counters() and make_sums() take new pinned memory for zeroed.
 */
#include "planted.h"

static __attribute__((noinline)) unsigned char *make_counters(void)
{
	void *memory;

	OK(cuMemHostAlloc(&memory, BYTES, 0));
	return memory;
}

static __attribute__((noinline)) unsigned char *make_sums(void)
{
	void *memory;

	OK(cuMemHostAlloc(&memory, 2 * BYTES, 0));
	return memory;
}

int main(void)
{
	unsigned char *counters, *sums;
	void *large;

	start();
	run_innocent();
	OK(cuMemHostAlloc(&large, 2 * BYTES, 0));
	memset(large, 1, 2 * BYTES);
	OK(cuMemFreeHost(large));
	counters = make_counters();
	sums = make_sums();
	printf("%d %d\n", counters[7], sums[7]);
	return 0;
}
