// SPDX-License-Identifier: MIT
/* The monitor: order, pace, callbacks, many futures at once, streams that are full. */
#include "cases.h"
#include "support.h"

#include <signal.h>

#include "../unit/rounds.h"

#define STREAMS 40
#define EACH    ROUNDS(1000)

static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int journal[STREAMS * 1024];
static unsigned int journal_length;

static void note(CUresult status, void *data)
{
	CHECK(status == CUDA_SUCCESS);
	pthread_mutex_lock(&journal_lock);
	journal[journal_length++] = (unsigned int)(uintptr_t)data;
	pthread_mutex_unlock(&journal_lock);
}

static unsigned int noted(void)
{
	unsigned int length;

	pthread_mutex_lock(&journal_lock);
	length = journal_length;
	pthread_mutex_unlock(&journal_lock);
	return length;
}

static void wait_noted(unsigned int length)
{
	for (uint64_t start = slipstream_future_now_(); noted() < length; pause_ns(MS / 10))
		CHECK(slipstream_future_now_() - start < LONG);
}

/* Tens of thousands in flight at once: all end, once, each stream's in order. */
static void tens_of_thousands_in_flight(void)
{
	static CUstream streams[STREAMS];
	unsigned int next[STREAMS] = {0};
	struct slipstream_future_counts counts;
	struct slipstream_future *last[STREAMS];
	struct gate gate;
	uint64_t start;

	start_driver(0);
	gate = new_gate();
	for (int s = 0; s < STREAMS; s++) {
		streams[s] = new_stream();
		gate_close(gate, streams[s]);
	}
	for (unsigned int i = 0; i < EACH; i++)
		for (unsigned int s = 0; s < STREAMS; s++) {
			struct slipstream_future *future =
				new_future(streams[s], SLIPSTREAM_FUTURE_MONITOR);

			OK(slipstream_future_then(future, note, (void *)(uintptr_t)(s * 1024 + i)));
			if (i + 1 == EACH)
				last[s] = future;
			else
				slipstream_future_destroy(future);
		}
	counts = slipstream_future_get_counts();
	CHECK(counts.created == STREAMS * EACH && counts.ended == 0);
	start = slipstream_future_now_();
	gate_open(gate);
	for (int s = 0; s < STREAMS; s++) {
		CHECK(slipstream_future_wait_for(last[s], LONG) == CUDA_SUCCESS);
		slipstream_future_destroy(last[s]);
	}
	wait_noted(STREAMS * EACH);
	printf("%u futures ended in %.1f ms\n", STREAMS * EACH,
	       (double)(slipstream_future_now_() - start) / 1e6);
	pause_ns(5 * MS);
	CHECK(noted() == STREAMS * EACH);
	for (unsigned int i = 0; i < STREAMS * EACH; i++)
		CHECK(journal[i] % 1024 == next[journal[i] / 1024]++);
	counts = slipstream_future_get_counts();
	CHECK(counts.ended == STREAMS * EACH && counts.monitors == 1);
}

/* 500 unfinished futures of a stream cost one question a round. */
static void only_the_oldest_is_asked(void)
{
	struct slipstream_future_counts before, after;
	struct slipstream_future *last = NULL;
	struct gate gate;
	CUstream stream;
	uint64_t start, waited;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	OK(slipstream_future_set_pace(MS, MS));
	gate_close(gate, stream);
	for (int i = 0; i < 500; i++) {
		slipstream_future_destroy(last);
		last = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	}
	pause_ns(5 * MS);
	start = slipstream_future_now_();
	before = slipstream_future_get_counts();
	pause_ns(50 * MS);
	after = slipstream_future_get_counts();
	waited = slipstream_future_now_() - start;
	CHECK(after.queries - before.queries <= waited / MS + 2);
	for (start = slipstream_future_now_(); after.queries == before.queries; pause_ns(MS)) {
		CHECK(slipstream_future_now_() - start < LONG);
		after = slipstream_future_get_counts();
	}
	gate_open(gate);
	CHECK(slipstream_future_wait_for(last, LONG) == CUDA_SUCCESS);
	slipstream_future_destroy(last);
}

