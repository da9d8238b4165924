// SPDX-License-Identifier: MIT
/* Contexts, devices, captures, and errors of any of them. */
#include "cases.h"
#include "support.h"

static void nothing(CUresult status, void *data)
{
	__atomic_store_n((CUresult *)data, status, __ATOMIC_RELEASE);
}

static void *wait_without_context(void *data)
{
	CHECK(slipstream_future_wait_for(data, LONG) == CUDA_SUCCESS);
	return NULL;
}

/* With another current context, or with none in the thread that waits: it stays as it is. */
static void stream_of_another_device(void)
{
	CUcontext first = start_driver(0), second = start_driver(1), current;
	CUstream streams[2];

	streams[1] = new_stream();
	OK(cuCtxSetCurrent(first));
	streams[0] = new_stream();
	for (int round = 0; round < 2; round++) {
		CUcontext mine = round == 0 ? first : second;

		OK(cuCtxSetCurrent(mine));
		for (int i = 0; i < 40; i++) {
			struct slipstream_future *future =
				new_future(streams[i % 2], i % 4 < 2 ? SLIPSTREAM_FUTURE_MONITOR
								     : SLIPSTREAM_FUTURE_POLL);
			pthread_t thread;

			CHECK(!pthread_create(&thread, NULL, wait_without_context, future));
			CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
			pthread_join(thread, NULL);
			slipstream_future_destroy(future);
			OK(cuCtxGetCurrent(&current));
			CHECK(current == mine);
		}
	}
}

/* Only a driver that asks no question about a context notices; so a callback looks. */
static void see_context(CUresult status, void *data)
{
	CUcontext current;

	CHECK(status == CUDA_SUCCESS);
	OK(cuCtxGetCurrent(&current));
	__atomic_store_n((CUcontext *)data, current, __ATOMIC_RELEASE);
}

static void monitor_binds_the_context(void)
{
	CUcontext contexts[2], seen;
	CUstream streams[2];

	contexts[0] = start_driver(0);
	streams[0] = new_stream();
	contexts[1] = start_driver(1);
	streams[1] = new_stream();
	for (int i = 0; i < 20; i++) {
		struct slipstream_future *future =
			new_future(streams[i % 2], SLIPSTREAM_FUTURE_MONITOR);

		seen = NULL;
		OK(slipstream_future_then(future, see_context, &seen));
		slipstream_future_destroy(future);
		while (!__atomic_load_n(&seen, __ATOMIC_ACQUIRE))
			pause_ns(MS / 10);
		CHECK(seen == contexts[i % 2]);
	}
}

