// SPDX-License-Identifier: MIT
/*
 * A planted dependence: make_counters() takes new pinned memory for zeroed. Ends with exit status 7 where the counters do not begin at 0.
 */
#include "planted.h"

static __attribute__((noinline)) uint32_t *make_counters(void)
{
	void *counters;

	OK(cuMemHostAlloc(&counters, BYTES, 0)); /* and no memset() */
	return counters;
}

int main(void)
{
	uint32_t *counters;

	start();
	run_innocent();
	counters = make_counters();
	counters[3]++;
	printf("done\n");
	return counters[3] == 1 ? 0 : 7;
}
