// SPDX-License-Identifier: MIT
/*
 * Programs that must end: full queues, first launches, and host functions that want a mutex of a thread that is in the driver.
 */
#include "deadlocks.h"

#include <pthread.h>
#include <unistd.h>

#include "../../simcuda/kernels.h"

/* ---- full queues ---- */

static void full(CUstream gated, CUstream filled, CUstream other)
{
	pthread_t thread;

	shut(gated, 1);
	start(&thread, open_later, (void *)1);
	for (uint32_t i = 0; i < 1100; i++) {
		work(filled, 1, i);
		if (i % 64 == 0)
			work(other, 2, i);
	}
	pthread_join(thread, NULL);
	OK(cuCtxSynchronize());
	printf("%016llx %016llx\n", (unsigned long long)get(1), (unsigned long long)get(2));
}

static void full_legacy(void)
{
	full(NULL, NULL, mixed());
}

static void full_blocking(void)
{
	CUstream a = mixed();

	full(a, a, NULL);
}

static void full_blocking_behind_legacy(void)
{
	full(NULL, mixed(), NULL);
}

static void full_legacy_behind_blocking(void)
{
	CUstream a = mixed();

	full(a, NULL, a);
}

static void full_per_thread(void)
{
	(void)mixed();
	full(CU_STREAM_PER_THREAD, CU_STREAM_PER_THREAD, NULL);
}

struct opener {
	CUstream stream, touched;
	bool touches_legacy;
};

/* The gate opens only once this thread has put work on streams of its own: nobody may keep it from that. */
static void *work_then_open(void *data)
{
	struct opener *opener = data;

	OK(cuCtxSetCurrent(deadlocks_context));
	usleep(200000);
	for (uint32_t i = 0; i < 10; i++) {
		work(opener->stream, 3, i);
		if (opener->touches_legacy)
			work(NULL, 4, i);
	}
	OK(cuStreamDestroy(make_stream(CU_STREAM_DEFAULT)));
	gates[1] = 1;
	return NULL;
}

/* `behind_legacy`: the full stream has to be told of the legacy stream's work when it is full. */
static void full_opened_by_worker(bool behind_legacy, bool touches_legacy)
{
	CUstream a = mixed();
	struct opener opener = {make_stream(CU_STREAM_DEFAULT), a, touches_legacy};
	pthread_t thread;

	shut(a, 1);
	for (uint32_t i = 0; i < 1023; i++)
		work(a, 1, i);
	start(&thread, work_then_open, &opener);
	if (behind_legacy)
		work(NULL, 2, 5);
	work(a, 1, 2000); /* waits for room */
	work(a, 1, 2001);
	pthread_join(thread, NULL);
	OK(cuCtxSynchronize());
	for (unsigned int i = 1; i < 5; i++)
		printf("%016llx\n", (unsigned long long)get(i));
}

static void full_opened_by_worker_plain(void)
{
	full_opened_by_worker(false, false);
}

static void full_opened_by_worker_behind_legacy(void)
{
	full_opened_by_worker(true, false);
}

static void full_opened_by_worker_on_legacy(void)
{
	full_opened_by_worker(true, true);
}

/* The gate is opened by who filled the queue: `count` operations on each, none of which waits for room in the driver. */
static void opened_by_same(uint32_t count)
{
	CUstream a = mixed();

	shut(NULL, 1);
	for (uint32_t i = 0; i < count; i++) {
		work(a, 1, i);
		work(NULL, 1, i);
	}
	gates[1] = 1;
	OK(cuCtxSynchronize());
	printf("%016llx\n", (unsigned long long)get(1));
}

static void opened_by_same_300(void)
{
	opened_by_same(300);
}

static void opened_by_same_1000(void)
{
	opened_by_same(1000);
}

/* ---- first launches ---- */

static CUfunction fresh_function(void)
{
	CUfunction function;
	CUmodule module;

	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&function, module, "hash"));
	return function;
}

struct first {
	CUstream stream;
	CUfunction function;
};

static void *launch_first(void *data)
{
	struct first *first = data;

	OK(cuCtxSetCurrent(deadlocks_context));
	OK(put(first->function, first->stream, 5, 1));
	return NULL;
}