/* The default streams are those of the current context. */
static void default_streams(void)
{
	CUstream streams[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
	struct slipstream_future *future;
	CUcontext contexts[2];

	contexts[0] = start_driver(0);
	contexts[1] = start_driver(1);
	for (int c = 0; c < 2; c++)
		for (int s = 0; s < 3; s++) {
			OK(cuCtxSetCurrent(contexts[c]));
			future = new_future(streams[s], SLIPSTREAM_FUTURE_MONITOR);
			CHECK(future->context->handle == contexts[c]);
			CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
			slipstream_future_destroy(future);
		}
	OK(cuCtxSetCurrent(NULL));
	CHECK(slipstream_future_create(&future, NULL, SLIPSTREAM_FUTURE_MONITOR) ==
	      CUDA_ERROR_INVALID_CONTEXT);
	CHECK(!future);
}

static void stream_destroyed_before_the_end(void)
{
	struct slipstream_future *future;
	struct gate gate;

	start_driver(0);
	gate = new_gate();
	for (unsigned int mode = 0; mode < 2; mode++) {
		CUstream stream = new_stream();

		gate_close(gate, stream);
		future = new_future(stream, (enum slipstream_future_mode)mode);
		OK(cuStreamDestroy(stream));
		CHECK(slipstream_future_wait_for(future, 3 * MS) == CUDA_ERROR_NOT_READY);
		gate_open(gate);
		CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
		slipstream_future_destroy(future);
	}
}

/* A new stream with an old one's handle does not wait for the old one's futures. */
static void handle_of_a_stream_used_again(void)
{
	struct slipstream_future *old, *new;
	struct gate gate;
	CUstream first, second;

	start_driver(0);
	gate = new_gate();
	first = new_stream();
	gate_close(gate, first);
	old = new_future(first, SLIPSTREAM_FUTURE_MONITOR);
	OK(cuStreamDestroy(first));
	second = new_stream();
	if (second != first)
		printf("the handle was not used again; little is proven\n");
	new = new_future(second, SLIPSTREAM_FUTURE_MONITOR);
	CHECK(slipstream_future_wait_for(new, LONG) == CUDA_SUCCESS);
	CHECK(slipstream_future_status(old) == CUDA_ERROR_NOT_READY);
	gate_open(gate);
	CHECK(slipstream_future_wait_for(old, LONG) == CUDA_SUCCESS);
	slipstream_future_destroy(old);
	slipstream_future_destroy(new);
}

/* ---- captures ---- */

/* A global capture while futures are made, asked by the monitor and by a waiter, and end. */
static void global_capture_elsewhere_goes_on(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	struct slipstream_future *early, *late;
	CUstream stream, captured;
	struct gate gate;
	CUgraph graph;

	start_driver(0);
	stream = new_stream();
	captured = new_stream();
	gate = new_gate();
	for (unsigned int m = 0; m < 2; m++) {
		gate_close(gate, stream);
		early = new_future(stream, (enum slipstream_future_mode)m);
		OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
		late = new_future(stream, (enum slipstream_future_mode)m);
		CHECK(slipstream_future_wait_for(late, 5 * MS) == CUDA_ERROR_NOT_READY);
		gate_open(gate);
		CHECK(slipstream_future_wait_for(early, LONG) == CUDA_SUCCESS);
		CHECK(slipstream_future_wait_for(late, LONG) == CUDA_SUCCESS);
		slipstream_future_destroy(early);
		slipstream_future_destroy(late);
		OK(cuStreamEndCapture(captured, &graph));
		OK(cuGraphDestroy(graph));
		/* The thread's own mode is as it was. */
		OK(cuThreadExchangeStreamCaptureMode(&mode));
		CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	}
}

static void capturing_stream_is_refused(void)
{
	struct slipstream_future *future;
	CUstream blocking;
	CUgraph graph;

	start_driver(0);
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	for (unsigned int mode = 0; mode < 2; mode++) {
		OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
		CHECK(slipstream_future_create(&future, blocking,
					       (enum slipstream_future_mode)mode) ==
		      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		CHECK(!future);
		CHECK(slipstream_future_create(&future, CU_STREAM_LEGACY,
					       (enum slipstream_future_mode)mode) ==
		      CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
		OK(cuStreamEndCapture(blocking, &graph));
		OK(cuGraphDestroy(graph));
	}
	CHECK(slipstream_future_get_counts().monitors == 0);
}

/* ---- errors ---- */

static void wait_status(CUresult *status)
{
	for (uint64_t start = slipstream_future_now_();
	     __atomic_load_n(status, __ATOMIC_ACQUIRE) == CUDA_ERROR_NOT_READY; pause_ns(MS / 10))
		CHECK(slipstream_future_now_() - start < LONG);
}

/* The error of one context's work is the status of its futures, and of no other's. */
static void error_of_the_work_is_the_status(void)
{
	struct slipstream_future *bad, *poll, *good;
	CUresult told = CUDA_ERROR_NOT_READY;
	unsigned int value = 1, count = 1;
	CUdeviceptr nowhere = 0x10;
	void *parameters[] = {&nowhere, &value, &count};
	CUstream failing, fine;
	CUfunction fill;
	struct gate gate;
	CUcontext own;

	start_driver(0);
	fine = new_stream();
	gate = new_gate();
	OK(cuCtxCreate_v4(&own, NULL, 0, 0));
	failing = new_stream();
	fill = find_kernel("fill");
	gate_close(gate, failing);
	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, failing, parameters, NULL));
	bad = new_future(failing, SLIPSTREAM_FUTURE_MONITOR);
	poll = new_future(failing, SLIPSTREAM_FUTURE_POLL);
	good = new_future(fine, SLIPSTREAM_FUTURE_MONITOR);
	OK(slipstream_future_then(bad, nothing, &told));
	gate_open(gate);
	CHECK(slipstream_future_wait_for(bad, LONG) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(slipstream_future_wait_for(poll, LONG) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(slipstream_future_wait_for(good, LONG) == CUDA_SUCCESS);
	wait_status(&told);
	CHECK(told == CUDA_ERROR_ILLEGAL_ADDRESS);
	slipstream_future_destroy(bad);
	slipstream_future_destroy(poll);
	slipstream_future_destroy(good);
}

static void *wait_destroyed(void *data)
{
	CHECK(slipstream_future_wait_for(data, LONG) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	return NULL;
}

/* Waiters of both modes are told; nobody asks afterwards; other contexts go on. */
static void ended_context_ends_its_futures(void)
{
	struct slipstream_future *futures[2], *other, *again;
	CUresult told = CUDA_ERROR_NOT_READY;
	struct slipstream_future_counts before, after;
	CUstream stream, fine;
	pthread_t threads[2];
	struct gate gate, fine_gate;
	CUcontext own, main_context = start_driver(0);

	fine = new_stream();
	gate = new_gate();
	fine_gate = new_gate();
	for (int round = 0; round < 20; round++) {
		OK(cuCtxCreate_v4(&own, NULL, 0, 0));
		stream = new_stream();
		OK(cuCtxSetCurrent(main_context));
		gate_close(gate, stream);
		gate_close(fine_gate, fine);
		other = new_future(fine, SLIPSTREAM_FUTURE_MONITOR);
		for (unsigned int mode = 0; mode < 2; mode++) {
			futures[mode] = new_future(stream, (enum slipstream_future_mode)mode);
			CHECK(!pthread_create(&threads[mode], NULL, wait_destroyed, futures[mode]));
		}
		told = CUDA_ERROR_NOT_READY;
		OK(slipstream_future_then(futures[0], nothing, &told));
		pause_ns(MS / 2);
		slipstream_future_end_context(own);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		wait_status(&told);
		CHECK(told == CUDA_ERROR_CONTEXT_IS_DESTROYED);
		/* It was not destroyed yet: a new future works. */
		again = new_future(stream, SLIPSTREAM_FUTURE_POLL);
		gate_open(gate);
		CHECK(slipstream_future_wait_for(again, LONG) == CUDA_SUCCESS);
		slipstream_future_destroy(again);
		slipstream_future_end_context(own);
		OK(cuCtxDestroy(own));
		gate_open(fine_gate);
		CHECK(slipstream_future_wait_for(other, LONG) == CUDA_SUCCESS);
		slipstream_future_destroy(other);
		slipstream_future_destroy(futures[0]);
		slipstream_future_destroy(futures[1]);
	}
	pause_ns(5 * MS);
	before = slipstream_future_get_counts();
	pause_ns(10 * MS);
	after = slipstream_future_get_counts();
	CHECK(before.queries == after.queries);
	CHECK(slipstream_future_process_1.contexts &&
	      !slipstream_future_process_1.contexts->next); /* records are freed */
}

static void make_another(CUstream stream)
{
	struct slipstream_future *future = new_future(stream, SLIPSTREAM_FUTURE_POLL);

	CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
}

/*
 * Its handle may be another context's by then: no event of it is touched. `early`: a future of that
 * other context is the first to notice.
 */
static void destroy_without_a_word(int early)
{
	struct slipstream_future *future[2], *later;
	CUcontext own, next, main_context = start_driver(0);
	CUstream stream;
	struct gate gate = new_gate();

	OK(slipstream_future_set_pace(300 * MS, 300 * MS));
	OK(cuCtxCreate_v4(&own, NULL, 0, 0));
	stream = new_stream();
	gate_close(gate, stream);
	/* An event among the spare ones, too. */
	later = new_future(stream, SLIPSTREAM_FUTURE_POLL);
	slipstream_future_destroy(later);
	future[0] = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	future[1] = new_future(stream, SLIPSTREAM_FUTURE_POLL);
	pause_ns(20 * MS); /* the monitor has asked, and pauses */
	gate_open(gate);   /* else the context would wait for its work */
	OK(cuCtxDestroy(own));
	OK(cuCtxCreate_v4(&next, NULL, 0, 0));
	if (next != own)
		printf("the handle was not used again; less is proven\n");
	stream = new_stream();
	if (early)
		make_another(stream);
	CHECK(slipstream_future_wait_for(future[1], LONG) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	CHECK(slipstream_future_wait_for(future[0], LONG) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	slipstream_future_destroy(future[0]);
	slipstream_future_destroy(future[1]);
	make_another(stream);
	OK(cuCtxSetCurrent(main_context));
}

static void context_destroyed_without_a_word(void)
{
	destroy_without_a_word(0);
}

static void events_of_a_destroyed_context_are_left_alone(void)
{
	destroy_without_a_word(1);
}

/* ---- failures of the driver's calls (cases.c sets them) ---- */

static void failed_create(CUresult wanted)
{
	struct slipstream_future *future;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	for (unsigned int mode = 0; mode < 2; mode++) {
		CHECK(slipstream_future_create(&future, stream,
					       (enum slipstream_future_mode)mode) == wanted);
		CHECK(!future);
	}
	/* The third goes well. */
	future = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
}

static void event_cannot_be_made(void)
{
	failed_create(CUDA_ERROR_OUT_OF_MEMORY);
}

static void event_cannot_be_recorded(void)
{
	failed_create(CUDA_ERROR_LAUNCH_FAILED);
}

static void query_fails(void)
{
	struct slipstream_future *future;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	for (unsigned int mode = 0; mode < 2; mode++) {
		future = new_future(stream, (enum slipstream_future_mode)mode);
		CHECK(slipstream_future_wait_for(future, LONG) == CUDA_ERROR_ECC_UNCORRECTABLE);
		slipstream_future_destroy(future);
	}
	future = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
}

/* Before 12.0: each future is asked, no event is kept. */
static void driver_without_ids(void)
{
	struct slipstream_future *futures[50];
	struct slipstream_future_counts counts;
	struct gate gate;
	CUstream stream;

	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	CHECK(slipstream_future_ready_() == CUDA_SUCCESS);
	slipstream_future_process_1.driver.context_id = NULL;
	slipstream_future_process_1.driver.stream_id = NULL;
	for (int round = 0; round < 2; round++) {
		gate_close(gate, stream);
		for (int i = 0; i < 50; i++)
			futures[i] = new_future(stream, i % 2 ? SLIPSTREAM_FUTURE_MONITOR
							      : SLIPSTREAM_FUTURE_POLL);
		gate_open(gate);
		for (int i = 0; i < 50; i++) {
			CHECK(slipstream_future_wait_for(futures[i], LONG) == CUDA_SUCCESS);
			slipstream_future_destroy(futures[i]);
		}
		pause_ns(5 * MS);
	}
	counts = slipstream_future_get_counts();
	CHECK(counts.events == 100 && counts.ended == 100);
}

const struct future_case context_cases[] = {
	{"stream-of-another-device", stream_of_another_device, 0, NULL},
	{"monitor-binds-the-context", monitor_binds_the_context, 0, NULL},
	{"default-streams", default_streams, 0, NULL},
	{"stream-destroyed-before-the-end", stream_destroyed_before_the_end, 0, NULL},
	{"handle-of-a-stream-used-again", handle_of_a_stream_used_again, 0, NULL},
	{"global-capture-elsewhere-goes-on", global_capture_elsewhere_goes_on, 0, NULL},
	{"capturing-stream-is-refused", capturing_stream_is_refused, 0, NULL},
	{"error-of-the-work-is-the-status", error_of_the_work_is_the_status, 0, NULL},
	{"ended-context-ends-its-futures", ended_context_ends_its_futures, 0, NULL},
	{"context-destroyed-without-a-word", context_destroyed_without_a_word, 0, NULL},
	{"events-of-a-destroyed-context-are-left-alone",
	 events_of_a_destroyed_context_are_left_alone, 0, NULL},
	{"event-cannot-be-made", event_cannot_be_made, 0, "cuEventCreate:1:2,cuEventCreate:2:2"},
	{"event-cannot-be-recorded", event_cannot_be_recorded, 0,
	 "cuEventRecord:1:719,cuEventRecord:2:719"},
	{"query-fails", query_fails, 0, "cuEventQuery:1:214,cuEventQuery:2:214"},
	{"driver-without-ids", driver_without_ids, 0, NULL},
	{NULL, NULL, 0, NULL},
};
