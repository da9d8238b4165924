// SPDX-License-Identifier: MIT
/*
 * Programs that must end: kernels that run until the host says so, and threads that wait while others go on.
 */
#include "deadlocks.h"

#include <pthread.h>
#include <unistd.h>

/* ---- persistent kernels ---- */

/* The host feeds other streams while one kernel runs on. */
static void persistent(void)
{
	CUstream a = mixed(), b = make_stream(CU_STREAM_DEFAULT),
		 n = make_stream(CU_STREAM_NON_BLOCKING);
	uint64_t expected = 0;

	shut(n, 1);
	for (uint32_t i = 0; i < 100; i++) {
		work(a, 1, i);
		work(NULL, 1, i + 1000);
		work(b, 1, i + 2000);
		expected = folded(folded(folded(expected, i), i + 1000), i + 2000);
		work(NULL, 2, i);
		if (i % 10 == 0) {
			OK(cuStreamSynchronize(NULL));
			while (cuStreamQuery(b) == CUDA_ERROR_NOT_READY)
				;
		}
	}
	OK(cuStreamSynchronize(NULL));
	gates[1] = 1;
	OK(cuCtxSynchronize());
	EXPECT(get(1) == expected);
}

/* On a blocking stream: what has no legacy work before it runs beside it. */
static void persistent_on_blocking(void)
{
	CUstream a = mixed(), b = make_stream(CU_STREAM_DEFAULT),
		 c = make_stream(CU_STREAM_DEFAULT);

	shut(a, 1);
	for (uint32_t i = 0; i < 100; i++) {
		work(b, 1, i);
		work(c, 2, i);
		OK(cuStreamSynchronize(b));
		while (cuStreamQuery(c) == CUDA_ERROR_NOT_READY)
			;
	}
	gates[1] = 1;
	work(NULL, 1, 5);
	OK(cuStreamSynchronize(NULL));
	printf("%016llx %016llx\n", (unsigned long long)get(1), (unsigned long long)get(2));
}

/* The legacy stream is asked again and again; what ends the kernel is on a stream that is not behind it. */
static void polled(void)
{
	CUstream a = mixed(), b = make_stream(CU_STREAM_DEFAULT),
		 c = make_stream(CU_STREAM_DEFAULT);

	OK(cuStreamWaitValue32(a, words + 4096, 1, CU_STREAM_WAIT_VALUE_EQ));
	work(c, 1, 1);
	for (int i = 0; i < 5; i++)
		SAY(cuStreamQuery(NULL));
	OK(cuStreamWriteValue32(b, words + 4096, 1, 0));
	while (cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY)
		;
	SAY(cuStreamQuery(a));
}

/* ---- a thread that waits ---- */

enum way { SYNC_LEGACY, SYNC_STREAM, SYNC_EVENT, SYNC_CONTEXT, SYNC_COPY };

struct waiter {
	enum way way;
	CUstream stream;
	CUevent event;
};

static void *wait_long(void *data)
{
	struct waiter *waiter = data;

	OK(cuCtxSetCurrent(deadlocks_context));
	switch (waiter->way) {
	case SYNC_LEGACY:
		OK(cuStreamSynchronize(NULL));
		break;
	case SYNC_STREAM:
		OK(cuStreamSynchronize(waiter->stream));
		break;
	case SYNC_EVENT:
		OK(cuEventSynchronize(waiter->event));
		break;
	case SYNC_CONTEXT:
		OK(cuCtxSynchronize());
		break;
	case SYNC_COPY:
		(void)get(0);
		break;
	}
	return NULL;
}

