// SPDX-License-Identifier: MIT
/* Several threads at once (guarded.h). */
#include "guarded.h"

#define THREADS 8

static volatile uint32_t *host;
static pthread_barrier_t barrier;

static void *read_all(void *argument)
{
	(void)pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < REGION / 4; i += 16)
		sum += host[i]; /* FOUND: one-copy L01 */
	return argument;
}

/* All fault at once: it is told once, or each time that it still was too early, and all go on. */
static void one_copy(void)
{
	pthread_t threads[THREADS];

	host = pinned(REGION);
	CHECK(!pthread_barrier_init(&barrier, NULL, THREADS + 1));
	for (int i = 0; i < THREADS; i++)
		threads[i] = new_thread(read_all, NULL);
	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream));
	(void)pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	OK(cuStreamSynchronize(stream));
	CHECK(host[0] == 42);
}

struct worker {
	CUstream stream;
	CUdeviceptr data;
	volatile uint32_t *host;
	bool is_early;
};

static void *work(void *argument)
{
	struct worker *worker = argument;

	OK(cuCtxSetCurrent(context));
	for (uint32_t i = 0; i < 100; i++) {
		OK(cuMemsetD32Async(worker->data, i, 256, worker->stream));
		OK(cuMemcpyDtoHAsync((void *)worker->host, worker->data, 1024, worker->stream));
		if (worker->is_early)
			sum += worker->host[i]; /* FOUND: early-and-not L01 */
		OK(cuStreamSynchronize(worker->stream));
		CHECK(worker->host[0] == i && worker->host[255] == i);
		worker->host[5] = 0;
	}
	return argument;
}

/* Neighbours on the same pages: each has a quarter of one. */
static void run_workers(bool with_early)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	char *pages = pinned(THREADS * 1024);

	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.stream = new_stream(CU_STREAM_NON_BLOCKING),
			.data = on_device(4096),
			.host = (void *)(pages + (size_t)i * 1024),
			.is_early = with_early && i == 0,
		};
		threads[i] = new_thread(work, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static void early_and_not(void)
{
	run_workers(true);
}

static void all_wait(void)
{
	run_workers(false);
}

static const struct guard_case cases[] = {
	{"one-copy", one_copy},
	{"early-and-not", early_and_not},
	{"all-wait", all_wait},
};

CASES(cases)
