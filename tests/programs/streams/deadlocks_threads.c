// SPDX-License-Identifier: MIT
/*
 * Programs that must end: many threads at once, threads and processes that end in the middle, signal handlers.
 */
#include "deadlocks.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* ---- many threads ---- */

#define THREADS 8

static int stop;

static void CUDA_CB add_one(void *data)
{
	__atomic_fetch_add((int *)data, 1, __ATOMIC_RELAXED);
}

/* Each thread has a word, and folds into it in the order of its own calls, which legacy order keeps: between two streams there is always the legacy one. */
static void *mix_everything(void *data)
{
	unsigned int index = (unsigned int)(uintptr_t)data, seed = index * 7919;
	uint64_t expected, rounds = 0;
	CUstream stream, loose;
	CUevent event;
	int called = 0, wanted = 0;

	OK(cuCtxSetCurrent(deadlocks_context));
	expected = get(index);
	stream = make_stream(CU_STREAM_DEFAULT);
	loose = make_stream(CU_STREAM_NON_BLOCKING);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); rounds++) {
		uint32_t salt = (uint32_t)rounds;

		switch (rand_r(&seed) % 9) {
		case 0:
			work(stream, index, salt);
			work(NULL, index, salt + 1);
			expected = folded(folded(expected, salt), salt + 1);
			break;
		case 1:
			work(CU_STREAM_PER_THREAD, index, salt);
			work(CU_STREAM_LEGACY, index, salt + 1);
			expected = folded(folded(expected, salt), salt + 1);
			break;
		case 2: /* goes on working when it is gone */
			work(stream, index, salt);
			expected = folded(expected, salt);
			OK(cuStreamDestroy(stream));
			work(NULL, index, salt);
			expected = folded(expected, salt);
			stream = make_stream(CU_STREAM_DEFAULT);
			break;
		case 3:
			OK(cuStreamSynchronize(rounds % 2 ? NULL : stream));
			break;
		case 4:
			(void)cuStreamQuery(NULL);
			(void)cuStreamQuery(stream);
			break;
		case 5:
			OK(cuLaunchHostFunc(NULL, add_one, &called));
			wanted++;
			break;
		case 6:
			OK(cuEventRecord(event, NULL));
			OK(cuStreamWaitEvent(loose, event, 0));
			work(loose, index, salt);
			OK(cuEventRecord(event, loose));
			OK(cuStreamWaitEvent(NULL, event, 0));
			expected = folded(expected, salt);
			break;
		case 7:
			work(stream, index, salt);
			expected = folded(expected, salt);
			OK(cuStreamSynchronize(stream));
			EXPECT(get(index) == expected);
			break;
		default:
			OK(cuMemsetD8Async(words + 2048 + 64 * (uint64_t)index, 1, 8, NULL));
			break;
		}
	}
	/* Its stream's last work may not have been joined yet. */
	OK(cuCtxSynchronize());
	EXPECT(get(index) == expected);
	EXPECT(__atomic_load_n(&called, __ATOMIC_RELAXED) == wanted);
	EXPECT(rounds > 20);
	OK(cuStreamDestroy(stream));
	OK(cuStreamDestroy(loose));
	OK(cuEventDestroy(event));
	return NULL;
}

static void rounds_of_threads(int rounds, unsigned int us)
{
	pthread_t thread[THREADS];

	(void)mixed();
	for (int round = 0; round < rounds; round++) {
		__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
		for (uintptr_t i = 0; i < THREADS; i++)
			start(&thread[i], mix_everything, (void *)(i + 1));
		usleep(us);
		__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
	}
}

static void threads_mix(void)
{
	rounds_of_threads(1, 2500000);
}

#define SHARERS 4
#define SHARED  1500 /* streams */

static CUstream shared;
static pthread_barrier_t gathered;