/* With the default pace: rare questions to long work, none without futures. */
static void monitor_pauses(void)
{
	struct slipstream_future_counts before, after;
	struct slipstream_future *future;
	struct gate gate;
	CUstream stream;
	uint64_t start, waited;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	gate_close(gate, stream);
	start = slipstream_future_now_();
	future = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	pause_ns(100 * MS);
	after = slipstream_future_get_counts();
	waited = slipstream_future_now_() - start;
	printf("%llu queries in %llu us\n", after.queries, (unsigned long long)(waited / 1000));
	CHECK(after.queries <= 100 + waited / (MS / 5));
	gate_open(gate);
	CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
	pause_ns(5 * MS);
	before = slipstream_future_get_counts();
	pause_ns(50 * MS);
	after = slipstream_future_get_counts();
	CHECK(before.queries == after.queries);
}

static void no_processor_time_when_idle(void)
{
	struct slipstream_future *future;
	struct timespec before, after;

	start_driver(0);
	future = new_future(new_stream(), SLIPSTREAM_FUTURE_MONITOR);
	CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
	pause_ns(10 * MS);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	pause_ns(200 * MS);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	/* The process sleeps; the simulated driver, too. */
	CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec <
	      10 * (long)MS);
}

/* ---- callbacks ---- */

struct chain {
	CUstream stream;
	CUcontext context;
	unsigned int left;
	int done; /* atomic */
};

static void chain_link(CUresult status, void *data)
{
	struct chain *chain = data;
	struct slipstream_future *next;
	CUdeviceptr memory;
	CUcontext current;

	CHECK(status == CUDA_SUCCESS);
	OK(cuCtxGetCurrent(&current));
	CHECK(current == chain->context);
	OK(cuMemAllocAsync(&memory, 256, chain->stream));
	OK(cuMemFreeAsync(memory, chain->stream));
	if (--chain->left == 0) {
		__atomic_store_n(&chain->done, 1, __ATOMIC_RELEASE);
		return;
	}
	next = new_future(chain->stream,
			  chain->left % 2 ? SLIPSTREAM_FUTURE_MONITOR : SLIPSTREAM_FUTURE_POLL);
	OK(slipstream_future_then(next, chain_link, chain));
	slipstream_future_destroy(next);
}

static void callback_calls_cuda_and_makes_futures(void)
{
	struct chain chain = {0};
	struct slipstream_future *first;

	chain.context = start_driver(0);
	chain.stream = new_stream();
	chain.left = 200;
	first = new_future(chain.stream, SLIPSTREAM_FUTURE_MONITOR);
	OK(slipstream_future_then(first, chain_link, &chain));
	slipstream_future_destroy(first);
	for (uint64_t start = slipstream_future_now_();
	     !__atomic_load_n(&chain.done, __ATOMIC_ACQUIRE); pause_ns(MS / 10))
		CHECK(slipstream_future_now_() - start < LONG);
}

static void wait_inside(CUresult status, void *data)
{
	CHECK(status == CUDA_SUCCESS);
	CHECK(slipstream_future_wait_for(data, LONG) == CUDA_SUCCESS);
	note(status, NULL);
}

/* The monitor would wait for itself otherwise. */
static void wait_in_a_callback_asks_itself(void)
{
	struct slipstream_future *held, *first;
	CUstream stream, other;
	struct gate gate;

	start_driver(0);
	stream = new_stream();
	other = new_stream();
	gate = new_gate();
	gate_close(gate, other);
	held = new_future(other, SLIPSTREAM_FUTURE_MONITOR);
	first = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	OK(slipstream_future_then(first, wait_inside, held));
	CHECK(slipstream_future_wait(first) == CUDA_SUCCESS);
	pause_ns(5 * MS);
	CHECK(noted() == 0);
	gate_open(gate);
	wait_noted(1);
	slipstream_future_destroy(held);
	slipstream_future_destroy(first);
}

