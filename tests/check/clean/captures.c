// SPDX-License-Identifier: MIT
/* Beside L07, L08 and L09: captures that others leave alone. */
#include "calls.h"

static CUgraph end_capture(CUstream stream)
{
	CUgraph graph;

	OK(cuStreamEndCapture(stream, &graph));
	return graph;
}

static void replay(CUgraph graph, CUstream stream)
{
	CUgraphExec instance;

	OK(cuGraphInstantiate(&instance, graph, 0));
	for (int i = 0; i < ROUNDS; i++)
		OK(cuGraphLaunch(instance, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(instance));
	OK(cuGraphDestroy(graph));
}

static void legacy_before_and_after(void)
{
	unsigned int value = 7, count = BYTES / 4;
	CUgraph graph;

	OK(LAUNCH(fill, NULL, &data, &value, &count));
	OK(cuStreamSynchronize(NULL));
	OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuMemsetD8Async(data, 0, BYTES, first));
	graph = end_capture(first);
	OK(LAUNCH(fill, NULL, &data, &value, &count));
	OK(cuStreamSynchronize(NULL));
	replay(graph, first);
}

/* A second stream joins the capture by an event, and comes back. */
static void fork_and_join(void)
{
	CUevent fork = new_event(CU_EVENT_DISABLE_TIMING),
		join = new_event(CU_EVENT_DISABLE_TIMING);

	OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemsetD8Async(data, 0, BYTES, first));
	OK(cuEventRecord(fork, first));
	OK(cuStreamWaitEvent(second, fork, 0));
	OK(cuMemsetD8Async(data + BYTES, 0, BYTES, second));
	OK(cuEventRecord(join, second));
	OK(cuMemcpyDtoDAsync(result, data, BYTES, first));
	OK(cuStreamWaitEvent(first, join, 0));
	replay(end_capture(first), first);
	OK(cuEventDestroy(fork));
	OK(cuEventDestroy(join));
}

static void *ask_in_relaxed_mode(void *event)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	OK(cuCtxSetCurrent(own_context));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuEventQuery((CUevent)event));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	return NULL;
}

static void asked_in_relaxed_mode(void)
{
	CUevent event = new_event(CU_EVENT_DISABLE_TIMING);

	OK(cuEventRecord(event, second));
	OK(cuStreamSynchronize(second));
	OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemsetD8Async(data, 0, BYTES, first));
	(void)pthread_join(new_thread(ask_in_relaxed_mode, event), NULL);
	replay(end_capture(first), first);
	OK(cuEventDestroy(event));
}

static void *work_elsewhere(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(own_context));
	OK(cuMemsetD8Async(result, 0, BYTES, second));
	return NULL;
}

static void other_thread_works(void)
{
	OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemsetD8Async(data, 0, BYTES, first));
	(void)pthread_join(new_thread(work_elsewhere, NULL), NULL);
	replay(end_capture(first), first);
	OK(cuStreamSynchronize(second));
}

/* What a thread does to its own capture is its own affair. */
static void own_capture_refuses(void)
{
	CUgraph graph = NULL;
	CUdeviceptr memory;

	OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
	(void)cuMemAlloc(&memory, BYTES);
	(void)cuStreamEndCapture(first, &graph);
	if (graph)
		OK(cuGraphDestroy(graph));
}

static void *capture_and_allocate(void *unused)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	CUgraph graph = NULL;
	CUdeviceptr memory;

	(void)unused;
	OK(cuCtxSetCurrent(own_context));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	(void)cuMemAlloc(&memory, BYTES);
	(void)cuStreamEndCapture(second, &graph);
	if (graph)
		OK(cuGraphDestroy(graph));
	return NULL;
}

/* What was refused is the thread's own capture's doing; the other thread's goes on. */
static void own_capture_refuses_beside_another(void)
{
	OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemsetD8Async(data, 0, BYTES, first));
	(void)pthread_join(new_thread(capture_and_allocate, NULL), NULL);
	replay(end_capture(first), first);
}

static void *ask_capturing_stream(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(own_context));
	(void)cuStreamQuery(first);
	return NULL;
}

/* Wrong in every mode, and so nothing that another mode would help. */
static void capturing_stream_asked(void)
{
	CUgraph graph = NULL;

	OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
	(void)pthread_join(new_thread(ask_capturing_stream, NULL), NULL);
	(void)cuStreamEndCapture(first, &graph);
	if (graph)
		OK(cuGraphDestroy(graph));
}

static void blocking_stream_captures_alone(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);

	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuMemsetD8Async(data, 0, BYTES, stream));
	replay(end_capture(stream), stream);
	/* So that the stream is needed. */
	OK(cuStreamSynchronize(NULL));
}

const struct named clean_captures[] = {
	{"legacy-before-and-after", legacy_before_and_after},
	{"fork-and-join", fork_and_join},
	{"asked-in-relaxed-mode", asked_in_relaxed_mode},
	{"other-thread-works", other_thread_works},
	{"own-capture-refuses", own_capture_refuses},
	{"own-capture-refuses-beside-another", own_capture_refuses_beside_another},
	{"capturing-stream-asked", capturing_stream_asked},
	{"blocking-stream-captures-alone", blocking_stream_captures_alone},
	{NULL, NULL},
};