/* Of a stream that is new the first operations are several threads'. */
static void *share_new_streams(void *data)
{
	unsigned int index = (unsigned int)(uintptr_t)data;
	uint64_t expected;

	OK(cuCtxSetCurrent(deadlocks_context));
	expected = get(index);
	for (uint32_t round = 0; round < SHARED; round++) {
		CUstream stream;

		pthread_barrier_wait(&gathered);
		if (index == 1)
			shared = make_stream(CU_STREAM_DEFAULT);
		pthread_barrier_wait(&gathered);
		stream = shared;
		work(stream, index, round);
		work(NULL, index, round);
		expected = folded(folded(expected, round), round);
		pthread_barrier_wait(&gathered);
		if (index == 1)
			OK(cuStreamDestroy(stream));
	}
	OK(cuCtxSynchronize());
	EXPECT(get(index) == expected);
	return NULL;
}

static void threads_share_new_streams(void)
{
	pthread_t thread[SHARERS];

	(void)mixed();
	pthread_barrier_init(&gathered, NULL, SHARERS);
	for (uintptr_t i = 0; i < SHARERS; i++)
		start(&thread[i], share_new_streams, (void *)(i + 1));
	for (int i = 0; i < SHARERS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&gathered);
}

static void *work_on_legacy(void *data)
{
	OK(cuCtxSetCurrent(deadlocks_context));
	for (uint32_t i = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		work(NULL, 2, i);
		/* Natively, and back. */
		if (i % 4 == 0)
			(void)get(2);
	}
	return NULL;
}

/* One thread's legacy work comes between the two halves of what the other one has to keep in order: its legacy work stands still behind its stream. */
static void threads_on_both_sides(void)
{
	CUstream a = mixed();
	uint64_t expected = get(1);
	pthread_t thread;
	CUevent behind;

	OK(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
	start(&thread, work_on_legacy, NULL);
	for (uint32_t i = 1; i <= 400; i++) {
		work(a, 1, i);
		work(NULL, 1, i);
		expected = folded(folded(expected, i), i);
		shut(a, 1);
		OK(cuEventRecord(behind, NULL));
		usleep(200);
		EXPECT(cuEventQuery(behind) == CUDA_ERROR_NOT_READY);
		gates[1] = 1;
		OK(cuEventSynchronize(behind));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT(get(1) == expected);
}

/* Contexts end, and others begin in their place. */
static void *make_contexts(void *data)
{
	for (uint32_t round = 0; round < 25; round++) {
		CUcontext own;
		CUdeviceptr block;
		CUstream stream;
		uint32_t value = 0;

		OK(cuCtxCreate(&own, NULL, 0, 0));
		stream = make_stream(CU_STREAM_DEFAULT);
		OK(cuMemAlloc(&block, 64));
		for (uint32_t i = 0; i < 4; i++) {
			OK(cuMemsetD32Async(block, round + i, 1, stream));
			OK(cuMemcpyDtoDAsync(block + 8, block, 4, NULL));
			OK(cuMemcpyDtoDAsync(block + 16, block + 8, 4, stream));
		}
		OK(cuMemcpyDtoH(&value, block + 16, 4));
		EXPECT(value == round + 3);
		OK(cuCtxDestroy(own));
	}
	return NULL;
}

static void threads_make_contexts(void)
{
	pthread_t thread[SHARERS];

	(void)mixed();
	for (uintptr_t i = 0; i < SHARERS; i++)
		start(&thread[i], make_contexts, NULL);
	for (int i = 0; i < SHARERS; i++)
		pthread_join(thread[i], NULL);
}

static void *end_context(void *context)
{
	OK(cuCtxSetCurrent(deadlocks_context));
	OK(cuCtxDestroy(context));
	return NULL;
}

/*
 * Two threads end a context each, and one of them is held in it: by work of the legacy stream, for which the host has to wait where a capture lets nobody place a
 * barrier. Each context ends once, as only its trace tells.
 */
static void contexts_end(void)
{
	CUcontext one, two;
	CUdeviceptr block;
	CUstream stream;
	pthread_t first, second;
	void *flag = (void *)&gates[1];

	OK(cuCtxCreate(&two, NULL, 0, 0));
	OK(cuCtxCreate(&one, NULL, 0, 0));
	stream = make_stream(CU_STREAM_DEFAULT);
	OK(cuMemAlloc(&block, 64));
	OK(cuMemsetD8Async(block, 1, 8, stream));
	OK(cuMemsetD8Async(block, 2, 8, NULL));
	OK(cuCtxSynchronize());
	gates[1] = 0;
	OK(cuStreamWaitValue32(NULL, (CUdeviceptr)(uintptr_t)flag, 1, 0));
	OK(cuMemsetD8Async(block, 3, 8, NULL));
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuCtxSetCurrent(deadlocks_context));
	start(&first, end_context, one);
	usleep(100000);
	start(&second, end_context, two);
	usleep(100000);
	gates[1] = 1;
	pthread_join(first, NULL);
	pthread_join(second, NULL);
}

static void *work_and_exit(void *data)
{
	unsigned int index = (unsigned int)(uintptr_t)data;

	OK(cuCtxSetCurrent(deadlocks_context));
	work(CU_STREAM_PER_THREAD, index, 1);
	work(NULL, index, 2);
	work(CU_STREAM_PER_THREAD, index, 3);
	return NULL;
}

/* Threads leave work behind on streams that have no name any more. */
static void threads_exit(void)
{
	pthread_t thread[THREADS];
	uint64_t expected = 0;

	(void)mixed();
	for (uint32_t round = 0; round < 40; round++) {
		for (uintptr_t i = 0; i < THREADS; i++)
			start(&thread[i], work_and_exit, (void *)(i + 1));
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		for (unsigned int i = 1; i <= THREADS; i++)
			work(NULL, i, round + 10);
		expected = folded(folded(folded(folded(expected, 1), 2), 3), round + 10);
	}
	OK(cuStreamSynchronize(NULL));
	for (unsigned int i = 1; i <= THREADS; i++)
		EXPECT(get(i) == expected);
}

/* The process ends while others are in the middle. */
static void process_exits(void)
{
	pthread_t thread;

	(void)mixed();
	for (uintptr_t i = 0; i < THREADS; i++)
		start(&thread, mix_everything, (void *)(i + 1));
	usleep(100000);
	fflush(NULL);
	_exit(failures ? 1 : 0);
}

/* ---- signal handlers ---- */

static CUstream handler_stream;
static uint64_t handler_expected;
static uint32_t handled;

static void on_alarm(int number)
{
	uint32_t salt = ++handled;

	work(salt % 2 ? handler_stream : NULL, 1, salt);
	work(salt % 2 ? NULL : handler_stream, 1, salt);
	handler_expected = folded(folded(handler_expected, salt), salt);
}

static void *send_alarms(void *to)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		pthread_kill(*(pthread_t *)to, SIGALRM);
		usleep(500);
	}
	return NULL;
}

