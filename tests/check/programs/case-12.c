// SPDX-License-Identifier: MIT
/*
 * Case 12, pytorch#104487, #148594: one thread captures in global mode, another asks for an event: the capture is lost (900). Fixed: the capture is the
 * thread's own.
 */
#include "common.h"

static CUevent event;

static void *ask(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(context));
	(void)cuEventQuery(event); /* FOUND: L09 */
	return NULL;
}

int main(int argc, char **argv)
{
	CUstream stream, other;
	CUgraph graph = NULL;
	CUdeviceptr data;

	begin(argc, argv);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	other = new_stream(CU_STREAM_NON_BLOCKING);
	event = new_event(CU_EVENT_DISABLE_TIMING);
	data = on_device(BYTES);
	OK(cuEventRecord(event, other));
	OK(cuStreamBeginCapture(stream, fixed ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
					      : CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemsetD8Async(data, 0, BYTES, stream));
	(void)pthread_join(new_thread(ask, NULL), NULL);
	(void)cuStreamEndCapture(stream, &graph);
	if (graph)
		OK(cuGraphDestroy(graph));
	OK(cuEventDestroy(event));
	return 0;
}
