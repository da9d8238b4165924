// SPDX-License-Identifier: MIT
/*
 * Captures a stream while the same thread, and another one, do what a library like ours would like to answer
 * with work or questions of its own: waits, allocations, events. One case a run, named by the first
 * argument. Prints every status, the nodes of the graph and the bytes that it leaves; run.py compares
 * with and without the shim. Runs on the simulated driver.
 */
#include <pthread.h>

#include "entry_test.h"

#define CALL(name, ...) printf(#name " %d\n", name(__VA_ARGS__))
#define BYTES           65536

static CUstream captured, blocking, other;
static CUevent before, inside, timing;
static CUdeviceptr memory, more;
static unsigned char *pinned;

static void prepare(void)
{
	CUcontext context = NULL;
	CUdevice device = 0;

	CALL(cuInit, 0);
	CALL(cuDeviceGet, &device, 0);
	CALL(cuDevicePrimaryCtxRetain, &context, device);
	CALL(cuCtxSetCurrent, context);
	CALL(cuStreamCreate, &captured, CU_STREAM_NON_BLOCKING);
	CALL(cuStreamCreate, &blocking, CU_STREAM_DEFAULT);
	CALL(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
	CALL(cuEventCreate, &before, CU_EVENT_DEFAULT);
	CALL(cuEventCreate, &inside, CU_EVENT_DISABLE_TIMING);
	CALL(cuEventCreate, &timing, CU_EVENT_DEFAULT);
	CALL(cuMemAlloc, &memory, BYTES);
	CALL(cuMemAlloc, &more, BYTES);
	CALL(cuMemHostAlloc, (void **)&pinned, BYTES, 0);
	CALL(cuMemsetD8Async, memory, 1, BYTES, other);
	CALL(cuEventRecord, before, other);
}

/* The graph as it came out, and what running it leaves; a capture that broke leaves none. */
static void finish(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	unsigned char byte = 0;
	size_t nodes = 0;

	CALL(cuStreamIsCapturing, stream, &status);
	printf("status %d\n", (int)status);
	CALL(cuStreamEndCapture, stream, &graph);
	CALL(cuStreamSynchronize, other);
	if (!graph)
		return;
	CALL(cuGraphGetNodes, graph, NULL, &nodes);
	printf("nodes %zu\n", nodes);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	CALL(cuGraphLaunch, exec, stream);
	CALL(cuStreamSynchronize, stream);
	CALL(cuMemcpyDtoH, &byte, memory, 1);
	printf("byte %d\n", byte);
}

/* Waits of each kind on a stream that is not captured. */
static void wait_elsewhere(void)
{
	for (int i = 0; i < 3; i++) {
		CALL(cuMemcpyHtoDAsync, more, pinned, BYTES, other);
		CALL(cuStreamSynchronize, other);
	}
}

/* 31: of a blocking stream, which work on the legacy stream would break. */
static void case_legacy_work(void)
{
	CALL(cuStreamBeginCapture, blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuMemsetD8Async, memory, 31, BYTES, blocking);
	wait_elsewhere();
	CALL(cuMemsetD8Async, memory, 32, BYTES, blocking);
	finish(blocking);
	/* And where the program does it itself: the driver's own words. */
	CALL(cuStreamBeginCapture, blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	CALL(cuMemsetD8Async, memory, 33, BYTES, NULL);
	finish(blocking);
}

/* 32: an event recorded before is asked in each mode. */
static void case_event_query(void)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_RELAXED,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_GLOBAL};

	CALL(cuStreamSynchronize, other);
	for (int i = 0; i < 3; i++) {
		CALL(cuStreamBeginCapture, captured, modes[i]);
		CALL(cuMemsetD8Async, memory, 40 + i, BYTES, captured);
		wait_elsewhere();
		finish(captured);
		CALL(cuStreamBeginCapture, captured, modes[i]);
		CALL(cuMemsetD8Async, memory, 50 + i, BYTES, captured);
		CALL(cuEventQuery, before);
		finish(captured);
	}
}

static void *allocate(void *data)
{
	CUcontext context = data;
	CUdeviceptr block = 0;

	CALL(cuCtxSetCurrent, context);
	for (int i = 0; i < 3; i++) {
		CALL(cuMemAllocAsync, &block, BYTES, other);
		CALL(cuMemFreeAsync, block, other);
	}
	return NULL;
}

/* 33: blocks of a pool, from this thread and another, while a global capture forbids questions about it. */
static void case_pool(void)
{
	CUmemoryPool pool = NULL;
	CUcontext context = NULL;
	cuuint64_t used = 0;
	pthread_t thread;

	CALL(cuCtxGetCurrent, &context);
	CALL(cuDeviceGetDefaultMemPool, &pool, 0);
	for (int ask = 0; ask < 2; ask++) {
		CALL(cuStreamBeginCapture, captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
		CALL(cuMemsetD8Async, memory, 60 + ask, BYTES, captured);
		CHECK(!pthread_create(&thread, NULL, allocate, context));
		CHECK(!pthread_join(thread, NULL));
		allocate(context);
		if (ask)
			CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
		finish(captured);
	}
}

/* 34: events recorded into the capture, across streams, and one outside its order: that many nodes, no more. */
static void case_events(void)
{
	for (int i = 0; i < 2; i++) {
		CALL(cuStreamBeginCapture, captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
		CALL(cuEventRecord, timing, captured);
		CALL(cuMemsetD8Async, memory, 70, BYTES, captured);
		CALL(cuEventRecord, inside, captured);
		CALL(cuStreamWaitEvent, blocking, inside, 0);
		CALL(cuMemsetD8Async, memory, 71, BYTES, blocking);
		CALL(cuEventRecord, inside, blocking);
		CALL(cuStreamWaitEvent, captured, inside, 0);
		if (i)
			CALL(cuEventRecordWithFlags, before, captured, CU_EVENT_RECORD_EXTERNAL);
		wait_elsewhere();
		finish(captured);
		CALL(cuEventQuery, timing);
		CALL(cuEventSynchronize, before);
	}
}

/* 36: a wait that has the captured stream, and a busy one, among those it may be for. */
static void case_questions(void)
{
	for (int i = 0; i < 3; i++) {
		CALL(cuMemsetD8Async, more, 80 + i, BYTES, blocking);
		CALL(cuStreamBeginCapture, captured, CU_STREAM_CAPTURE_MODE_RELAXED);
		CALL(cuMemsetD8Async, memory, 80 + i, BYTES, captured);
		CALL(cuMemcpyHtoD, more, pinned, BYTES);
		CALL(cuMemcpyHtoDAsync, more, pinned, BYTES, other);
		CALL(cuMemFree, more);
		CALL(cuMemAlloc, &more, BYTES);
		finish(captured);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"legacy-work", case_legacy_work}, {"event-query", case_event_query}, {"pool", case_pool},
	{"events", case_events},           {"questions", case_questions},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]) != 0)
			continue;
		prepare();
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "usage: captures CASE\n");
	return 2;
}
