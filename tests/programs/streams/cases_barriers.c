// SPDX-License-Identifier: MIT
/*
 * Cases: which barriers there are, and that there are no others.
 */
#include "cases.h"

#include <pthread.h>

static void one_dirty_stream(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);

	mix(a);
	begin();
	step(a, 1);
	step(NULL, 0);
	step(a, 1);
	step(a, 1);
	step(NULL, 0);
	step(NULL, 0);
	step(NULL, 0);
	end();
	say_words();
}

static void two_dirty_streams(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT), b = new_stream('b', CU_STREAM_DEFAULT);

	mix(a);
	begin();
	step(a, 1);
	step(b, 2);
	step(NULL, 0);
	step(NULL, 0);
	step(b, 2);
	step(a, 1);
	end();
	say_words();
}

/* What is not ordered with the legacy stream costs nothing and waits for nothing. */
static void non_blocking_stream(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT),
		 n = new_stream('n', CU_STREAM_NON_BLOCKING);

	mix(a);
	close_gate(NULL, 1);
	begin();
	step(n, LOOSE);
	end();
	OK(cuStreamSynchronize(n));
	open_gate(1);
	close_gate(n, 2);
	begin();
	step(NULL, 0);
	end();
	OK(cuStreamSynchronize(NULL));
	open_gate(2);
	say_words();
}

static void per_thread_stream(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);

	mix(a);
	begin();
	step(CU_STREAM_PER_THREAD, 2);
	step(NULL, 0);
	step(CU_STREAM_PER_THREAD, 2);
	step(CU_STREAM_PER_THREAD, 2);
	end();
	say_words();
}

static void *step_on_own(void *index)
{
	OK(cuCtxSetCurrent(context));
	close_gate(CU_STREAM_PER_THREAD, 1);
	step(CU_STREAM_PER_THREAD, (unsigned int)(uintptr_t)index);
	return NULL;
}

/* Streams that no call can name any more still count. */
static void threads_own_streams(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);
	pthread_t thread;

	mix(a);
	for (uintptr_t i = 2; i < 5; i++) {
		pthread_create(&thread, NULL, step_on_own, (void *)i);
		pthread_join(thread, NULL);
	}
	begin();
	step(NULL, 0);
	end();
	open_gate(1);
	say_words();
}

static void destroyed_stream(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);

	mix(a);
	close_gate(a, 1);
	begin();
	step(a, 1);
	OK(cuStreamDestroy(a));
	step(NULL, 0);
	end();
	a = new_stream('b', CU_STREAM_DEFAULT);
	begin();
	step(a, 2);
	end();
	open_gate(1);
	say_words();
}

/* A clean one that is destroyed leaves nothing behind. */
static void destroyed_clean_stream(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);

	mix(a);
	begin();
	OK(cuStreamDestroy(a));
	step(NULL, 0);
	end();
	say_words();
}

static void new_stream_behind_pending(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT), b;

	mix(a);
	close_gate(NULL, 1);
	step(NULL, 0);
	b = new_stream('b', CU_STREAM_DEFAULT);
	begin();
	step(b, 2);
	end();
	SAY(cuStreamQuery(b));
	open_gate(1);
	say_words();
}

/* The work of the legacy stream and of two others stands still: each comes in its turn when the gates open in the wrong order. */
static void in_order_behind_gates(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT), b = new_stream('b', CU_STREAM_DEFAULT);

	mix(a);
	for (int i = 0; i < 4; i++) {
		OK(cuCtxSynchronize());
		close_gate(a, 1);
		step(a, 1);
		close_gate(NULL, 2);
		step(NULL, 0);
		close_gate(b, 3);
		step(b, 2);
		step(a, 1);
		step(NULL, 0);
		open_gate(3);
		open_gate(2);
		SAY(cuStreamQuery(b));
		SAY(cuStreamQuery(NULL));
		open_gate(1);
		OK(cuStreamSynchronize(NULL));
		SAY(cuStreamQuery(b));
		SAY(cuStreamQuery(a));
		SAY(cuStreamQuery(NULL));
	}
	say_words();
}

/* Rounds of legacy work alone, which a substitute is good for, and of work that goes to and fro. Launches take the short way where they may. */
static void to_and_fro(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);

	mix(a);
	begin();
	for (int round = 0; round < 12; round++) {
		for (int i = 0; i < 40; i++)
			OK(cuMemsetD8Async(word + 512, 1, 8, NULL));
		step(NULL, 0);
		step(NULL, 0);
		for (int i = 0; i < 12; i++) {
			OK(cuMemsetD8Async(word + 512, 2, 8, a));
			OK(cuMemsetD8Async(word + 512, 3, 8, NULL));
		}
		OK(cuCtxSynchronize());
	}
	end();
	say_words();
}

/* Programs that use one side only: what the driver is given is what they make. */
static void only_legacy(void)
{
	CUstream n = new_stream('n', CU_STREAM_NON_BLOCKING);
	CUevent event = new_event('E', CU_EVENT_DISABLE_TIMING);

	begin();
	for (int i = 0; i < 100; i++) {
		step(NULL, 0);
		step(CU_STREAM_LEGACY, 0);
		OK(cuEventRecord(event, NULL));
		OK(cuStreamWaitEvent(n, event, 0));
		step(n, LOOSE);
		OK(cuMemsetD8Async(word + 512, 1, 64, NULL));
	}
	OK(cuStreamSynchronize(NULL));
	end();
	say_words();
}

static void only_blocking(void)
{
	CUstream a, b;
	CUcontext other;

	/* One in which the legacy stream was never used. */
	OK(cuCtxCreate(&other, NULL, 0, 0));
	load_kernels();
	a = new_stream('a', CU_STREAM_DEFAULT);
	b = new_stream('b', CU_STREAM_DEFAULT);
	OK(cuMemAlloc(&word, 4096));
	OK(cuMemsetD8Async(word, 0, 4096, a));
	OK(cuStreamSynchronize(a));
	step(a, 1);
	OK(cuStreamSynchronize(a));
	begin();
	for (int i = 0; i < 100; i++) {
		step(a, 1);
		step(b, 2);
	}
	end();
	say_words();
}

const struct named_case barrier_cases[] = {
	{"one-dirty-stream-one-record-one-wait", one_dirty_stream},
	{"two-dirty-streams-one-join", two_dirty_streams},
	{"non-blocking-stream-no-barrier", non_blocking_stream},
	{"per-thread-stream-joined", per_thread_stream},
	{"ended-threads-streams-joined", threads_own_streams},
	{"destroyed-dirty-stream-joined", destroyed_stream},
	{"destroyed-clean-stream-no-barrier", destroyed_clean_stream},
	{"new-stream-waits-for-pending", new_stream_behind_pending},
	{"gates-open-in-the-wrong-order", in_order_behind_gates},
	{"legacy-work-alone-and-to-and-fro", to_and_fro},
	{"only-legacy-nothing-added", only_legacy},
	{"only-blocking-nothing-added", only_blocking},
	{NULL, NULL},
};
