// SPDX-License-Identifier: MIT
/*
 * What the driver sees of futures: its functions are put between (the table of future_driver.h is
 * the process's own), slowed down, and look at the mode, the context, and who else is inside.
 */
#include "cases.h"
#include "support.h"

static struct slipstream_future_driver real;
static CUcontext wanted[2];   /* contexts of device 0 and 1 */
static CUstream streams[2];   /* of them */
static unsigned int seen;     /* atomic: calls that were looked at */
static unsigned int in_query; /* atomic */
static uint64_t query_ns;     /* how long a query lasts */

static struct slipstream_future_driver *table(void)
{
	CHECK(slipstream_future_ready_() == CUDA_SUCCESS);
	real = slipstream_future_process_1.driver;
	return &slipstream_future_process_1.driver;
}

static void start_both(void)
{
	for (int d = 1; d >= 0; d--) {
		wanted[d] = start_driver(d);
		streams[d] = new_stream();
	}
}

/* ---- mode and context ---- */

static CUcontext context_of[1 << 12]; /* of events, by a hash of the handle; atomic */

static CUcontext *place_of(CUevent event)
{
	return &context_of[((uintptr_t)event >> 9) % (1 << 12)];
}

static CUcontext look(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUcontext current;

	OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuCtxGetCurrent(&current));
	__atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
	return current;
}

static CUresult looking_create(CUevent *event, unsigned int flags)
{
	CUcontext current = look();
	CUresult result = real.event_create(event, flags);

	__atomic_store_n(place_of(*event), current, __ATOMIC_RELAXED);
	return result;
}

static CUresult looking_record(CUevent event, CUstream stream)
{
	CUcontext current = look();

	CHECK(current == wanted[stream == streams[1]]);
	CHECK(current == __atomic_load_n(place_of(event), __ATOMIC_RELAXED));
	return real.event_record(event, stream);
}

static CUresult looking_query(CUevent event)
{
	CHECK(look() == __atomic_load_n(place_of(event), __ATOMIC_RELAXED));
	return real.event_query(event);
}

static CUresult looking_destroy(CUevent event)
{
	(void)look();
	return real.event_destroy(event);
}

static void calls_are_in_relaxed_mode_and_the_right_context(void)
{
	struct slipstream_future_driver *driver;
	struct slipstream_future *future;

	start_both();
	driver = table();
	driver->event_create = looking_create;
	driver->event_record = looking_record;
	driver->event_query = looking_query;
	driver->event_destroy = looking_destroy;
	for (int i = 0; i < 200; i++) {
		future = new_future(streams[i % 2],
				    i % 4 < 2 ? SLIPSTREAM_FUTURE_MONITOR : SLIPSTREAM_FUTURE_POLL);
		CHECK(slipstream_future_wait_for(future, LONG) == CUDA_SUCCESS);
		slipstream_future_destroy(future);
	}
	CHECK(__atomic_load_n(&seen, __ATOMIC_RELAXED) >= 400);
}

/* ---- slow queries ---- */

static CUresult slow_query(CUevent event)
{
	CUresult result;

	__atomic_fetch_add(&in_query, 1, __ATOMIC_SEQ_CST);
	result = real.event_query(event);
	pause_ns(query_ns);
	__atomic_fetch_sub(&in_query, 1, __ATOMIC_SEQ_CST);
	return result;
}

static void wait_in_query(void)
{
	for (uint64_t start = slipstream_future_now_();
	     !__atomic_load_n(&in_query, __ATOMIC_SEQ_CST);)
		CHECK(slipstream_future_now_() - start < LONG);
}

static void *wait_quietly(void *data)
{
	(void)slipstream_future_wait(data);
	return NULL;
}