/* Others go on, and are what ends the wait. `many`: more streams have work than one. */
static void stuck(enum way way, bool many)
{
	CUstream a = mixed(), b = make_stream(CU_STREAM_DEFAULT),
		 c = make_stream(CU_STREAM_DEFAULT);
	struct waiter waiter = {way, a, NULL};
	pthread_t thread;

	OK(cuEventCreate(&waiter.event, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamWaitValue32(a, words + 4096, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuEventRecord(waiter.event, a));
	if (many)
		work(c, 1, 1);
	start(&thread, wait_long, &waiter);
	usleep(100000);
	for (uint32_t i = 0; i < 10; i++) {
		work(c, 1, i);
		work(b, 2, i);
		/* A copy is work of the legacy stream, and what comes later waits for it. */
		if (way != SYNC_COPY) {
			OK(cuStreamSynchronize(c));
			OK(cuStreamSynchronize(b));
		}
	}
	OK(cuStreamDestroy(make_stream(CU_STREAM_DEFAULT)));
	OK(cuStreamWriteValue32(way == SYNC_COPY ? make_stream(CU_STREAM_NON_BLOCKING) : b,
				words + 4096, 1, 0));
	pthread_join(thread, NULL);
	OK(cuCtxSynchronize());
	printf("%016llx %016llx\n", (unsigned long long)get(1), (unsigned long long)get(2));
}

static void stuck_on_legacy(void)
{
	stuck(SYNC_LEGACY, false);
}

static void stuck_on_legacy_many(void)
{
	stuck(SYNC_LEGACY, true);
}

static void stuck_on_stream(void)
{
	stuck(SYNC_STREAM, true);
}

static void stuck_on_event(void)
{
	stuck(SYNC_EVENT, true);
}

static void stuck_on_context(void)
{
	stuck(SYNC_CONTEXT, true);
}

static void stuck_in_copy(void)
{
	stuck(SYNC_COPY, true);
}

/* The wait has one snapshot: what is submitted meanwhile, and ends only after it, is not waited for. */
static void snapshot(bool legacy_first)
{
	CUstream a = mixed(), b = make_stream(CU_STREAM_DEFAULT);
	struct waiter waiter = {SYNC_LEGACY, NULL, NULL};
	pthread_t thread;

	if (legacy_first)
		shut(NULL, 1);
	else
		shut(a, 1);
	work(b, 1, 1);
	start(&thread, wait_long, &waiter);
	usleep(100000);
	shut(b, 2);
	shut(a, 3);
	gates[1] = 1;
	pthread_join(thread, NULL);
	gates[2] = 1;
	gates[3] = 1;
	OK(cuCtxSynchronize());
}

static void snapshot_behind_legacy(void)
{
	snapshot(true);
}

static void snapshot_behind_blocking(void)
{
	snapshot(false);
}

/* Another thread's capture, in the strictest mode, has nothing to do with a wait that had begun before. */
static void capture_during_wait(void)
{
	CUstream a = mixed(), b = make_stream(CU_STREAM_DEFAULT),
		 n = make_stream(CU_STREAM_NON_BLOCKING);
	struct waiter waiter = {SYNC_LEGACY, NULL, NULL};
	CUgraph graph = NULL;
	pthread_t thread;

	shut(a, 1);
	work(NULL, 1, 1);
	work(b, 2, 1);
	start(&thread, wait_long, &waiter);
	usleep(100000);
	OK(cuStreamBeginCapture(n, CU_STREAM_CAPTURE_MODE_GLOBAL));
	work(n, 3, 1);
	gates[1] = 1;
	pthread_join(thread, NULL);
	SAY(cuStreamEndCapture(n, &graph));
	printf("graph %d\n", graph != NULL);
}

/* A large copy from pageable memory on a stream that has nothing of its own, behind the legacy one. */
static void large_copy_behind_legacy(void)
{
	static char source[24 << 20];
	CUstream a = mixed();
	CUdeviceptr block;

	OK(cuMemAlloc(&block, sizeof(source)));
	OK(cuMemcpyHtoDAsync(block, source, sizeof(source), a));
	OK(cuCtxSynchronize());
	shut(NULL, 1);
	OK(cuMemcpyHtoDAsync(block, source, sizeof(source), a));
	gates[1] = 1;
	OK(cuCtxSynchronize());
}

static CUstream filled;

static void *work_on_filled(void *data)
{
	OK(cuCtxSetCurrent(deadlocks_context));
	work(filled, 2, 1);
	return NULL;
}

static int waited;

static void *wait_for_legacy(void *data)
{
	OK(cuCtxSetCurrent(deadlocks_context));
	OK(cuStreamSynchronize(NULL));
	__atomic_store_n(&waited, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* While a call waits for room in its queue its stream is not behind the legacy one yet, and who waits for the latter waits for its work, too. */
static void wait_beside_full(void)
{
	pthread_t worker, waiter;

	filled = mixed();
	shut(filled, 1);
	for (uint32_t i = 0; i < 1023; i++)
		work(filled, 1, i);
	shut(NULL, 2);
	start(&worker, work_on_filled, NULL);
	usleep(100000);
	start(&waiter, wait_for_legacy, NULL);
	usleep(100000);
	gates[1] = 1;
	pthread_join(worker, NULL);
	usleep(100000);
	EXPECT(!__atomic_load_n(&waited, __ATOMIC_ACQUIRE));
	gates[2] = 1;
	pthread_join(waiter, NULL);
	EXPECT(waited);
}

/* What a capture makes the driver refuse waits for nobody. */
static void refused_beside_capture(void)
{
	CUstream a = mixed();
	CUgraph graph = NULL;

	shut(NULL, 1);
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuMemsetD8Async(words + 4096, 1, 8, NULL));
	SAY(cuStreamEndCapture(a, &graph));
	gates[1] = 1;
	OK(cuCtxSynchronize());
}

/* The host opens what the legacy stream waits for behind a call that had no barrier from the driver: nobody waits for it but streams. */
static void refused_post(void)
{
	CUstream a = mixed(), b = make_stream(CU_STREAM_DEFAULT);

	work(b, 1, 1);
	work(a, 2, 1);
	shut(NULL, 3);
	work(NULL, 1, 2);
	work(b, 1, 3);
	work(a, 2, 2);
	gates[3] = 1;
	EXPECT(get(1) == folded(folded(folded(0, 1), 2), 3));
}

static CUstream ordered;

static void *work_and_open(void *data)
{
	OK(cuCtxSetCurrent(deadlocks_context));
	usleep(200000);
	work(ordered, 2, 2);
	gates[3] = 1;
	return NULL;
}

/* Here the host has to wait, and another thread goes on submitting before it opens the gate. */
static void refused_barriers(void)
{
	CUstream b = make_stream(CU_STREAM_DEFAULT);
	pthread_t thread;

	ordered = mixed();
	work(b, 1, 1);
	shut(NULL, 3);
	work(NULL, 1, 2);
	work(ordered, 2, 1);
	start(&thread, work_and_open, NULL);
	work(b, 1, 3);
	pthread_join(thread, NULL);
	EXPECT(get(1) == folded(folded(folded(0, 1), 2), 3));
	EXPECT(get(2) == folded(folded(0, 1), 2));
}

const struct named_case wait_programs[] = {
	{"persistent-kernel", persistent},
	{"persistent-kernel-on-blocking", persistent_on_blocking},
	{"legacy-polled", polled},
	{"stuck-on-legacy", stuck_on_legacy},
	{"stuck-on-legacy-many-streams", stuck_on_legacy_many},
	{"stuck-on-stream", stuck_on_stream},
	{"stuck-on-event", stuck_on_event},
	{"stuck-on-context", stuck_on_context},
	{"stuck-in-copy", stuck_in_copy},
	{"snapshot-behind-legacy", snapshot_behind_legacy},
	{"snapshot-behind-blocking", snapshot_behind_blocking},
	{"capture-begins-during-a-wait", capture_during_wait},
	{"wait-beside-full-queue", wait_beside_full},
	{"refused-beside-capture", refused_beside_capture},
	{"large-copy-behind-legacy", large_copy_behind_legacy},
	{"refused-post", refused_post},
	{"refused-barriers", refused_barriers},
	{NULL, NULL},
};
