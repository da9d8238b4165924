// SPDX-License-Identifier: MIT
/*
 * Cases: the calls that put work on the legacy stream, wait for it or ask about it, in all their forms.
 */
#include "cases.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
			     unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			     unsigned int block_z, unsigned int shared, CUstream stream,
			     void **parameters, void **extra);
CUresult cuStreamSynchronize_ptsz(CUstream stream);
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream);

static CUstream a;

static void start(void)
{
	a = new_stream('a', CU_STREAM_DEFAULT);
	mix(a);
}

/* An event of the legacy stream stands for all that came before on both sides; a wait of it holds both. */
static void events(void)
{
	CUstream n;
	CUevent on_legacy, on_blocking, on_loose;

	start();
	n = new_stream('n', CU_STREAM_NON_BLOCKING);
	on_legacy = new_event('E', CU_EVENT_DISABLE_TIMING);
	on_blocking = new_event('F', CU_EVENT_DISABLE_TIMING);
	on_loose = new_event('G', CU_EVENT_DISABLE_TIMING);
	close_gate(a, 1);
	begin();
	step(a, 1);
	OK(cuEventRecord(on_legacy, NULL));
	OK(cuStreamWaitEvent(n, on_legacy, 0));
	end();
	step(n, LOOSE);
	SAY(cuEventQuery(on_legacy));
	SAY(cuStreamQuery(n));
	open_gate(1);
	OK(cuEventSynchronize(on_legacy));
	close_gate(n, 2);
	begin();
	OK(cuEventRecord(on_loose, n));
	OK(cuStreamWaitEvent(NULL, on_loose, 0));
	step(a, 1);
	OK(cuEventRecord(on_blocking, a));
	OK(cuStreamWaitEvent(NULL, on_blocking, 0));
	OK(cuEventRecordWithFlags(on_legacy, NULL, 0));
	end();
	step(NULL, 0);
	SAY(cuStreamQuery(a));
	SAY(cuStreamQuery(NULL));
	SAY(cuEventQuery(on_blocking));
	SAY(cuEventQuery(on_legacy));
	open_gate(2);
	OK(cuEventSynchronize(on_legacy));
	SAY(cuEventQuery(on_blocking));
	SAY(cuEventQuery(on_loose));
	say_words();
}

static void timing(void)
{
	CUevent from, to;
	float ms = -1;

	start();
	OK(cuEventCreate(&from, 0));
	OK(cuEventCreate(&to, 0));
	close_gate(a, 1);
	OK(cuEventRecord(from, NULL));
	close_gate(NULL, 2);
	OK(cuEventRecord(to, a));
	SAY(cuEventElapsedTime(&ms, from, to));
	open_gate(1);
	OK(cuEventSynchronize(from));
	usleep(20000);
	open_gate(2);
	OK(cuEventSynchronize(to));
	SAY(cuEventElapsedTime(&ms, from, to));
	EXPECT(ms >= 19);
	OK(cuEventRecord(from, a));
	OK(cuEventRecord(to, NULL));
	OK(cuStreamSynchronize(NULL));
	SAY(cuEventElapsedTime(&ms, from, to));
	EXPECT(ms >= 0);
}

/* Work of blocking streams only: the legacy stream is not done before they are, and done at once when they are known to be. */
static void query_and_synchronize(void)
{
	CUstream b;

	start();
	b = new_stream('b', CU_STREAM_DEFAULT);
	for (int i = 0; i < 50; i++) {
		step(NULL, 0);
		OK(cuStreamSynchronize(NULL));
		SAY(cuStreamQuery(NULL));
		close_gate(a, 1);
		SAY(cuStreamQuery(NULL));
		SAY(cuStreamQuery(CU_STREAM_LEGACY));
		close_gate(b, 2);
		SAY(cuStreamQuery(NULL));
		open_gate(1);
		OK(cuStreamSynchronize(a));
		SAY(cuStreamQuery(a));
		SAY(cuStreamQuery(NULL));
		open_gate(2);
		OK(cuStreamSynchronize(b));
		SAY(cuStreamQuery(NULL));
		step(a, 1);
		step(NULL, 0);
		step(b, 2);
		OK(cuStreamSynchronize(NULL));
		SAY(cuStreamQuery(a));
		SAY(cuStreamQuery(b));
		SAY(cuStreamQuery(NULL));
	}
	say_words();
}

/* A blocking stream that is known to be done is asked once more: nothing of ours may be under way there. */
static void queries_of_blocking(void)
{
	start();
	for (int i = 0; i < 50; i++) {
		step(a, 1);
		OK(cuStreamSynchronize(a));
		step(NULL, 0);
		SAY(cuStreamQuery(a));
		step(a, 1);
		step(NULL, 0);
		OK(cuStreamSynchronize(NULL));
		SAY(cuStreamQuery(a));
	}
	say_words();
}

