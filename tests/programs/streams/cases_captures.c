// SPDX-License-Identifier: MIT
/*
 * Cases: captures. No barrier of ours goes into one, and what the program may not do meanwhile it is told by the driver.
 */
#include "cases.h"

static CUstream a, b;

static void start(void)
{
	a = new_stream('a', CU_STREAM_DEFAULT);
	b = new_stream('b', CU_STREAM_DEFAULT);
	mix(a);
}

/* A graph, and where the stream stands behind the capture. */
static void capturing_stream_gets_no_barrier(void)
{
	CUgraph graph;
	CUgraphExec made;
	size_t nodes = 0;

	start();
	step(a, 1);
	close_gate(NULL, 1);
	step(NULL, 0);
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	begin();
	step(a, 1);
	step(a, 1);
	OK(cuStreamEndCapture(a, &graph));
	step(a, 1);
	end();
	SAY(cuStreamQuery(a));
	OK(cuGraphGetNodes(graph, NULL, &nodes));
	printf("%d nodes\n", (int)nodes);
	OK(cuGraphInstantiate(&made, graph, 0));
	OK(cuGraphLaunch(made, a));
	open_gate(1);
	say_words();
}

/* Another blocking stream works meanwhile, behind the legacy work that was there before. */
static void others_stay_in_order(void)
{
	CUgraph graph;

	start();
	close_gate(NULL, 1);
	step(NULL, 0);
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	begin();
	step(b, 2);
	step(a, 1);
	end();
	OK(cuStreamEndCapture(a, &graph));
	SAY(cuStreamQuery(b));
	open_gate(1);
	say_words();
}

static void CUDA_CB nothing(void *data)
{
}

static CUresult touch_legacy(unsigned int way, CUevent event, void *pinned)
{
	CUstreamCaptureStatus status;
	CUdeviceptr block;
	CUresult result;

	switch (way) {
	case 0:
		return try_step(NULL, 0);
	case 1:
		return cuEventRecord(event, NULL);
	case 2:
		return cuStreamWaitEvent(NULL, event, 0);
	case 3:
		return cuStreamSynchronize(NULL);
	case 4:
		result = cuStreamQuery(NULL);
		/* Nobody has waited. */
		return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
	case 5:
		return cuLaunchHostFunc(NULL, nothing, NULL);
	case 6:
		return cuMemcpyHtoDAsync(word + 256, pinned, 8, NULL);
	case 7:
		return cuMemcpyDtoH(pinned, word, 8);
	case 8:
		return cuMemsetD8Async(word + 256, 1, 8, CU_STREAM_LEGACY);
	case 9:
		return cuStreamWriteValue32(NULL, word + 256, 1, 0);
	case 10:
		return cuStreamIsCapturing(NULL, &status);
	case 11:
		return cuCtxSynchronize();
	case 12:
		return cuMemAllocAsync(&block, 64, NULL);
	case 13:
		return cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED);
	default:
		return cuStreamSynchronize(b);
	}
}

/* Each touch of the legacy stream is refused as it is without us, and the capture ends as it does. */
static void touched(CUstream stream, CUstreamCaptureMode mode)
{
	CUevent event;
	CUgraph graph;
	void *pinned;

	start();
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuMemHostAlloc(&pinned, 4096, 0));
	for (unsigned int way = 0; way < 15; way++) {
		step(b, 2);
		step(NULL, 0);
		step(a, 1);
		OK(cuEventRecord(event, b));
		OK(cuStreamBeginCapture(stream ? stream : a, mode));
		SAY(try_step(stream ? stream : a, stream ? LOOSE : 1));
		SAY(touch_legacy(way, event, pinned));
		SAY(try_step(stream ? stream : a, stream ? LOOSE : 1));
		graph = NULL;
		SAY(cuStreamEndCapture(stream ? stream : a, &graph));
		printf("graph %d\n", graph != NULL);
		SAY(try_step(a, 1));
		SAY(try_step(NULL, 0));
		SAY(try_step(b, 2));
		SAY(cuStreamSynchronize(NULL));
	}
	say_words();
}

