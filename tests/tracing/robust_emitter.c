// SPDX-License-Identifier: MIT
/*
 * Emitter: emits a known number of events of the provider's name and no others, for the tests of what
 * slipstream trace counts as lost. No CUDA. Usage: robust-emitter THREADS COUNT; ends with status 5.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "robust_emitter_events.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MAX 64

static unsigned int count;

static void *emit(void *unused)
{
	(void)unused;
	for (unsigned int i = 0; i < count; i++)
		lttng_ust_tracepoint(slipstream, wait, i, 1000);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned int threads = argc == 3 ? (unsigned int)atoi(argv[1]) : 0;
	pthread_t thread[THREADS_MAX];

	if (!threads || threads > THREADS_MAX)
		return 2;
	count = (unsigned int)atoi(argv[2]);
	for (unsigned int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, emit, NULL))
			return 1;
	for (unsigned int i = 0; i < threads; i++)
		(void)pthread_join(thread[i], NULL);
	printf("%u\n", threads * count);
	return 5;
}
