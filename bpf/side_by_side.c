// SPDX-License-Identifier: MIT
#include "side_by_side.h"

#include <pthread.h>

enum { THREADS = 32 };

struct work {
	size_t next, count; /* next: taken by one thread each; count: fixed */
	void (*each)(size_t number, void *data);
	void *data;
};

static void *take_next(void *data)
{
	struct work *work = data;
	size_t i;

	/* Relaxed: nothing but the number is told by it; creating and joining the threads orders the rest. */
	while ((i = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->count)
		work->each(i, work->data);
	return NULL;
}

void side_by_side(size_t count, void (*each)(size_t number, void *data), void *data)
{
	struct work work = {.count = count, .each = each, .data = data};
	pthread_t thread[THREADS];
	size_t threads = 0;

	while (threads < THREADS && threads + 1 < count &&
	       !pthread_create(&thread[threads], NULL, take_next, &work))
		threads++;
	take_next(&work);
	while (threads > 0)
		pthread_join(thread[--threads], NULL);
}
