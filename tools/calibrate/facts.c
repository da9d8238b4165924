// SPDX-License-Identifier: MIT
/*
 * Facts about NULL-stream order, captures, look-ups and arguments, each found out by doing it. Used
 * by measure.c; relies on bench.c.
 *
 * A value is a status code, yes or no, or a small number: nothing that varies from run to run on
 * one driver.
 */
#include "facts.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cells.h"
#include "gpu.h"

#define BUSY 5000000 /* ns of the busy kernel */

static void status(const char *name, CUresult result)
{
	printf("fact %s %d\n", name, (int)result);
	fflush(stdout);
}

static void answer(const char *name, int yes)
{
	printf("fact %s %s\n", name, yes ? "yes" : "no");
	fflush(stdout);
}

/* How long until the event is complete, from `begin`. */
static CUresult until(CUevent event, uint64_t begin, uint64_t *ret_ns)
{
	CUresult result = gpu.cuEventSynchronize(event);

	*ret_ns = bench_now() - begin;
	return result;
}

#define LONG(ns)  ((ns) > BUSY / 2)
#define SHORT(ns) (!LONG(ns))

/* An instantiated graph of one short kernel. */
static CUresult graph_make(struct bench *bench, CUgraphExec *ret_exec)
{
	CUgraph graph;
	CUresult result;

	result = gpu.cuStreamBeginCapture(bench->stream[BENCH_NON_BLOCKING],
					  CU_STREAM_CAPTURE_MODE_RELAXED);
	if (!result)
		result = bench_kernel(bench, BENCH_NON_BLOCKING, 1000);
	if (!result)
		result = gpu.cuStreamEndCapture(bench->stream[BENCH_NON_BLOCKING], &graph);
	if (!result)
		result = gpu.cuGraphInstantiateWithFlags(ret_exec, graph, 0);
	if (!result)
		result = gpu.cuGraphDestroy(graph);
	return result;
}

