// SPDX-License-Identifier: MIT
/*
 * Random programs of futures, in threads, beside a thread that captures in global mode and one that
 * makes and destroys contexts. What must hold whatever happens: a future that has ended with
 * success has its bytes in host memory; each callback ran once; each future ended; no capture
 * broke. The seed is printed; FUTURE_SEED repeats the choices (not the threads' timing).
 */
#include "support.h"

#include <string.h>

#include "../unit/rounds.h"

#define WORKERS 4
#define STREAMS 3 /* a worker */
#define STEPS   ROUNDS(2000)
#define SLOTS   8

/* A future whose end means that *word is at least `value`. */
struct promise {
	struct slipstream_future *future; /* one reference */
	unsigned int *word;
	unsigned int value;
};

struct worker {
	pthread_t thread;
	uint64_t random;
	CUcontext context;
	CUstream streams[STREAMS];
	unsigned int *words[STREAMS];
	unsigned int values[STREAMS];
};

static CUcontext main_context;
static CUfunction spin[2], fill[2]; /* of each device */
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static struct promise slots[SLOTS];
static unsigned long long callbacks_due, callbacks_run; /* atomic */
static int done;                                        /* atomic */

static void check_kept(struct promise promise, CUresult status)
{
	if (status == CUDA_ERROR_NOT_READY)
		return;
	CHECK(status == CUDA_SUCCESS);
	CHECK(__atomic_load_n(promise.word, __ATOMIC_RELAXED) >= promise.value);
}

static void called_back(CUresult status, void *data)
{
	struct promise *promise = data;

	check_kept(*promise, status);
	CHECK(status != CUDA_ERROR_NOT_READY);
	free(promise);
	__atomic_fetch_add(&callbacks_run, 1, __ATOMIC_RELAXED);
}

/* Work of a random length, then a new value into the stream's word, then a future. */
static struct promise submit(struct worker *worker, int device, unsigned int which)
{
	uint64_t ns = random_below(&worker->random, 60000);
	unsigned int value = ++worker->values[which], count = 1;
	unsigned int *word = worker->words[which];
	CUdeviceptr there;
	void *spin_parameters[] = {&ns}, *fill_parameters[] = {&there, &value, &count};
	CUstream stream = worker->streams[which];
	struct promise promise = {NULL, word, value};

	OK(cuMemHostGetDevicePointer(&there, word, 0));
	if (random_below(&worker->random, 3) == 0)
		OK(cuLaunchKernel(spin[device], 1, 1, 1, 1, 1, 1, 0, stream, spin_parameters,
				  NULL));
	OK(cuLaunchKernel(fill[device], 1, 1, 1, 1, 1, 1, 0, stream, fill_parameters, NULL));
	promise.future =
		new_future(stream, random_below(&worker->random, 2) ? SLIPSTREAM_FUTURE_MONITOR
								    : SLIPSTREAM_FUTURE_POLL);
	return promise;
}

static void ask_for_callback(struct promise promise)
{
	struct promise *copy = malloc(sizeof(*copy));

	CHECK(copy);
	*copy = promise;
	__atomic_fetch_add(&callbacks_due, 1, __ATOMIC_RELAXED);
	OK(slipstream_future_then(promise.future, called_back, copy));
}

/* Leaves a future for other threads, whose owner may give it up meanwhile. */
static void publish(struct worker *worker, struct promise promise)
{
	struct promise *slot = &slots[random_below(&worker->random, SLOTS)], old;

	slipstream_future_share(promise.future);
	pthread_mutex_lock(&slots_lock);
	old = *slot;
	*slot = promise;
	pthread_mutex_unlock(&slots_lock);
	slipstream_future_destroy(old.future);
}

static void wait_for_others(struct worker *worker)
{
	struct promise *slot = &slots[random_below(&worker->random, SLOTS)], promise;

	pthread_mutex_lock(&slots_lock);
	promise = *slot;
	if (promise.future)
		slipstream_future_share(promise.future);
	pthread_mutex_unlock(&slots_lock);
	if (!promise.future)
		return;
	check_kept(promise, slipstream_future_wait_for(promise.future,
						       random_below(&worker->random, 100000)));
	slipstream_future_destroy(promise.future);
}