/* They come while the program computes: a driver that is interrupted may hold its own locks. */
static void signals(void)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	pthread_t self = pthread_self(), thread;
	volatile uint32_t computed = 0;
	sigset_t alarm_only;

	handler_stream = mixed();
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	sigaction(SIGALRM, &action, NULL);
	pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
	start(&thread, send_alarms, &self);
	for (uint32_t i = 0; i < 300 || handled < 100; i++) {
		work(NULL, 1, i);
		work(handler_stream, 1, i);
		work(NULL, 1, i);
		handler_expected = folded(folded(folded(handler_expected, i), i), i);
		pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
		for (int k = 0; k < 20000; k++)
			computed++;
		pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	OK(cuCtxSynchronize());
	EXPECT(get(1) == handler_expected);
}

static void launches(void)
{
	CUstream a = mixed();

	for (uint32_t i = 0; i < 50; i++) {
		work(a, 1, i);
		work(NULL, 1, i);
		work(CU_STREAM_PER_THREAD, 1, i);
		work(NULL, 1, i);
	}
	printf("%016llx\n", (unsigned long long)get(1));
}

const struct named_case thread_programs[] = {
	{"threads-mix-everything", threads_mix},
	{"threads-share-new-streams", threads_share_new_streams},
	{"threads-on-both-sides", threads_on_both_sides},
	{"threads-make-contexts", threads_make_contexts},
	{"contexts-end-beside-each-other", contexts_end},
	{"threads-exit", threads_exit},
	{"process-exits", process_exits},
	{"signal-handlers-launch", signals},
	{"launches", launches},
	{NULL, NULL},
};
