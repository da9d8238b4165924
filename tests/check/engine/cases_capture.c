// SPDX-License-Identifier: MIT
/* Cases of L07: the legacy default stream beside captures. */
#include <pthread.h>

#include "cases.h"

static CUstream capture(unsigned int flags)
{
	CUstream stream = new_stream(flags);

	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)); /* other */
	return stream;
}

static void end(CUstream stream)
{
	CUgraph graph;

	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphDestroy(graph));
}

static void case_launch_beside_capture(void)
{
	CUstream stream = capture(CU_STREAM_NON_BLOCKING);

	spin(stream, 1000);
	OK(cuMemsetD8Async(on_device(64), 0, 64, NULL)); /* L07 */
	end(stream);
}

static void case_launch_in_capture(void)
{
	CUstream stream = capture(CU_STREAM_NON_BLOCKING);

	spin(stream, 1000);
	end(stream);
}

static void case_launch_behind_capture(void)
{
	CUdeviceptr memory = on_device(64);

	end(capture(CU_STREAM_NON_BLOCKING));
	OK(cuMemsetD8Async(memory, 0, 64, NULL));
}

static void case_launch_behind_destroyed_capture(void)
{
	CUdeviceptr memory = on_device(64);

	OK(cuStreamDestroy(capture(CU_STREAM_NON_BLOCKING)));
	OK(cuMemsetD8Async(memory, 0, 64, NULL));
}

static void case_upload_beside_capture(void)
{
	CUstream stream = capture(CU_STREAM_NON_BLOCKING);
	char bytes[64] = {0};

	OK(cuMemcpyHtoD(on_device(64), bytes, sizeof(bytes)));
	end(stream);
}

static void case_other_stream_beside_capture(void)
{
	CUstream stream = capture(CU_STREAM_NON_BLOCKING),
		 other = new_stream(CU_STREAM_NON_BLOCKING);

	OK(cuMemsetD8Async(on_device(64), 0, 64, other));
	end(stream);
}

static void *launch_elsewhere(void *context)
{
	OK(cuCtxSetCurrent(context));
	OK(cuMemsetD8Async(on_device(64), 0, 64, NULL));
	return NULL;
}

static void case_other_thread_beside_capture(void)
{
	CUstream stream = capture(CU_STREAM_NON_BLOCKING);
	CUcontext context;
	pthread_t thread;

	OK(cuCtxGetCurrent(&context));
	if (pthread_create(&thread, NULL, launch_elsewhere, context))
		abort();
	pthread_join(thread, NULL);
	end(stream);
}

const struct check_case cases_capture[] = {
	CASE(launch_beside_capture),       CASE(launch_in_capture),
	CASE(launch_behind_capture),       CASE(launch_behind_destroyed_capture),
	CASE(upload_beside_capture),       CASE(other_stream_beside_capture),
	CASE(other_thread_beside_capture), {NULL, NULL, NULL},
};