/* The same, where an event says that it is done, which was recorded before the legacy stream's operation came. */
static void queries_behind_events(void)
{
	CUevent event;

	start();
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < 50; i++) {
		step(a, 1);
		OK(cuEventRecord(event, a));
		step(NULL, 0);
		OK(cuEventSynchronize(event));
		SAY(cuStreamQuery(a));
	}
	say_words();
}

static volatile uint32_t seen;

/* What a synchronize of the legacy stream promises the host. */
static void CUDA_CB set_seen(void *value)
{
	usleep(20000);
	seen = (uint32_t)(uintptr_t)value;
}

static void synchronize_waits(void)
{
	start();
	for (uintptr_t i = 1; i < 4; i++) {
		OK(cuLaunchHostFunc(a, set_seen, (void *)i));
		OK(cuStreamSynchronize(i == 2 ? CU_STREAM_LEGACY : NULL));
		EXPECT(seen == i);
		OK(cuLaunchHostFunc(NULL, set_seen, (void *)(i + 10)));
		OK(cuStreamSynchronize(NULL));
		EXPECT(seen == i + 10);
		OK(cuLaunchHostFunc(NULL, set_seen, (void *)(i + 20)));
		step(a, 1);
		OK(cuStreamSynchronize(a));
		EXPECT(seen == i + 20);
		OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, set_seen, (void *)(i + 30)));
		OK(cuStreamSynchronize(NULL));
		EXPECT(seen == i + 30);
		OK(cuLaunchHostFunc(NULL, set_seen, (void *)(i + 40)));
		OK(cuCtxSynchronize());
		EXPECT(seen == i + 40);
	}
	/* A non-blocking stream is not waited for. */
	close_gate(new_stream('n', CU_STREAM_NON_BLOCKING), 1);
	step(NULL, 0);
	OK(cuStreamSynchronize(NULL));
	SAY(cuStreamQuery(NULL));
	open_gate(1);
	say_words();
}

/* A wait that the legacy stream is given holds the later work of blocking streams, too. */
static void wait_event(void)
{
	CUstream n;
	CUevent event;

	start();
	n = new_stream('n', CU_STREAM_NON_BLOCKING);
	event = new_event('E', CU_EVENT_DISABLE_TIMING);
	close_gate(n, 1);
	OK(cuEventRecord(event, n));
	begin();
	OK(cuStreamWaitEvent(NULL, event, 0));
	step(a, 1);
	end();
	SAY(cuStreamQuery(a));
	open_gate(1);
	OK(cuStreamSynchronize(a));
	SAY(cuEventQuery(event));
	say_words();
}

static uint64_t noted;

static void CUDA_CB note_call(void *value)
{
	noted = noted * 10 + (uintptr_t)value;
}

static void host_functions(void)
{
	start();
	begin();
	OK(cuLaunchHostFunc(a, note_call, (void *)1));
	OK(cuLaunchHostFunc(NULL, note_call, (void *)2));
	OK(cuLaunchHostFunc(NULL, note_call, (void *)3));
	OK(cuLaunchHostFunc(a, note_call, (void *)4));
	end();
	OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, note_call, (void *)5));
	OK(cuLaunchHostFunc(CU_STREAM_LEGACY, note_call, (void *)6));
	OK(cuCtxSynchronize());
	/* 4 and 5 are ordered with 3 and 6, not with each other. */
	EXPECT(noted == 123456 || noted == 123546);
}

static CUstream called_with[3];
static int called;

static void CUDA_CB note_stream(CUstream stream, CUresult status, void *data)
{
	EXPECT(status == CUDA_SUCCESS && data == &called);
	called_with[called++] = stream;
}

static void callbacks(void)
{
	start();
	step(NULL, 0);
	begin();
	OK(cuStreamAddCallback(NULL, note_stream, &called, 0));
	OK(cuStreamAddCallback(a, note_stream, &called, 0));
	OK(cuStreamAddCallback(CU_STREAM_LEGACY, note_stream, &called, 0));
	end();
	step(NULL, 0);
	OK(cuStreamSynchronize(NULL));
	EXPECT(called == 3);
	EXPECT(called_with[1] == a);
	printf("legacy %d %d\n", (int)(uintptr_t)called_with[0], (int)(uintptr_t)called_with[2]);
	say_words();
}

static CUgraphExec one_step_graph(CUstream stream, unsigned int index)
{
	CUgraph graph;
	CUgraphExec made;

	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	step(stream, index);
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiate(&made, graph, 0));
	return made;
}

static void graphs(void)
{
	CUgraphExec legacy, blocking;

	start();
	legacy = one_step_graph(new_stream('n', CU_STREAM_NON_BLOCKING), 0);
	blocking = one_step_graph(a, 1);
	OK(cuGraphLaunch(legacy, NULL));
	OK(cuGraphLaunch(blocking, a));
	OK(cuCtxSynchronize());
	begin();
	OK(cuGraphLaunch(blocking, a));
	OK(cuGraphLaunch(legacy, NULL));
	OK(cuGraphLaunch(blocking, a));
	step(NULL, 0);
	end();
	OK(cuGraphUpload(legacy, NULL));
	OK(cuGraphLaunch(legacy, CU_STREAM_LEGACY));
	say_words();
}

