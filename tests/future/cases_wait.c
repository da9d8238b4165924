// SPDX-License-Identifier: MIT
/* Waits: ends, time-outs, many waiters, destruction, cancellation, how often is asked. */
#include "cases.h"
#include "support.h"

#define THREADS 32

static const enum slipstream_future_mode modes[] = {SLIPSTREAM_FUTURE_MONITOR,
						    SLIPSTREAM_FUTURE_POLL};
#define EACH_MODE(mode) for (unsigned int m_ = 0, mode; m_ < 2 && (mode = modes[m_], 1); m_++)

static void fill(CUfunction kernel, CUdeviceptr to, unsigned int value, CUstream stream)
{
	unsigned int count = 1;
	void *parameters[] = {&to, &value, &count};

	OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

/* Not before the work is over, and then its bytes are there. */
static void ends_with_the_work(void)
{
	unsigned int *word;
	CUfunction kernel;
	struct gate gate;
	CUdeviceptr there;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	word = new_words(1);
	OK(cuMemHostGetDevicePointer(&there, word, 0));
	kernel = find_kernel("fill");
	EACH_MODE(mode)
	{
		struct slipstream_future *future;

		*word = 0;
		gate_close(gate, stream);
		fill(kernel, there, 42, stream);
		future = new_future(stream, mode);
		CHECK(slipstream_future_status(future) == CUDA_ERROR_NOT_READY);
		CHECK(slipstream_future_wait_for(future, 5 * MS) == CUDA_ERROR_NOT_READY);
		CHECK(*word == 0);
		gate_open(gate);
		CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
		CHECK(*word == 42);
		CHECK(slipstream_future_status(future) == CUDA_SUCCESS);
		CHECK(slipstream_future_wait_for(future, 0) == CUDA_SUCCESS);
		slipstream_future_destroy(future);
	}
}

static void idle_stream_ends_at_once(void)
{
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	EACH_MODE(mode)
	{
		struct slipstream_future *future = new_future(stream, mode);

		CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
		slipstream_future_destroy(future);
	}
}

static void time_out_is_kept(void)
{
	struct gate gate;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	EACH_MODE(mode)
	{
		struct slipstream_future *future;
		uint64_t start, waited;

		gate_close(gate, stream);
		future = new_future(stream, mode);
		start = slipstream_future_now_();
		CHECK(slipstream_future_wait_for(future, 20 * MS) == CUDA_ERROR_NOT_READY);
		waited = slipstream_future_now_() - start;
		CHECK(waited >= 20 * MS && waited < LONG);
		CHECK(slipstream_future_wait_for(future, 0) == CUDA_ERROR_NOT_READY);
		gate_open(gate);
		/* So long that the end of the time overflows: no limit. */
		CHECK(slipstream_future_wait_for(future, UINT64_MAX - 1) == CUDA_SUCCESS);
		slipstream_future_destroy(future);
	}
}

static void *wait_thread(void *data)
{
	struct slipstream_future *future = data;

	CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
	return NULL;
}

/* The owner gives up first; each waiter has a share. */
static void many_threads_wait_for_one(void)
{
	pthread_t threads[THREADS];
	struct gate gate;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	EACH_MODE(mode)
	{
		struct slipstream_future *future;

		gate_close(gate, stream);
		future = new_future(stream, mode);
		for (int i = 0; i < THREADS; i++)
			CHECK(!pthread_create(&threads[i], NULL, wait_thread,
					      slipstream_future_share(future)));
		slipstream_future_destroy(future);
		pause_ns(3 * MS);
		gate_open(gate);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
}

/* What an unfinished future holds comes back: its event is used again. */
static void destroyed_unfinished_gives_its_event_back(void)
{
	struct slipstream_future_counts before, after;
	struct gate gate;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	/* Poll first, while there are no spare events of others. */
	for (int m = SLIPSTREAM_FUTURE_POLL; m >= SLIPSTREAM_FUTURE_MONITOR; m--) {
		enum slipstream_future_mode mode = (enum slipstream_future_mode)m;

		gate_close(gate, stream);
		before = slipstream_future_get_counts();
		for (int i = 0; i < 100; i++)
			slipstream_future_destroy(new_future(stream, mode));
		gate_open(gate);
		for (int i = 0; i < 10; i++) {
			struct slipstream_future *future = new_future(stream, mode);

			CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
			slipstream_future_destroy(future);
		}
		after = slipstream_future_get_counts();
		CHECK(after.created - before.created == 110);
		CHECK(after.events - before.events <= (mode == SLIPSTREAM_FUTURE_POLL ? 1u : 101u));
	}
}

static void events_are_used_again_and_have_no_timing(void)
{
	struct slipstream_future_counts counts;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	for (int i = 0; i < 1000; i++)
		EACH_MODE(mode)
		{
			struct slipstream_future *future = new_future(stream, mode);

			if (i == 0) {
				float time;

				/* Of an event with timing, it would be SUCCESS or NOT_READY. */
				CHECK(cuEventElapsedTime(&time, future->event, future->event) ==
				      CUDA_ERROR_INVALID_HANDLE);
			}
			CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
			slipstream_future_destroy(future);
		}
	counts = slipstream_future_get_counts();
	CHECK(counts.created == 2000 && counts.ended == 2000);
	/* A waiter wakes before the monitor has given the event back. */
	CHECK(counts.events <= 20);
}

static void *cancelled_thread(void *data)
{
	int before;

	CHECK(slipstream_future_wait_for(data, 30 * MS) == CUDA_ERROR_NOT_READY);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	CHECK(before == PTHREAD_CANCEL_ENABLE);
	return data;
}

static void cancelled_waiter_holds_no_lock(void)
{
	struct slipstream_future *future;
	pthread_t thread;
	struct gate gate;
	CUstream stream;
	void *result;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	gate_close(gate, stream);
	future = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	CHECK(!pthread_create(&thread, NULL, cancelled_thread, future));
	pause_ns(10 * MS);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	CHECK(result == future); /* a wait is no cancellation point */
	gate_open(gate);
	CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
}

/* About 150 questions in the first millisecond, 20 in each later one, however long it takes. */
static void poll_asks_a_bounded_number_of_times(void)
{
	struct slipstream_future_counts before, after;
	struct slipstream_future *future;
	uint64_t start, waited;
	struct gate gate;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	CHECK(!prctl(PR_SET_TIMERSLACK, 54321, 0, 0, 0));
	gate_close(gate, stream);
	future = new_future(stream, SLIPSTREAM_FUTURE_POLL);
	before = slipstream_future_get_counts();
	start = slipstream_future_now_();
	CHECK(slipstream_future_wait_for(future, 100 * MS) == CUDA_ERROR_NOT_READY);
	waited = slipstream_future_now_() - start;
	after = slipstream_future_get_counts();
	printf("%llu queries in %llu us\n", after.queries - before.queries,
	       (unsigned long long)(waited / 1000));
	CHECK(after.queries - before.queries <= 170 + 20 * (waited / MS + 1));
	CHECK(after.monitors == 0);
	CHECK(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 54321); /* the thread's own */
	gate_open(gate);
	CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
}

static void *leaving_thread(void *data)
{
	struct slipstream_future **future = data;

	OK(cuCtxSetCurrent((CUcontext)future[1]));
	/* The stream, too, belongs to the thread. */
	future[0] = new_future(CU_STREAM_PER_THREAD, SLIPSTREAM_FUTURE_MONITOR);
	return NULL;
}

static void thread_ends_before_its_future(void)
{
	struct slipstream_future *future[2];
	pthread_t thread;

	future[1] = (struct slipstream_future *)start_driver(0);
	for (int i = 0; i < 50; i++) {
		CHECK(!pthread_create(&thread, NULL, leaving_thread, future));
		pthread_join(thread, NULL);
		CHECK(slipstream_future_wait_for(future[0], LONG) == CUDA_SUCCESS);
		slipstream_future_destroy(future[0]);
	}
}

const struct future_case wait_cases[] = {
	{"ends-with-the-work", ends_with_the_work, 0, NULL},
	{"idle-stream-ends-at-once", idle_stream_ends_at_once, 0, NULL},
	{"time-out-is-kept", time_out_is_kept, 0, NULL},
	{"many-threads-wait-for-one", many_threads_wait_for_one, 0, NULL},
	{"destroyed-unfinished-gives-its-event-back", destroyed_unfinished_gives_its_event_back, 0,
	 NULL},
	{"events-are-used-again-and-have-no-timing", events_are_used_again_and_have_no_timing, 0,
	 NULL},
	{"cancelled-waiter-holds-no-lock", cancelled_waiter_holds_no_lock, 0, NULL},
	{"poll-asks-a-bounded-number-of-times", poll_asks_a_bounded_number_of_times, 0, NULL},
	{"thread-ends-before-its-future", thread_ends_before_its_future, 0, NULL},
	{NULL, NULL, 0, NULL},
};
