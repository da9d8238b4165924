// SPDX-License-Identifier: MIT
/* Whole programs that are right: pipelines over streams, events, pools, graphs, threads and devices. */
#include "calls.h"

#define SLOTS 3

/* Copies in, a kernel and copies out on streams of their own, ordered by events; the host waits for the slot that it fills again. */
static void three_streams(void)
{
	CUstream out = new_stream(CU_STREAM_NON_BLOCKING);
	CUevent loaded[SLOTS], computed[SLOTS], stored[SLOTS];
	unsigned int count = BYTES / 4;

	for (int i = 0; i < SLOTS; i++) {
		loaded[i] = new_event(CU_EVENT_DISABLE_TIMING);
		computed[i] = new_event(CU_EVENT_DISABLE_TIMING);
		stored[i] = new_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
	}
	for (unsigned int round = 0; round < 10 * SLOTS; round++) {
		unsigned int slot = round % SLOTS;
		CUdeviceptr at = data + slot * BYTES;

		if (round >= SLOTS)
			OK(cuEventSynchronize(stored[slot]));
		memset(host + slot * BYTES, (int)round, BYTES);
		OK(cuMemcpyHtoDAsync(at, host + slot * BYTES, BYTES, first));
		OK(cuEventRecord(loaded[slot], first));
		OK(cuStreamWaitEvent(second, loaded[slot], 0));
		OK(LAUNCH(fill, second, &at, &round, &count));
		OK(cuEventRecord(computed[slot], second));
		OK(cuStreamWaitEvent(out, computed[slot], 0));
		OK(cuMemcpyDtoHAsync(host + slot * BYTES, at, BYTES, out));
		OK(cuEventRecord(stored[slot], out));
	}
	OK(cuStreamSynchronize(out));
	OK(cuStreamSynchronize(first));
}

/* Memory of a pool, in the order of one stream. */
static void pool_in_order(void)
{
	unsigned int value = 7, count = BYTES / 4;

	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr memory;

		OK(cuMemAllocAsync(&memory, BYTES, first));
		OK(LAUNCH(fill, first, &memory, &value, &count));
		OK(cuMemFreeAsync(memory, first));
	}
	OK(cuStreamSynchronize(first));
}

/* The same, made on one stream, used on a second one and given back on the first. */
static void pool_across_streams(void)
{
	unsigned int value = 7, count = BYTES / 4;

	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr memory;

		OK(cuMemAllocAsync(&memory, BYTES, first));
		order(first, second);
		OK(LAUNCH(fill, second, &memory, &value, &count));
		order(second, first);
		OK(cuMemFreeAsync(memory, first));
	}
	OK(cuStreamSynchronize(first));
}

/* Two streams read what one wrote, and write apart. */
static void readers(void)
{
	unsigned long bytes = BYTES;
	CUdeviceptr apart = result + BYTES;
	CUfunction copy = own_kernel("copy");

	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemsetD8Async(data, (unsigned char)i, BYTES, first));
		order(first, second);
		OK(LAUNCH(copy, first, &result, &data, &bytes));
		OK(cuMemcpyDtoDAsync(apart, data, BYTES, second));
		order(second, first);
	}
	OK(cuStreamSynchronize(first));
}

struct worker {
	CUstream stream;
	CUdeviceptr memory;
	uint8_t *host;
};

static void *work(void *context_)
{
	struct worker *worker = context_;
	unsigned int value = 7, count = BYTES / 4;

	OK(cuCtxSetCurrent(own_context));
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemcpyHtoDAsync(worker->memory, worker->host, BYTES, worker->stream));
		OK(LAUNCH(fill, worker->stream, &worker->memory, &value, &count));
	}
	OK(cuStreamSynchronize(worker->stream));
	return NULL;
}

static void threads(void)
{
	struct worker workers[4];
	pthread_t ids[4];

	for (int i = 0; i < 4; i++) {
		workers[i] = (struct worker){.stream = new_stream(CU_STREAM_NON_BLOCKING),
					     .memory = data + i * BYTES,
					     .host = host + i * BYTES};
		ids[i] = new_thread(work, &workers[i]);
	}
	for (int i = 0; i < 4; i++)
		(void)pthread_join(ids[i], NULL);
}