static void memory_operations(void)
{
	CUstreamBatchMemOpParams batch[2] = {
		{.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
				.address = word + 256,
				.value = 5}},
		{.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
			       .address = word + 256,
			       .value = 5,
			       .flags = CU_STREAM_WAIT_VALUE_EQ}},
	};
	CUstream n;

	start();
	n = new_stream('n', CU_STREAM_NON_BLOCKING);
	begin();
	OK(cuStreamWaitValue32(NULL, word + 128, 1, CU_STREAM_WAIT_VALUE_EQ));
	step(a, 1);
	end();
	SAY(cuStreamQuery(a));
	OK(cuStreamWriteValue32(n, word + 128, 1, 0));
	OK(cuStreamSynchronize(a));
	step(a, 1);
	begin();
	OK(cuStreamWriteValue32(NULL, word + 128, 2, 0));
	OK(cuStreamWriteValue64(NULL, word + 136, 3, 0));
	OK(cuStreamBatchMemOp(NULL, 2, batch, 0));
	end();
	OK(cuStreamWaitValue32(a, word + 128, 2, CU_STREAM_WAIT_VALUE_EQ));
	step(a, 1);
	step(NULL, 0);
	say_words();
}

/* The program's own structure is read, and left as it is. */
static void launch_with_structure(void)
{
	CUdeviceptr own, read;
	uint32_t bytes = 8, salt = 77;
	void *parameters[] = {&own, &read, &bytes, &salt};
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
	CUlaunchConfig config = {
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.attrs = &attribute,
		.numAttrs = 1,
	};
	CUlaunchConfig before;

	start();
	own = word;
	read = word + 8;
	memcpy(&before, &config, sizeof(before));
	step(a, 1);
	begin();
	OK(cuLaunchKernelEx(&config, hash_kernel, parameters, NULL));
	end();
	EXPECT(memcmp(&before, &config, sizeof(before)) == 0);
	config.hStream = CU_STREAM_LEGACY;
	OK(cuLaunchKernelEx(&config, hash_kernel, parameters, NULL));
	EXPECT(config.hStream == CU_STREAM_LEGACY);
	step(a, 1);
	SAY(cuLaunchKernelEx(NULL, hash_kernel, parameters, NULL));
	OK(cuLaunchCooperativeKernel(hash_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters));
	say_words();
}

static CUresult step_own_name(CUstream stream, unsigned int index)
{
	CUdeviceptr own = word + 8 * (uint64_t)index, read = index ? word : word + 8;
	uint32_t bytes = index ? 8 : 8 * (LOOSE - 1), salt = 1234;
	void *parameters[] = {&own, &read, &bytes, &salt};

	return cuLaunchKernel_ptsz(hash_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

/* 0x1 is the legacy stream by any name; 0 is, but for names that mean the thread's own; 0x2 is that by any. */
static void handles(void)
{
	CUevent event;

	start();
	event = new_event('E', CU_EVENT_DISABLE_TIMING);
	OK(step_own_name(NULL, 2));
	begin();
	step(CU_STREAM_LEGACY, 0);
	OK(step_own_name(CU_STREAM_LEGACY, 0));
	OK(step_own_name(NULL, 2));
	step(CU_STREAM_PER_THREAD, 2);
	OK(step_own_name(CU_STREAM_PER_THREAD, 2));
	OK(step_own_name(a, 1));
	OK(cuEventRecord_ptsz(event, NULL));
	OK(cuEventRecord_ptsz(event, CU_STREAM_LEGACY));
	end();
	OK(cuStreamSynchronize_ptsz(NULL));
	SAY(cuStreamQuery(CU_STREAM_PER_THREAD));
	OK(cuStreamSynchronize_ptsz(CU_STREAM_LEGACY));
	SAY(cuEventQuery(event));
	say_words();
}

const struct named_case call_cases[] = {
	{"events-stand-for-both-sides", events},
	{"timing-events-enclose-what-is-between", timing},
	{"query-of-the-legacy-stream-is-true", query_and_synchronize},
	{"query-of-a-blocking-stream-is-true", queries_of_blocking},
	{"query-of-a-blocking-stream-behind-its-event-is-true", queries_behind_events},
	{"synchronize-waits-for-both-sides", synchronize_waits},
	{"wait-on-the-legacy-stream-holds-blocking-ones", wait_event},
	{"host-functions-in-order", host_functions},
	{"callback-gets-the-programs-handle", callbacks},
	{"graphs-in-order", graphs},
	{"memory-operations-in-order", memory_operations},
	{"launch-structure-unchanged", launch_with_structure},
	{"every-handle-and-name", handles},
	{NULL, NULL},
};
