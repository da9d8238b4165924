// SPDX-License-Identifier: MIT
/*
 * What a call of the header costs where nothing is preloaded: printed, and below 2 ns. The loop
 * without the call is measured in the same go and taken off. The best of many short rounds
 * counts, since a busy machine only ever adds.
 */
#include <slipstream/slipstream.h>

#include <stdio.h>
#include <time.h>

#define ROUNDS    200
#define CALLS     100000
#define LIMIT_NS  2.0
#define BARRIER() __asm__ volatile("" ::: "memory")

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(void)
{
	double best_empty = 1e18, best_call = 1e18, cost;

	if (slipstream_is_present()) {
		fprintf(stderr,
			"cost: slipstream is preloaded; this measures the cost without it\n");
		return 1;
	}
	for (int round = 0; round < ROUNDS; round++) {
		double start = now_ns(), middle, end;

		for (int i = 0; i < CALLS; i++)
			BARRIER();
		middle = now_ns();
		for (int i = 0; i < CALLS; i++) {
			slipstream_region_begin("cost");
			BARRIER();
			slipstream_region_end();
			BARRIER();
		}
		end = now_ns();
		if (middle - start < best_empty)
			best_empty = middle - start;
		if (end - middle < best_call)
			best_call = end - middle;
	}
	cost = (best_call - best_empty) / (2.0 * CALLS);
	printf("one call without the preload: %.2f ns (limit %.1f ns)\n", cost, LIMIT_NS);
	return cost < LIMIT_NS ? 0 : 1;
}