static int facts_null(struct bench *bench)
{
	CUstream blocking = bench->stream[BENCH_BLOCKING], later;
	uint64_t begin, ns, returned;
	CUdeviceptr memory;
	CUgraphExec exec;
	CUevent event;
	CUresult result;

	TRY(gpu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	TRY(gpu.cuMemAlloc(&memory, 4096));

	TRY(bench_kernel(bench, BENCH_BLOCKING, BUSY));
	status("null-query-behind-blocking", gpu.cuStreamQuery(NULL));
	begin = bench_now();
	TRY(gpu.cuStreamSynchronize(NULL));
	answer("null-synchronize-waits-for-blocking", LONG(bench_now() - begin));
	TRY(bench_kernel(bench, BENCH_NON_BLOCKING, BUSY));
	status("null-query-behind-non-blocking", gpu.cuStreamQuery(NULL));
	begin = bench_now();
	TRY(gpu.cuStreamSynchronize(NULL));
	answer("null-synchronize-waits-for-non-blocking", LONG(bench_now() - begin));
	TRY(bench_idle(bench));

	TRY(graph_make(bench, &exec));
	TRY(gpu.cuGraphLaunch(exec, NULL));
	TRY(bench_idle(bench));
	TRY(bench_kernel(bench, BENCH_BLOCKING, BUSY));
	begin = bench_now();
	TRY(gpu.cuGraphLaunch(exec, NULL));
	returned = bench_now() - begin;
	/*
	 * Recorded on a per-thread basis it would prove nothing; so time the NULL stream's own end.
	 */
	TRY(gpu.cuEventRecord(event, NULL));
	TRY(until(event, begin, &ns));
	answer("null-graph-launch-blocks", LONG(returned));
	answer("null-graph-launch-ordered", LONG(ns));

	TRY(bench_kernel(bench, BENCH_NULL, BUSY));
	begin = bench_now();
	TRY(gpu.cuStreamCreate(&later, CU_STREAM_DEFAULT));
	TRY(gpu.cuMemsetD8Async(memory, 0, 16, later));
	TRY(gpu.cuEventRecord(event, later));
	TRY(until(event, begin, &ns));
	answer("stream-created-after-null-ordered", LONG(ns));
	TRY(bench_idle(bench));

	TRY(bench_kernel(bench, BENCH_BLOCKING, BUSY));
	begin = bench_now();
	result = gpu.cuStreamDestroy(later);
	status("stream-destroy-idle", result);
	TRY(gpu.cuStreamCreate(&later, CU_STREAM_DEFAULT));
	TRY(gpu.cuEventRecord(event, NULL));
	TRY(gpu.cuStreamWaitEvent(bench->stream[BENCH_NON_BLOCKING], event, 0));
	TRY(gpu.cuEventRecord(event, bench->stream[BENCH_NON_BLOCKING]));
	TRY(until(event, begin, &ns));
	answer("null-record-covers-blocking", LONG(ns));
	TRY(bench_idle(bench));

	/* Record on NULL while only a non-blocking stream is busy; waited for by another
	 * non-blocking one. */
	TRY(bench_kernel(bench, BENCH_NON_BLOCKING, BUSY));
	begin = bench_now();
	TRY(gpu.cuEventRecord(event, NULL));
	TRY(gpu.cuStreamWaitEvent(bench->observer[BENCH_NON_BLOCKING], event, 0));
	TRY(gpu.cuEventRecord(event, bench->observer[BENCH_NON_BLOCKING]));
	TRY(until(event, begin, &ns));
	answer("null-record-covers-non-blocking", LONG(ns));
	TRY(bench_idle(bench));

	TRY(bench_kernel(bench, BENCH_NON_BLOCKING, BUSY));
	begin = bench_now();
	TRY(gpu.cuEventRecord(event, bench->stream[BENCH_NON_BLOCKING]));
	TRY(gpu.cuStreamWaitEvent(NULL, event, 0));
	TRY(gpu.cuMemsetD8Async(memory, 0, 16, blocking));
	TRY(gpu.cuEventRecord(event, blocking));
	TRY(until(event, begin, &ns));
	answer("null-wait-holds-blocking", LONG(ns));
	TRY(bench_idle(bench));
	return 0;
}

static int facts_pool(struct bench *bench)
{
	CUstream blocking = bench->stream[BENCH_BLOCKING];
	CUdeviceptr memory, again;
	uint64_t begin, ns;
	CUevent event;

	TRY(gpu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	/* The first allocation makes the pool: done before anything is timed. */
	TRY(gpu.cuMemAllocAsync(&memory, 1 << 20, blocking));
	TRY(gpu.cuMemFreeAsync(memory, blocking));
	TRY(bench_idle(bench));
	TRY(gpu.cuMemAllocAsync(&memory, 1 << 20, blocking));
	TRY(bench_idle(bench));
	TRY(bench_kernel(bench, BENCH_BLOCKING, BUSY));
	begin = bench_now();
	TRY(gpu.cuMemFreeAsync(memory, NULL));
	answer("null-free-async-blocks", LONG(bench_now() - begin));
	TRY(gpu.cuMemAllocAsync(&again, 1 << 20, bench->stream[BENCH_NON_BLOCKING]));
	answer("null-free-async-reused-early", again == memory);
	begin = bench_now();
	TRY(gpu.cuMemsetD8Async(again, 0, 16, bench->stream[BENCH_NON_BLOCKING]));
	TRY(gpu.cuEventRecord(event, bench->stream[BENCH_NON_BLOCKING]));
	TRY(until(event, begin, &ns));
	answer("alloc-after-null-free-usable-at-once", SHORT(ns));
	TRY(bench_idle(bench));
	return 0;
}

/* A capture on `stream`, a call in it, the end: two facts. The graph, if one came out, goes. */
static void capture_end(const char *name, CUstream stream)
{
	CUgraph graph = NULL;

	status(name, gpu.cuStreamEndCapture(stream, &graph));
	if (graph)
		(void)gpu.cuGraphDestroy(graph);
}

static int facts_capture_blocking(struct bench *bench)
{
	static const struct {
		CUstreamCaptureMode mode;
		const char *query, *query_end, *launch, *launch_end, *copy, *copy_end;
	} mode[] = {
		{CU_STREAM_CAPTURE_MODE_RELAXED, "capture-relaxed-null-is-capturing",
		 "capture-relaxed-null-is-capturing-end", "capture-relaxed-null-launch",
		 "capture-relaxed-null-launch-end", "capture-relaxed-empty-copy",
		 "capture-relaxed-empty-copy-end"},
		{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "capture-thread-null-is-capturing",
		 "capture-thread-null-is-capturing-end", "capture-thread-null-launch",
		 "capture-thread-null-launch-end", "capture-thread-empty-copy",
		 "capture-thread-empty-copy-end"},
	};
	CUstream stream = bench->stream[BENCH_BLOCKING];
	CUstreamCaptureStatus capturing;
	CUdeviceptr memory;
	char byte = 0;

	TRY(gpu.cuMemAlloc(&memory, 4096));
	for (size_t i = 0; i < sizeof(mode) / sizeof(mode[0]); i++) {
		TRY(gpu.cuStreamBeginCapture(stream, mode[i].mode));
		status(mode[i].query, gpu.cuStreamIsCapturing(NULL, &capturing));
		capture_end(mode[i].query_end, stream);
		TRY(gpu.cuStreamBeginCapture(stream, mode[i].mode));
		status(mode[i].launch, bench_kernel(bench, BENCH_NULL, 0));
		capture_end(mode[i].launch_end, stream);
		TRY(gpu.cuStreamBeginCapture(stream, mode[i].mode));
		status(mode[i].copy, gpu.cuMemcpyHtoD(memory, &byte, 0));
		capture_end(mode[i].copy_end, stream);
	}
	return 0;
}

static void *query_thread(void *argument)
{
	struct bench *bench = argument;

	(void)gpu.cuCtxSetCurrent(bench->context);
	status("capture-global-event-query-other-thread", gpu.cuEventQuery(bench->observed));
	return NULL;
}

static int facts_capture_global(struct bench *bench)
{
	CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL, mode;
	CUstream stream = bench->stream[BENCH_NON_BLOCKING];
	CUdeviceptr memory;
	pthread_t thread;
	void *block;

	TRY(gpu.cuEventRecord(bench->observed, bench->observer[BENCH_NON_BLOCKING]));
	TRY(bench_idle(bench));

	TRY(gpu.cuStreamBeginCapture(stream, global));
	status("capture-global-null-launch", bench_kernel(bench, BENCH_NULL, 0));
	capture_end("capture-global-null-launch-end", stream);
	TRY(gpu.cuStreamBeginCapture(stream, global));
	status("capture-global-event-query", gpu.cuEventQuery(bench->observed));
	capture_end("capture-global-event-query-end", stream);
	TRY(gpu.cuStreamBeginCapture(stream, global));
	status("capture-global-host-alloc", gpu.cuMemHostAlloc(&block, 4096, 0));
	capture_end("capture-global-host-alloc-end", stream);
	TRY(gpu.cuStreamBeginCapture(stream, global));
	status("capture-global-mem-alloc", gpu.cuMemAlloc(&memory, 4096));
	capture_end("capture-global-mem-alloc-end", stream);

	TRY(gpu.cuStreamBeginCapture(stream, global));
	if (pthread_create(&thread, NULL, query_thread, bench))
		return -EIO;
	pthread_join(thread, NULL);
	capture_end("capture-global-event-query-other-thread-end", stream);

	TRY(gpu.cuStreamBeginCapture(stream, global));
	mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	TRY(gpu.cuThreadExchangeStreamCaptureMode(&mode));
	status("capture-global-relaxed-event-query", gpu.cuEventQuery(bench->observed));
	status("capture-global-relaxed-event-record",
	       gpu.cuEventRecord(bench->observed, bench->observer[BENCH_NON_BLOCKING]));
	TRY(gpu.cuThreadExchangeStreamCaptureMode(&mode));
	capture_end("capture-global-relaxed-end", stream);
	return 0;
}

static int facts_look_up(struct bench *bench)
{
	CUdriverProcAddressQueryResult found = 99;
	void *pointer, *untouched = (void *)1;

	(void)bench;
	if (gpu.get_proc_address_v1) {
		pointer = untouched;
		status("look-up-v1-unknown",
		       gpu.get_proc_address_v1("cuNoSuchName", &pointer, 13000, 0));
		answer("look-up-v1-unknown-untouched", pointer == untouched);
	}
	pointer = untouched;
	status("look-up-v2-unknown",
	       gpu.cuGetProcAddress("cuNoSuchName", &pointer, 13000, 0, &found));
	answer("look-up-v2-unknown-null", !pointer);
	printf("fact look-up-v2-unknown-found %d\n", (int)found);
	pointer = untouched;
	status("look-up-v2-too-old",
	       gpu.cuGetProcAddress("cuMemAllocAsync", &pointer, 2000, 0, &found));
	answer("look-up-v2-too-old-null", !pointer);
	printf("fact look-up-v2-too-old-found %d\n", (int)found);
	pointer = untouched;
	status("look-up-v2-too-new", gpu.cuGetProcAddress("cuInit", &pointer, 99000, 0, &found));
	answer("look-up-v2-too-new-untouched", pointer == untouched);
	return 0;
}

static int facts_arguments(struct bench *bench)
{
	unsigned long long null_id = 0, legacy_id = 0, thread_id = 0;
	unsigned int flags = 99;
	int priority = 99;
	CUdeviceptr memory, base;
	char *block, *heap;
	size_t size;
	void *nothing = NULL;

	(void)bench;
	TRY(gpu.cuStreamGetFlags(NULL, &flags));
	printf("fact null-flags %u\n", flags);
	TRY(gpu.cuStreamGetPriority(NULL, &priority));
	printf("fact null-priority %d\n", priority);
	TRY(gpu.cuStreamGetId(NULL, &null_id));
	TRY(gpu.cuStreamGetId(CU_STREAM_LEGACY, &legacy_id));
	TRY(gpu.cuStreamGetId(CU_STREAM_PER_THREAD, &thread_id));
	answer("null-id-equals-legacy", null_id == legacy_id);
	answer("null-id-equals-per-thread", null_id == thread_id);
	status("null-destroy", gpu.cuStreamDestroy(NULL));

	TRY(gpu.cuMemHostAlloc((void **)&block, 65536, 0));
	TRY(gpu.cuMemAlloc(&memory, 65536));
	heap = malloc(65536);
	if (!heap)
		return -EIO;
	status("host-free-interior", gpu.cuMemFreeHost(block + 4096));
	status("host-free-of-malloc", gpu.cuMemFreeHost(heap));
	status("mem-free-interior", gpu.cuMemFree(memory + 4096));
	status("host-unregister-of-host-alloc", gpu.cuMemHostUnregister(block));
	TRY(gpu.cuMemHostGetFlags(&flags, block));
	printf("fact host-alloc-flags %u\n", flags);
	status("host-free", gpu.cuMemFreeHost(block));
	status("host-free-twice", gpu.cuMemFreeHost(block));
	TRY(gpu.cuMemFree(memory));
	status("mem-free-twice", gpu.cuMemFree(memory));
	status("host-free-null", gpu.cuMemFreeHost(NULL));
	status("mem-free-zero", gpu.cuMemFree(0));
	status("host-alloc-zero-bytes", gpu.cuMemHostAlloc(&nothing, 0, 0));
	TRY(gpu.cuMemAlloc(&memory, 1000));
	TRY(gpu.cuMemGetAddressRange(&base, &size, memory + 10));
	printf("fact address-range-of-1000 %zu\n", size);
	TRY(gpu.cuMemFree(memory));
	free(heap);
	return 0;
}

static int facts_fork(struct bench *bench)
{
	int wait_status;
	pid_t child;

	(void)bench;
	fflush(stdout);
	child = fork();
	if (child < 0)
		return -errno;
	if (!child) {
		void *block;

		status("fork-child-init", gpu.cuInit(0));
		status("fork-child-synchronize", gpu.context_synchronize());
		status("fork-child-host-alloc", gpu.cuMemHostAlloc(&block, 4096, 0));
		fflush(stdout);
		_exit(0);
	}
	if (waitpid(child, &wait_status, 0) != child || wait_status)
		return -EIO;
	return 0;
}

const struct fact_group fact_groups[] = {
	{"null", facts_null},
	{"pool", facts_pool},
	{"capture-blocking", facts_capture_blocking},
	{"capture-global", facts_capture_global},
	{"look-up", facts_look_up},
	{"arguments", facts_arguments},
	{"fork", facts_fork},
	{NULL, NULL},
};