/* Neither the monitor nor a waiter is in a query afterwards. */
static void end_of_a_context_waits_for_queries(void)
{
	for (unsigned int mode = 0; mode < 2; mode++) {
		struct slipstream_future *future;
		pthread_t thread;
		struct gate gate;

		start_both();
		table()->event_query = slow_query;
		query_ns = 20 * MS;
		gate = new_gate();
		gate_close(gate, streams[0]);
		future = new_future(streams[0], (enum slipstream_future_mode)mode);
		CHECK(!pthread_create(&thread, NULL, wait_quietly, future));
		wait_in_query();
		slipstream_future_end_context(wanted[0]);
		for (int i = 0; i < 100; i++, pause_ns(MS / 2))
			CHECK(!__atomic_load_n(&in_query, __ATOMIC_SEQ_CST));
		pthread_join(thread, NULL);
		CHECK(slipstream_future_status(future) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
		slipstream_future_destroy(future);
		gate_open(gate);
		slipstream_future_process_1.driver = real;
	}
}

static void nobody_inside(void)
{
	for (int i = 0; i < 100; i++, pause_ns(MS / 2))
		if (__atomic_load_n(&in_query, __ATOMIC_SEQ_CST))
			_exit(92);
}

/* What stood before our exit handler is called after it: the driver's, too. */
static void exit_in_a_query(enum slipstream_future_mode mode)
{
	struct slipstream_future *future;
	pthread_t thread;
	struct gate gate;

	atexit(nobody_inside);
	start_both();
	table()->event_query = slow_query;
	query_ns = 20 * MS;
	gate = new_gate();
	gate_close(gate, streams[0]);
	future = new_future(streams[0], mode);
	CHECK(!pthread_create(&thread, NULL, wait_quietly, future));
	pthread_detach(thread);
	wait_in_query();
	exit(3);
}

static void exit_waits_for_the_monitor(void)
{
	exit_in_a_query(SLIPSTREAM_FUTURE_MONITOR);
}

static void exit_waits_for_waiters_that_ask(void)
{
	exit_in_a_query(SLIPSTREAM_FUTURE_POLL);
}

static pthread_t late_thread;
static int in_record; /* atomic */

static CUresult slow_record(CUevent event, CUstream stream)
{
	__atomic_store_n(&in_record, 1, __ATOMIC_RELEASE);
	pause_ns(60 * MS);
	return real.event_record(event, stream);
}

static void *make_late(void *data)
{
	struct slipstream_future *future;

	OK(cuCtxSetCurrent(wanted[0]));
	future = new_future(data, SLIPSTREAM_FUTURE_MONITOR);
	if (slipstream_future_wait(future) != CUDA_ERROR_DEINITIALIZED)
		_exit(89);
	slipstream_future_destroy(future);
	return NULL;
}

static void join_late(void)
{
	pthread_join(late_thread, NULL);
}

/* Its record began before exit and is over after the monitor's end: no waiter stays behind. */
static void future_made_during_exit_ends(void)
{
	struct slipstream_future *future;

	start_both();
	atexit(join_late); /* between our handler and the driver's end */
	future = new_future(streams[1], SLIPSTREAM_FUTURE_MONITOR);
	CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
	table()->event_record = slow_record;
	CHECK(!pthread_create(&late_thread, NULL, make_late, streams[0]));
	while (!__atomic_load_n(&in_record, __ATOMIC_ACQUIRE))
		pause_ns(MS / 10);
	exit(8);
}

/* ---- an event belongs to one future at a time ---- */

static CUevent asked[8]; /* atomic: events in a query, one of each thread */
static unsigned int asker_count;
static __thread unsigned int asker;
static int watched; /* atomic */

static CUresult marked_query(CUevent event)
{
	CUresult result;

	if (!asker)
		asker = 1 + __atomic_fetch_add(&asker_count, 1, __ATOMIC_RELAXED) % 8;
	__atomic_store_n(&asked[asker - 1], event, __ATOMIC_SEQ_CST);
	result = real.event_query(event);
	pause_ns((uint64_t)asker * 300000);
	__atomic_store_n(&asked[asker - 1], NULL, __ATOMIC_SEQ_CST);
	return result;
}

static CUresult marked_record(CUevent event, CUstream stream)
{
	for (int i = 0; i < 8; i++)
		CHECK(__atomic_load_n(&asked[i], __ATOMIC_SEQ_CST) != event);
	__atomic_fetch_add(&watched, 1, __ATOMIC_RELAXED);
	return real.event_record(event, stream);
}

/* Several ask one event, one sees its end first; the others are still in the driver then. */
static void event_is_not_used_again_while_asked(void)
{
	struct slipstream_future_driver *driver;
	struct gate gate;

	start_both();
	driver = table();
	driver->event_query = marked_query;
	driver->event_record = marked_record;
	gate = new_gate();
	for (int round = 0; round < 20; round++) {
		struct slipstream_future *future;
		pthread_t threads[3];

		gate_close(gate, streams[0]);
		future = new_future(streams[0], SLIPSTREAM_FUTURE_POLL);
		for (int t = 0; t < 3; t++)
			CHECK(!pthread_create(&threads[t], NULL, wait_quietly, future));
		pause_ns(MS);
		gate_open(gate);
		while (slipstream_future_seen_(future) == CUDA_ERROR_NOT_READY)
			;
		for (int i = 0; i < 20; i++) {
			slipstream_future_destroy(
				new_future(streams[0], SLIPSTREAM_FUTURE_MONITOR));
			pause_ns(50000);
		}
		for (int t = 0; t < 3; t++)
			pthread_join(threads[t], NULL);
		slipstream_future_destroy(future);
	}
	CHECK(__atomic_load_n(&watched, __ATOMIC_RELAXED) == 20 * 21);
}

/* ---- order ---- */

#define ORDERED 200

static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static CUevent recorded[2 * ORDERED];
static unsigned int recorded_count;
static void *ended[2 * ORDERED];
static unsigned int ended_count;
static __thread CUevent own_event;

/* Between the record and whatever comes next another thread has its chance. */
static CUresult ordered_record(CUevent event, CUstream stream)
{
	CUresult result;

	pthread_mutex_lock(&order_lock);
	result = real.event_record(event, stream);
	recorded[recorded_count++] = event;
	own_event = event;
	pthread_mutex_unlock(&order_lock);
	pause_ns((uint64_t)(recorded_count % 3) * 30000);
	return result;
}

static void note_end(CUresult status, void *data)
{
	CHECK(status == CUDA_SUCCESS);
	pthread_mutex_lock(&order_lock);
	ended[ended_count++] = data;
	pthread_mutex_unlock(&order_lock);
}

static void *make_ordered(void *data)
{
	OK(cuCtxSetCurrent(wanted[0]));
	for (int i = 0; i < ORDERED; i++) {
		struct slipstream_future *future = new_future(data, SLIPSTREAM_FUTURE_MONITOR);

		OK(slipstream_future_then(future, note_end, (void *)own_event));
		slipstream_future_destroy(future);
	}
	return NULL;
}

/* Two threads on one stream: the futures end in the order in which the stream has them. */
static void threads_on_one_stream_keep_its_order(void)
{
	pthread_t threads[2];
	struct gate gate;

	start_both();
	table()->event_record = ordered_record;
	gate = new_gate();
	gate_close(gate, streams[0]);
	for (int t = 0; t < 2; t++)
		CHECK(!pthread_create(&threads[t], NULL, make_ordered, streams[0]));
	for (int t = 0; t < 2; t++)
		pthread_join(threads[t], NULL);
	gate_open(gate);
	for (unsigned int count = 0; count < 2 * ORDERED; pause_ns(MS)) {
		pthread_mutex_lock(&order_lock);
		count = ended_count;
		pthread_mutex_unlock(&order_lock);
	}
	for (int i = 0; i < 2 * ORDERED; i++)
		CHECK(ended[i] == (void *)recorded[i]);
}

const struct future_case driver_cases[] = {
	{"calls-are-in-relaxed-mode-and-the-right-context",
	 calls_are_in_relaxed_mode_and_the_right_context, 0, NULL},
	{"end-of-a-context-waits-for-queries", end_of_a_context_waits_for_queries, 0, NULL},
	{"exit-waits-for-the-monitor", exit_waits_for_the_monitor, 3, NULL},
	{"exit-waits-for-waiters-that-ask", exit_waits_for_waiters_that_ask, 3, NULL},
	{"future-made-during-exit-ends", future_made_during_exit_ends, 8, NULL},
	{"event-is-not-used-again-while-asked", event_is_not_used_again_while_asked, 0, NULL},
	{"threads-on-one-stream-keep-its-order", threads_on_one_stream_keep_its_order, 0, NULL},
	{NULL, NULL, 0, NULL},
};