#define WAITS 24

static CUevent ends[WAITS];

static void *wait_for_ends(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(own_context));
	for (int i = 0; i < WAITS; i++)
		OK(cuEventSynchronize(ends[i]));
	return NULL;
}

/* One thread only waits, the other one works on meanwhile. */
static void waiting_thread_beside_work(void)
{
	pthread_t waiter;

	for (int i = 0; i < WAITS; i++) {
		ends[i] = new_event(CU_EVENT_DISABLE_TIMING);
		spin_on(first, BUSY);
		OK(cuEventRecord(ends[i], first));
	}
	waiter = new_thread(wait_for_ends, NULL);
	while (cuEventQuery(ends[WAITS - 1]) == CUDA_ERROR_NOT_READY) {
		OK(cuMemsetD8Async(data, 0, BYTES, second));
		sleep_ms(1);
	}
	(void)pthread_join(waiter, NULL);
	OK(cuStreamSynchronize(second));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int asked, answered;

static void reach(int *number, int value)
{
	(void)pthread_mutex_lock(&lock);
	*number = value;
	(void)pthread_cond_broadcast(&changed);
	(void)pthread_mutex_unlock(&lock);
}

static void wait_until(const int *number, int value)
{
	(void)pthread_mutex_lock(&lock);
	while (*number < value)
		(void)pthread_cond_wait(&changed, &lock);
	(void)pthread_mutex_unlock(&lock);
}

static void *answer(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(own_context));
	for (int i = 1; i <= ROUNDS; i++) {
		wait_until(&asked, i);
		spin_on(first, BUSY / 2);
		OK(cuStreamSynchronize(first));
		reach(&answered, i);
	}
	return NULL;
}

/* A worker that submits what it waits for is no thread that is blocked for somebody else's work. */
static void worker_that_submits(void)
{
	pthread_t worker = new_thread(answer, NULL);

	for (int i = 1; i <= ROUNDS; i++) {
		OK(cuMemsetD8Async(data, 0, BYTES, second));
		reach(&asked, i);
		wait_until(&answered, i);
	}
	(void)pthread_join(worker, NULL);
	OK(cuStreamSynchronize(second));
}

/* Everything on the legacy stream and in synchronous copies: slow, and right. */
static void legacy_only(void)
{
	unsigned int value = 7, count = BYTES / 4;

	OK(cuMemcpyHtoD(data, host, BYTES));
	OK(LAUNCH(fill, NULL, &data, &value, &count));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemcpyDtoH(host, data, BYTES));
}

/* The host hands over: what it waited for is used elsewhere, once. */
static void handed_over_by_the_host(void)
{
	unsigned int value = 7, count = BYTES / 4;

	OK(LAUNCH(fill, first, &data, &value, &count));
	OK(cuStreamSynchronize(first));
	OK(cuMemcpyDtoHAsync(host, data, BYTES, second));
	OK(cuStreamSynchronize(second));
}

static void CUDA_CB called(void *counter)
{
	++*(int *)counter;
}

static void host_functions(void)
{
	static int counter;

	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemcpyDtoHAsync(host, data, BYTES, first));
		OK(cuLaunchHostFunc(first, called, &counter));
	}
	OK(cuStreamSynchronize(first));
	if (counter != ROUNDS)
		exit(1);
}

const struct named clean_pipelines[] = {
	{"three-streams", three_streams},
	{"pool-in-order", pool_in_order},
	{"pool-across-streams", pool_across_streams},
	{"readers", readers},
	{"threads", threads},
	{"waiting-thread-beside-work", waiting_thread_beside_work},
	{"worker-that-submits", worker_that_submits},
	{"legacy-only", legacy_only},
	{"handed-over-by-the-host", handed_over_by_the_host},
	{"host-functions", host_functions},
	{NULL, NULL},
};
