// SPDX-License-Identifier: MIT
/*
 * How late a thread knows that the device is done, by completion futures and by what else there is: `futures [ROUNDS [SEED]]`. Opens libcuda.so.1 itself; the
 * simulated driver by LD_LIBRARY_PATH. Works with the shim preloaded, too.
 *
 *	query		the thread asks the event all the time: the floor, which the others are compared with
 *	synchronize	cuEventSynchronize, which spins
 *	blocking	cuEventSynchronize of an event with CU_EVENT_BLOCKING_SYNC
 *	poll		a poll future
 *	monitor		a monitor future
 *	callback	the callback of a monitor future
 *
 * A stream waits for a word of pinned memory; behind it an event. Another thread lets it go after 20, 200 or 2000 us and takes the time; the waiter takes the
 * time when it is back. So each figure has in it what the device needs to see the word, the same for all; the table has the floor's median taken off as
 * well. Ways and lengths come in a random order. Also printed: the processor time of the process per wait, and the queries per wait.
 */
#include <slipstream/future.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "figures.h"

#define ROUNDS_MOST 5000
#define SETTLE_NS   300000 /* so long the waiter has before the wait's own time begins */

#define FUNCTIONS(F)                                                                               \
	F(init, "cuInit", (unsigned int))                                                          \
	F(retain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                             \
	F(set_current, "cuCtxSetCurrent", (CUcontext))                                             \
	F(create_stream, "cuStreamCreate", (CUstream *, unsigned int))                             \
	F(wait_value, "cuStreamWaitValue32_v2", (CUstream, CUdeviceptr, cuuint32_t, unsigned int)) \
	F(allocate, "cuMemHostAlloc", (void **, size_t, unsigned int))                             \
	F(get_pointer, "cuMemHostGetDevicePointer_v2", (CUdeviceptr *, void *, unsigned int))      \
	F(create_event, "cuEventCreate", (CUevent *, unsigned int))                                \
	F(record, "cuEventRecord", (CUevent, CUstream))                                            \
	F(query, "cuEventQuery", (CUevent))                                                        \
	F(synchronize, "cuEventSynchronize", (CUevent))

#define DECLARE(name, symbol, parameters) static CUresult(*name) parameters;
FUNCTIONS(DECLARE)

#define OK(call)                                                                                   \
	do {                                                                                       \
		CUresult ok_ = (call);                                                             \
		if (ok_ != CUDA_SUCCESS) {                                                         \
			fprintf(stderr, "futures: %s gave %d\n", #call, (int)ok_);                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum way { QUERY, SYNCHRONIZE, BLOCKING, POLL, MONITOR, CALLBACK, WAYS };

static const char *const names[WAYS] = {"query", "synchronize", "blocking",
					"poll",  "monitor",     "callback"};
static const unsigned int lengths[] = {20, 200, 2000}; /* us */
#define LENGTHS 3

static CUstream stream;
static CUevent plain, blocking;
static unsigned int *word;
static CUdeviceptr word_there;
static CUcontext context;

static double samples[WAYS][LENGTHS][ROUNDS_MOST]; /* ns */
static double processor[WAYS][LENGTHS];            /* ns, all rounds */
static unsigned long long queries[WAYS][LENGTHS];

/* The opener's orders: when to write the word; 0: none. It answers with when it did. */
static uint64_t open_at, opened_at; /* atomic */
static bool over;                   /* atomic */

static void *opener(void *unused)
{
	const struct timespec nap = {0, 20000};

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		uint64_t at = __atomic_load_n(&open_at, __ATOMIC_ACQUIRE), now;

		now = figures_now();
		if (!at || now + 150000 < at) {
			(void)nanosleep(&nap, NULL);
			continue;
		}
		while ((now = figures_now()) < at)
			;
		__atomic_store_n(word, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&open_at, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&opened_at, now, __ATOMIC_RELEASE);
	}
	return unused;
}

static void called_back(CUresult status, void *data)
{
	OK(status);
	__atomic_store_n((uint64_t *)data, figures_now(), __ATOMIC_RELEASE);
}

static uint64_t processor_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* When the waiter is back. */
static uint64_t wait_future(enum way way)
{
	struct slipstream_future *future;
	uint64_t back = 0, called = 0;

	OK(slipstream_future_create(
		&future, stream, way == POLL ? SLIPSTREAM_FUTURE_POLL : SLIPSTREAM_FUTURE_MONITOR));
	if (way == CALLBACK)
		OK(slipstream_future_then(future, called_back, &called));
	OK(slipstream_future_wait(future));
	back = figures_now();
	if (way == CALLBACK)
		while (!(back = __atomic_load_n(&called, __ATOMIC_ACQUIRE)))
			sched_yield();
	slipstream_future_destroy(future);
	return back;
}

static uint64_t wait_event(enum way way)
{
	CUevent event = way == BLOCKING ? blocking : plain;
	CUresult status;

	OK(record(event, stream));
	if (way == QUERY) {
		while ((status = query(event)) == CUDA_ERROR_NOT_READY)
			;
		OK(status);
	} else {
		OK(synchronize(event));
	}
	return figures_now();
}

static double one_wait(enum way way, unsigned int length)
{
	uint64_t at, back, opened;

	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&opened_at, 0, __ATOMIC_RELAXED);
	OK(wait_value(stream, word_there, 1, CU_STREAM_WAIT_VALUE_EQ));
	at = figures_now() + SETTLE_NS + length * 1000u;
	__atomic_store_n(&open_at, at, __ATOMIC_RELEASE);
	while (figures_now() + length * 1000u < at)
		; /* the opener wakes meanwhile */
	back = way < POLL ? wait_event(way) : wait_future(way);
	while (!(opened = __atomic_load_n(&opened_at, __ATOMIC_ACQUIRE)))
		;
	return (double)back - (double)opened;
}

static void start(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

	if (!library) {
		fprintf(stderr, "futures: %s\n", dlerror());
		exit(77);
	}
#define FIND(name, symbol, parameters)                                                             \
	*(void **)&name = dlsym(library, symbol);                                                  \
	if (!name) {                                                                               \
		fprintf(stderr, "futures: no %s\n", symbol);                                       \
		exit(1);                                                                           \
	}
	FUNCTIONS(FIND)
	OK(init(0));
	OK(retain(&context, 0));
	OK(set_current(context));
	OK(create_stream(&stream, CU_STREAM_NON_BLOCKING));
	OK(create_event(&plain, CU_EVENT_DISABLE_TIMING));
	OK(create_event(&blocking, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
	OK(allocate((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(get_pointer(&word_there, word, 0));
}

static void print_table(unsigned int rounds)
{
	printf("%-12s %9s %12s %12s %12s %14s %12s\n", "way", "length us", "median us", "p99 us",
	       "over query", "processor us", "queries");
	for (unsigned int l = 0; l < LENGTHS; l++) {
		double floor = figures_quantile(samples[QUERY][l], rounds, 0.5);

		for (unsigned int w = 0; w < WAYS; w++) {
			double middle = figures_quantile(samples[w][l], rounds, 0.5);

			printf("%-12s %9u %12.1f %12.1f %12.1f %14.1f %12.1f\n", names[w],
			       lengths[l], middle / 1e3,
			       figures_quantile(samples[w][l], rounds, 0.99) / 1e3,
			       (middle - floor) / 1e3, processor[w][l] / rounds / 1e3,
			       (double)queries[w][l] / rounds);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 300;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	uint32_t order[WAYS * LENGTHS];
	pthread_t thread;

	if (!rounds || rounds > ROUNDS_MOST) {
		fprintf(stderr, "usage: futures [ROUNDS (1 to %d) [SEED]]\n", ROUNDS_MOST);
		return 2;
	}
	start();
	figures_seed(seed);
	if (pthread_create(&thread, NULL, opener, NULL))
		return 1;
	for (unsigned int way = 0; way < WAYS; way++) /* warm; the monitor starts */
		(void)one_wait((enum way)way, 20);
	for (unsigned int round = 0; round < rounds; round++) {
		figures_shuffle(order, WAYS * LENGTHS);
		for (unsigned int i = 0; i < WAYS * LENGTHS; i++) {
			unsigned int w = order[i] % WAYS, l = order[i] / WAYS;
			unsigned long long asked = slipstream_future_get_counts().queries;
			uint64_t used = processor_now();

			samples[w][l][round] = one_wait((enum way)w, lengths[l]);
			processor[w][l] += (double)(processor_now() - used);
			queries[w][l] += slipstream_future_get_counts().queries - asked;
		}
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	printf("%u rounds, seed %llu\n", rounds, (unsigned long long)seed);
	print_table(rounds);
	return 0;
}