static void *work(void *data)
{
	struct worker *worker = data;
	int device = worker->context != main_context;

	OK(cuCtxSetCurrent(worker->context));
	for (int i = 0; i < STEPS; i++) {
		struct promise promise = submit(
			worker, device, (unsigned int)random_below(&worker->random, STREAMS));

		if (random_below(&worker->random, 3) == 0)
			ask_for_callback(promise);
		switch (random_below(&worker->random, 6)) {
		case 0:
			check_kept(promise, slipstream_future_wait_for(promise.future, LONG));
			check_kept(promise, slipstream_future_status(promise.future));
			break;
		case 1:
			check_kept(promise, slipstream_future_status(promise.future));
			break;
		case 2:
			publish(worker, promise);
			break;
		case 3:
			wait_for_others(worker);
			break;
		case 4:
			ask_for_callback(promise);
			check_kept(promise, slipstream_future_wait(promise.future));
			break;
		default:
			break;
		}
		slipstream_future_destroy(promise.future);
	}
	return NULL;
}

static void *capture(void *unused)
{
	CUstream stream;
	CUgraph graph;

	OK(cuCtxSetCurrent(main_context));
	stream = new_stream();
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		pause_ns(MS);
		OK(cuStreamEndCapture(stream, &graph));
		OK(cuGraphDestroy(graph));
		pause_ns(MS / 2);
	}
	return unused;
}

static void *churn(void *unused)
{
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		struct slipstream_future *futures[8];
		CUcontext context;
		CUstream stream;

		OK(cuCtxCreate_v4(&context, NULL, 0, 0));
		stream = new_stream();
		for (int i = 0; i < 8; i++)
			futures[i] = new_future(stream, i % 2 ? SLIPSTREAM_FUTURE_MONITOR
							      : SLIPSTREAM_FUTURE_POLL);
		slipstream_future_end_context(context);
		OK(cuCtxDestroy(context));
		for (int i = 0; i < 8; i++) {
			CUresult status = slipstream_future_wait_for(futures[i], LONG);

			CHECK(status == CUDA_SUCCESS || status == CUDA_ERROR_CONTEXT_IS_DESTROYED);
			slipstream_future_destroy(futures[i]);
		}
		pause_ns(MS / 2);
	}
	return unused;
}

static void prepare(struct worker *worker, CUcontext context, uint64_t seed)
{
	worker->random = seed;
	worker->context = context;
	OK(cuCtxSetCurrent(context));
	for (int s = 0; s < STREAMS; s++) {
		worker->streams[s] = new_stream();
		worker->words[s] = new_words(1);
	}
}

int main(void)
{
	static struct worker workers[WORKERS];
	uint64_t seed = test_seed("stress");
	CUcontext contexts[2];
	pthread_t others[2];
	struct slipstream_future_counts counts;
	uint64_t start;

	alarm(150);
	for (int d = 0; d < 2; d++) {
		contexts[d] = start_driver(d);
		spin[d] = find_kernel("spin");
		fill[d] = find_kernel("fill");
	}
	main_context = contexts[0];
	for (int w = 0; w < WORKERS; w++)
		prepare(&workers[w], contexts[w % 2],
			(seed + (uint64_t)w) * 0x9e3779b97f4a7c15ull | 1);
	CHECK(!pthread_create(&others[0], NULL, capture, NULL));
	CHECK(!pthread_create(&others[1], NULL, churn, NULL));
	for (int w = 0; w < WORKERS; w++)
		CHECK(!pthread_create(&workers[w].thread, NULL, work, &workers[w]));
	for (int w = 0; w < WORKERS; w++)
		pthread_join(workers[w].thread, NULL);
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	pthread_join(others[0], NULL);
	pthread_join(others[1], NULL);
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].future) {
			check_kept(slots[i], slipstream_future_wait_for(slots[i].future, LONG));
			slipstream_future_destroy(slots[i].future);
		}
	for (start = slipstream_future_now_(); __atomic_load_n(&callbacks_run, __ATOMIC_RELAXED) <
					       __atomic_load_n(&callbacks_due, __ATOMIC_RELAXED);
	     pause_ns(MS))
		CHECK(slipstream_future_now_() - start < LONG);
	pause_ns(10 * MS);
	CHECK(callbacks_run == callbacks_due);
	counts = slipstream_future_get_counts();
	printf("%llu futures, %llu callbacks, %llu queries, %llu events\n", counts.created,
	       callbacks_run, counts.queries, counts.events);
	CHECK(counts.monitors == 1);
	return 0;
}
