// SPDX-License-Identifier: MIT
/* Beside S02, S06 and S07: blocking streams that are needed, events whose time is taken, contexts that fit. */
#include "calls.h"

static void work_of(CUstream stream)
{
	OK(cuMemsetD8Async(data, 0, BYTES, stream));
	OK(cuStreamSynchronize(stream));
}

static void blocking_before_legacy(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);

	work_of(stream);
	OK(cuMemcpyHtoD(data, host, BYTES));
	OK(cuStreamDestroy(stream));
}

static void blocking_after_legacy(void)
{
	CUstream stream;

	OK(cuMemcpyHtoD(data, host, BYTES));
	stream = new_stream(CU_STREAM_DEFAULT);
	work_of(stream);
	OK(cuStreamDestroy(stream));
}

static void blocking_destroyed_before_legacy(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);

	work_of(stream);
	OK(cuStreamDestroy(stream));
	OK(cuMemcpyHtoD(data, host, BYTES));
}

static void blocking_waited_for_by_legacy(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);

	OK(cuMemsetD8Async(data, 0, BYTES, stream));
	OK(cuStreamSynchronize(NULL));
	OK(cuStreamDestroy(stream));
}

static void blocking_without_work(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);

	work_of(first);
	OK(cuStreamDestroy(stream));
}

static void time_taken(void)
{
	CUevent begin = new_event(CU_EVENT_DEFAULT), end = new_event(CU_EVENT_DEFAULT);
	float ms;

	for (int i = 0; i < ROUNDS; i++) {
		OK(cuEventRecord(begin, first));
		spin_on(first, 1000);
		OK(cuEventRecord(end, first));
		OK(cuEventSynchronize(end));
		OK(cuEventElapsedTime(&ms, begin, end));
	}
	OK(cuEventDestroy(begin));
	OK(cuEventDestroy(end));
}

static void time_taken_at_the_end(void)
{
	CUevent begin = new_event(CU_EVENT_DEFAULT), end = new_event(CU_EVENT_DEFAULT);
	float ms;

	OK(cuEventRecord(begin, first));
	OK(cuStreamWaitEvent(second, begin, 0));
	spin_on(second, 1000);
	OK(cuEventRecord(end, second));
	OK(cuStreamWaitEvent(first, end, 0));
	OK(cuStreamSynchronize(first));
	OK(cuEventElapsedTime(&ms, begin, end));
	OK(cuEventDestroy(begin));
	OK(cuEventDestroy(end));
}

static void timing_event_unused(void)
{
	CUevent event = new_event(CU_EVENT_DEFAULT);

	OK(cuEventRecord(event, first));
	OK(cuStreamSynchronize(first));
	OK(cuEventDestroy(event));
}

/* The handle may be that of the event before it. */
static void events_one_after_the_other(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		CUevent timed = new_event(CU_EVENT_DEFAULT), plain;

		OK(cuEventDestroy(timed));
		plain = new_event(CU_EVENT_DISABLE_TIMING);
		OK(cuEventRecord(plain, first));
		OK(cuStreamWaitEvent(second, plain, 0));
		OK(cuEventDestroy(plain));
	}
	OK(cuStreamSynchronize(second));
}

static CUcontext other_context(CUstream *ret_stream, CUdeviceptr *ret_memory)
{
	CUcontext other;
	CUdevice device;

	OK(cuDeviceGet(&device, 1));
	OK(cuDevicePrimaryCtxRetain(&other, device));
	OK(cuCtxSetCurrent(other));
	*ret_stream = new_stream(CU_STREAM_NON_BLOCKING);
	*ret_memory = on_device(BYTES);
	OK(cuCtxSetCurrent(own_context));
	return other;
}

static void context_made_current(void)
{
	CUdeviceptr memory;
	CUstream stream;
	CUcontext other = other_context(&stream, &memory);

	for (int i = 0; i < ROUNDS; i++) {
		OK(cuCtxPushCurrent(other));
		OK(cuMemsetD8Async(memory, 0, BYTES, stream));
		OK(cuCtxPopCurrent(NULL));
		OK(cuMemsetD8Async(data, 0, BYTES, first));
	}
	OK(cuStreamSynchronize(stream));
	OK(cuStreamSynchronize(first));
}

static void order_between_contexts(void)
{
	CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
	CUdeviceptr memory;
	CUstream stream;
	CUcontext other = other_context(&stream, &memory);

	OK(cuMemsetD8Async(data, 0, BYTES, first));
	OK(cuEventRecord(event, first));
	OK(cuStreamWaitEvent(stream, event, 0));
	OK(cuCtxSetCurrent(other));
	OK(cuMemcpyPeerAsync(memory, other, data, own_context, BYTES, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuEventDestroy(event));
}

const struct named clean_streams[] = {
	{"blocking-before-legacy", blocking_before_legacy},
	{"blocking-after-legacy", blocking_after_legacy},
	{"blocking-destroyed-before-legacy", blocking_destroyed_before_legacy},
	{"blocking-waited-for-by-legacy", blocking_waited_for_by_legacy},
	{"blocking-without-work", blocking_without_work},
	{"time-taken", time_taken},
	{"time-taken-at-the-end", time_taken_at_the_end},
	{"timing-event-unused", timing_event_unused},
	{"events-one-after-the-other", events_one_after_the_other},
	{"context-made-current", context_made_current},
	{"order-between-contexts", order_between_contexts},
	{NULL, NULL},
};
