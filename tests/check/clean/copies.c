// SPDX-License-Identifier: MIT
/* Beside S01 and S05: copies and waits that are not one after the other, or whose wait is good for something. */
#include "calls.h"

static void work_between(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemcpyHtoDAsync(data, host, BYTES, first));
		sleep_ms(1);
		OK(cuStreamSynchronize(first));
	}
}

static void launch_between(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemcpyHtoDAsync(data, host, BYTES, first));
		spin_on(first, 1000);
		OK(cuStreamSynchronize(first));
	}
}

static void copy_and_other_stream(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemcpyHtoDAsync(data + i * BYTES, host + i * BYTES, BYTES, first));
		OK(cuStreamSynchronize(second));
		sleep_ms(1);
		OK(cuStreamSynchronize(first));
	}
}

static void copy_waited_for_twice(void)
{
	for (int i = 0; i < 2; i++) {
		OK(cuMemcpyHtoDAsync(data, host, BYTES, first));
		OK(cuStreamSynchronize(first));
	}
}

static void event_of_earlier_work(void)
{
	CUevent event = new_event(CU_EVENT_DISABLE_TIMING);

	for (int i = 0; i < ROUNDS; i++) {
		OK(cuEventRecord(event, first));
		OK(cuMemcpyHtoDAsync(data + i * BYTES, host + i * BYTES, BYTES, first));
		OK(cuEventSynchronize(event));
		sleep_ms(1);
		OK(cuStreamSynchronize(first));
	}
	OK(cuEventDestroy(event));
}

/* Behind work of the stream the wait is for that, too. */
static void result_read_back(void)
{
	unsigned int value = 7, count = BYTES / 4;

	for (int i = 0; i < ROUNDS; i++) {
		OK(LAUNCH(fill, first, &data, &value, &count));
		OK(cuMemcpyDtoHAsync(host, data, BYTES, first));
		OK(cuStreamSynchronize(first));
	}
}

static void synchronous_copies(void)
{
	for (int i = 0; i < ROUNDS; i++)
		OK(cuMemcpyHtoD(data, host, BYTES));
}

/* The host reads what it waits for. */
static void result_read_and_used(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemsetD8Async(data, (unsigned char)i, BYTES, first));
		OK(cuMemcpyDtoHAsync(host, data, BYTES, first));
		spin_on(first, 1000);
		OK(cuStreamSynchronize(first));
		sum += host[0];
		OK(cuMemcpyDtoDAsync(result, data, BYTES, second));
		order(second, first);
	}
	OK(cuStreamSynchronize(second));
	if (sum != ROUNDS * (ROUNDS - 1) / 2)
		exit(1);
}

/* The host may write the source again. */
static void source_used_again(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		memset(host, i, BYTES);
		OK(cuMemcpyHtoDAsync(data, host, BYTES, first));
		spin_on(first, 1000);
		OK(cuStreamSynchronize(first));
		OK(cuMemcpyDtoDAsync(result, data, BYTES, second));
		order(second, first);
	}
	OK(cuStreamSynchronize(second));
}

static void other_memory(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemsetD8Async(data, 0, BYTES, first));
		OK(cuStreamSynchronize(first));
		OK(cuMemsetD8Async(data + BYTES, 0, BYTES, second));
	}
	OK(cuStreamSynchronize(second));
}

static void same_stream(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemsetD8Async(data, 0, BYTES, first));
		OK(cuStreamSynchronize(first));
		OK(cuMemcpyDtoDAsync(result, data, BYTES, first));
	}
	OK(cuStreamSynchronize(first));
}

static void end_of_a_phase(void)
{
	OK(cuMemsetD8Async(data, 0, BYTES, first));
	OK(cuStreamSynchronize(first));
	OK(cuMemcpyDtoDAsync(result, data, BYTES, second));
	OK(cuStreamSynchronize(second));
}

/* A kernel may have written memory of the host. */
static void kernel_waited_for(void)
{
	unsigned long bytes = BYTES;
	CUdeviceptr seen = (CUdeviceptr)host;
	CUfunction copy = own_kernel("copy");

	for (int i = 0; i < ROUNDS; i++) {
		OK(LAUNCH(copy, first, &data, &seen, &bytes));
		OK(cuStreamSynchronize(first));
		OK(cuMemcpyDtoDAsync(result, data, BYTES, second));
		order(second, first);
	}
	OK(cuStreamSynchronize(second));
}

const struct named clean_copies[] = {
	{"work-between", work_between},
	{"launch-between", launch_between},
	{"copy-and-other-stream", copy_and_other_stream},
	{"copy-waited-for-twice", copy_waited_for_twice},
	{"event-of-earlier-work", event_of_earlier_work},
	{"result-read-back", result_read_back},
	{"synchronous-copies", synchronous_copies},
	{"result-read-and-used", result_read_and_used},
	{"source-used-again", source_used_again},
	{"other-memory", other_memory},
	{"same-stream", same_stream},
	{"end-of-a-phase", end_of_a_phase},
	{"kernel-waited-for", kernel_waited_for},
	{NULL, NULL},
};