static void touched_while_blocking(void)
{
	touched(NULL, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void touched_while_blocking_global(void)
{
	touched(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void touched_while_loose(void)
{
	touched(new_stream('n', CU_STREAM_NON_BLOCKING), CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void touched_while_loose_global(void)
{
	touched(new_stream('n', CU_STREAM_NON_BLOCKING), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void refused_launch(void)
{
	CUgraph graph;

	start();
	/* The legacy stream stands still: who would wait for it does so for ever. */
	close_gate(NULL, 1);
	step(a, 1);
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	begin();
	SAY(try_step(NULL, 0));
	end();
	SAY(cuStreamEndCapture(a, &graph));
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuStreamSynchronize(NULL));
	SAY(cuStreamQuery(NULL));
	SAY(cuStreamEndCapture(a, &graph));
	open_gate(1);
	begin();
	step(a, 1);
	step(NULL, 0);
	end();
	say_words();
}

/* Only a non-blocking stream captures: the call is made, by the driver. */
static void allowed_launch(void)
{
	CUstream n;
	CUgraph graph;

	start();
	n = new_stream('n', CU_STREAM_NON_BLOCKING);
	OK(cuStreamBeginCapture(n, CU_STREAM_CAPTURE_MODE_RELAXED));
	step(n, LOOSE);
	begin();
	step(NULL, 0);
	step(a, 1);
	step(NULL, 0);
	end();
	OK(cuStreamEndCapture(n, &graph));
	begin();
	OK(cuMemsetD8Async(word + 512, 1, 8, NULL));
	step(NULL, 0);
	step(a, 1);
	end();
	say_words();
}

/* A second stream is drawn into the capture by an event. */
static void joined_stream(void)
{
	CUevent fork, back;
	CUgraph graph;
	CUgraphExec made;

	start();
	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
	step(a, 1);
	step(b, 2);
	close_gate(NULL, 1);
	step(NULL, 0);
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(fork, a));
	OK(cuStreamWaitEvent(b, fork, 0));
	begin();
	step(b, 2);
	step(a, 1);
	end();
	OK(cuEventRecord(back, b));
	OK(cuStreamWaitEvent(a, back, 0));
	OK(cuStreamEndCapture(a, &graph));
	begin();
	step(b, 2);
	step(a, 1);
	end();
	SAY(cuStreamQuery(a));
	SAY(cuStreamQuery(b));
	OK(cuGraphInstantiate(&made, graph, 0));
	open_gate(1);
	OK(cuGraphLaunch(made, NULL));
	say_words();
}

static void CUDA_CB callback(CUstream stream, CUresult status, void *data)
{
}

/* Calls that a capture does not take. */
static void not_captured(void)
{
	CUgraph graph = NULL;
	CUdeviceptr managed;

	start();
	OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	for (int way = 0; way < 6; way++) {
		step(a, 1);
		step(NULL, 0);
		OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
		SAY(try_step(a, 1));
		switch (way) {
		case 0:
			SAY(cuStreamAddCallback(a, callback, NULL, 0));
			break;
		case 1:
			SAY(cuStreamAttachMemAsync(a, managed, 0, CU_MEM_ATTACH_GLOBAL));
			break;
		case 2:
			SAY(cuStreamSynchronize(a));
			break;
		case 3:
			SAY(cuStreamQuery(a));
			break;
		case 4:
			SAY(cuMemPrefetchAsync(managed, 4096,
					       (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE},
					       0, a));
			break;
		default:
			SAY(cuGraphUpload(NULL, a));
			break;
		}
		SAY(try_step(a, 1));
		SAY(cuStreamEndCapture(a, &graph));
		step(a, 1);
	}
	say_words();
}

/* A stream with a long queue is put behind legacy work while another one captures: neither ends the capture nor waits for it, nor for the gate. */
static void full_beside_capture(void)
{
	CUgraph graph = NULL;

	start();
	step(b, 2);
	step(NULL, 0);
	OK(cuCtxSynchronize());
	close_gate(b, 1);
	for (int i = 0; i < 100; i++)
		step(b, 2);
	step(NULL, 0);
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	begin();
	SAY(try_step(a, 1));
	SAY(try_step(b, 2));
	SAY(try_step(b, 2));
	SAY(try_step(a, 1));
	end();
	SAY(cuStreamEndCapture(a, &graph));
	printf("graph %d\n", graph != NULL);
	step(NULL, 0);
	step(a, 1);
	open_gate(1);
	say_words();
}

static CUdeviceptr make_flag(volatile uint32_t **ret_flag)
{
	CUdeviceptr address;
	void *host;

	OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&address, host, 0));
	*ret_flag = host;
	**ret_flag = 0;
	return address;
}

/* What one stream waits for comes from another one with a long queue, behind legacy work: that one waits for no other stream. */
static void long_queue_opens_another(void)
{
	volatile uint32_t *flags;
	CUdeviceptr flag;

	start();
	flag = make_flag(&flags);
	flags[16] = 0;
	OK(cuStreamWaitValue32(b, flag + 64, 1, 0));
	for (int i = 0; i < 100; i++)
		step(b, 2);
	step(NULL, 0);
	OK(cuStreamWaitValue32(a, flag, 1, 0));
	begin();
	OK(cuStreamWriteValue32(b, flag, 1, 0));
	step(b, 2);
	end();
	flags[16] = 1;
	SAY(cuStreamSynchronize(b));
	step(a, 1);
	say_words();
}

/* A question about the legacy stream is no operation: nobody waits for anybody because of it, whatever captures. */
static void query_beside_capture(void)
{
	CUstream n;
	volatile uint32_t *flags;
	CUdeviceptr flag;
	CUgraph graph;

	start();
	n = new_stream('n', CU_STREAM_NON_BLOCKING);
	flag = make_flag(&flags);
	step(b, 2);
	step(a, 1);
	step(NULL, 0);
	OK(cuStreamWaitValue32(a, flag, 1, 0));
	OK(cuStreamBeginCapture(n, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuStreamQuery(NULL));
	OK(cuStreamEndCapture(n, &graph));
	OK(cuStreamWriteValue32(b, flag, 1, 0));
	SAY(cuStreamSynchronize(b));
	OK(cuStreamBeginCapture(n, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuStreamSynchronize(NULL));
	SAY(cuStreamQuery(NULL));
	SAY(cuStreamQuery(a));
	OK(cuStreamEndCapture(n, &graph));
	/* Whether it may be asked the driver says, also where the answer is known. */
	step(a, 1);
	close_gate(NULL, 1);
	step(NULL, 0);
	OK(cuStreamBeginCapture(n, CU_STREAM_CAPTURE_MODE_GLOBAL));
	SAY(cuStreamQuery(NULL));
	SAY(cuStreamEndCapture(n, &graph));
	open_gate(1);
	say_words();
}

/* Doubt that comes while a blocking stream captures does not end the capture, and what is on the substitute still comes first. */
static void doubt_beside_capture(void)
{
	const CUuuid id = {"simcuda\0test\0\0\0\1"};
	CUgraph graph = NULL;
	const void *table;

	start();
	step(b, 2);
	step(NULL, 0);
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	SAY(try_step(a, 1));
	OK(cuGetExportTable(&table, &id));
	SAY(try_step(b, 2));
	SAY(try_step(a, 1));
	SAY(cuStreamEndCapture(a, &graph));
	printf("graph %d\n", graph != NULL);
	step(NULL, 0);
	step(a, 1);
	say_words();
}

const struct named_case capture_cases[] = {
	{"capturing-stream-gets-no-barrier", capturing_stream_gets_no_barrier},
	{"others-stay-in-order-beside-a-capture", others_stay_in_order},
	{"stream-drawn-into-a-capture-gets-no-barrier", joined_stream},
	{"legacy-call-beside-a-capture-is-refused", refused_launch},
	{"legacy-call-beside-a-loose-capture-is-native", allowed_launch},
	{"every-touch-beside-a-capture", touched_while_blocking},
	{"every-touch-beside-a-global-capture", touched_while_blocking_global},
	{"every-touch-beside-a-loose-capture", touched_while_loose},
	{"every-touch-beside-a-loose-global-capture", touched_while_loose_global},
	{"what-a-capture-does-not-take", not_captured},
	{"long-queue-beside-a-capture-gets-its-barrier", full_beside_capture},
	{"long-queue-waits-for-no-other-stream", long_queue_opens_another},
	{"query-beside-a-capture-holds-nobody", query_beside_capture},
	{"doubt-beside-a-capture-leaves-it", doubt_beside_capture},
	{NULL, NULL},
};