/* Before and after the end, of both modes: each once, in the order of the calls. */
static void callbacks_run_once_in_order(void)
{
	struct slipstream_future *future;
	struct gate gate;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	for (unsigned int mode = 0; mode < 2; mode++) {
		unsigned int base = noted();

		gate_close(gate, stream);
		future = new_future(stream, (enum slipstream_future_mode)mode);
		for (uintptr_t i = 0; i < 10; i++)
			OK(slipstream_future_then(future, note, (void *)i));
		gate_open(gate);
		if (mode == SLIPSTREAM_FUTURE_MONITOR)
			CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
		wait_noted(base + 10); /* of a poll future without any waiter */
		for (uintptr_t i = 10; i < 20; i++)
			OK(slipstream_future_then(future, note, (void *)i));
		wait_noted(base + 20);
		slipstream_future_destroy(future);
		pause_ns(2 * MS);
		CHECK(noted() == base + 20);
		for (unsigned int i = 0; i < 20; i++)
			CHECK(journal[base + i] == i);
	}
}

/* ---- a stream whose queue is full ---- */

static int filled; /* atomic */

static void *fill_queue(void *data)
{
	CUstream stream = data;

	start_driver(0);
	for (int i = 0; i < 1100; i++) {
		slipstream_future_destroy(new_future(stream, SLIPSTREAM_FUTURE_MONITOR));
		__atomic_store_n(&filled, i, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void open_gate(CUresult status, void *data)
{
	CHECK(status == CUDA_SUCCESS);
	gate_open(*(struct gate *)data);
}

/* The record on the full stream waits; what would let it go is a callback of another stream. */
static void full_stream_holds_no_other(void)
{
	struct slipstream_future *opener;
	CUstream full, other;
	struct gate gate;
	pthread_t thread;

	start_driver(0);
	full = new_stream();
	other = new_stream();
	gate = new_gate();
	gate_close(gate, full);
	CHECK(!pthread_create(&thread, NULL, fill_queue, full));
	while (__atomic_load_n(&filled, __ATOMIC_ACQUIRE) < 1000)
		pause_ns(MS);
	pause_ns(30 * MS);
	CHECK(__atomic_load_n(&filled, __ATOMIC_ACQUIRE) < 1099);
	opener = new_future(other, SLIPSTREAM_FUTURE_MONITOR);
	OK(slipstream_future_then(opener, open_gate, &gate));
	slipstream_future_destroy(opener);
	pthread_join(thread, NULL);
}

/* ---- signals ---- */

static void handler(int number)
{
	(void)number;
	_exit(99);
}

static void signals_stay_out_of_the_monitor(void)
{
	struct slipstream_future *future;
	sigset_t set, pending;
	struct gate gate;
	CUstream stream;

	start_driver(0); /* whose own threads block signals */
	stream = new_stream();
	gate = new_gate();
	gate_close(gate, stream);
	future = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	signal(SIGUSR1, handler);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	CHECK(!kill(getpid(), SIGUSR1));
	pause_ns(20 * MS);
	sigpending(&pending);
	CHECK(sigismember(&pending, SIGUSR1) == 1);
	gate_open(gate);
	CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
}

const struct future_case monitor_cases[] = {
	{"tens-of-thousands-in-flight", tens_of_thousands_in_flight, 0, NULL},
	{"only-the-oldest-is-asked", only_the_oldest_is_asked, 0, NULL},
	{"monitor-pauses", monitor_pauses, 0, NULL},
	{"no-processor-time-when-idle", no_processor_time_when_idle, 0, NULL},
	{"callback-calls-cuda-and-makes-futures", callback_calls_cuda_and_makes_futures, 0, NULL},
	{"wait-in-a-callback-asks-itself", wait_in_a_callback_asks_itself, 0, NULL},
	{"callbacks-run-once-in-order", callbacks_run_once_in_order, 0, NULL},
	{"full-stream-holds-no-other", full_stream_holds_no_other, 0, NULL},
	{"signals-stay-out-of-the-monitor", signals_stay_out_of_the_monitor, 0, NULL},
	{NULL, NULL, 0, NULL},
};