/* A first launch waits for a persistent kernel; meanwhile others launch, and one of them ends it. */
static void first_launch(CUstream persistent, CUstream first_stream, bool others_on_legacy)
{
	CUstream a = mixed(), b = make_stream(CU_STREAM_DEFAULT);
	struct first first = {first_stream, fresh_function()};
	pthread_t thread;

	shut(persistent, 1);
	start(&thread, launch_first, &first);
	usleep(100000);
	for (uint32_t i = 0; i < 20; i++) {
		work(a, 1, i);
		if (others_on_legacy)
			work(NULL, 2, i);
		work(b, 3, i);
	}
	gates[1] = 1;
	pthread_join(thread, NULL);
	OK(cuCtxSynchronize());
	for (unsigned int i = 1; i < 6; i++)
		printf("%016llx\n", (unsigned long long)get(i));
}

static void first_launch_on_legacy(void)
{
	first_launch(make_stream(CU_STREAM_NON_BLOCKING), NULL, true);
}

static void first_launch_on_blocking(void)
{
	first_launch(make_stream(CU_STREAM_NON_BLOCKING), make_stream(CU_STREAM_DEFAULT), true);
}

static void first_launch_on_loose(void)
{
	first_launch(make_stream(CU_STREAM_DEFAULT), make_stream(CU_STREAM_NON_BLOCKING), false);
}

/* ---- host functions and mutexes ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int calls;

static void CUDA_CB take_mutex(void *data)
{
	pthread_mutex_lock(&mutex);
	calls++;
	pthread_mutex_unlock(&mutex);
}

static void held_while_submitting(void)
{
	CUstream a = mixed();

	for (int round = 0; round < 20; round++) {
		pthread_mutex_lock(&mutex);
		for (uint32_t i = 0; i < 20; i++) {
			work(a, 1, i);
			OK(cuLaunchHostFunc(NULL, take_mutex, NULL));
			work(NULL, 1, i);
			OK(cuLaunchHostFunc(a, take_mutex, NULL));
		}
		pthread_mutex_unlock(&mutex);
		OK(cuStreamSynchronize(NULL));
	}
	printf("%d calls, %016llx\n", calls, (unsigned long long)get(1));
}

/* Who has the mutex waits for what came before the host function, or has nothing to do with it. */
static void held_while_synchronizing(void)
{
	CUstream a = mixed(), n = make_stream(CU_STREAM_NON_BLOCKING);
	CUevent before;

	OK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
	for (uint32_t i = 0; i < 50; i++) {
		pthread_mutex_lock(&mutex);
		work(a, 1, i);
		OK(cuEventRecord(before, NULL));
		OK(cuLaunchHostFunc(NULL, take_mutex, NULL));
		work(n, 2, i);
		OK(cuStreamSynchronize(n));
		OK(cuStreamSynchronize(a));
		OK(cuEventSynchronize(before));
		pthread_mutex_unlock(&mutex);
		OK(cuStreamSynchronize(NULL));
	}
	OK(cuCtxSynchronize());
	printf("%d calls, %016llx\n", calls, (unsigned long long)get(1));
}

const struct named_case queue_programs[] = {
	{"full-legacy-stream", full_legacy},
	{"full-blocking-stream", full_blocking},
	{"full-blocking-stream-behind-legacy", full_blocking_behind_legacy},
	{"full-legacy-stream-behind-blocking", full_legacy_behind_blocking},
	{"full-per-thread-stream", full_per_thread},
	{"full-stream-opened-by-a-working-thread", full_opened_by_worker_plain},
	{"full-stream-behind-legacy-opened-by-a-working-thread",
	 full_opened_by_worker_behind_legacy},
	{"full-stream-opened-by-a-thread-on-legacy", full_opened_by_worker_on_legacy},
	{"deep-queues-opened-by-their-own-thread", opened_by_same_300},
	{"deepest-queues-opened-by-their-own-thread", opened_by_same_1000},
	{"first-launch-on-legacy", first_launch_on_legacy},
	{"first-launch-on-blocking", first_launch_on_blocking},
	{"first-launch-on-loose", first_launch_on_loose},
	{"mutex-held-while-submitting", held_while_submitting},
	{"mutex-held-while-synchronizing", held_while_synchronizing},
	{NULL, NULL},
};
