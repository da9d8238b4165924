// SPDX-License-Identifier: MIT
/* Capture and graphs: the error codes 900 to 908, what invalidates, and the bytes of a launched
 * graph. */
#include "check.h"
#include <pthread.h>

static CUfunction spinner, hasher;
static CUstream blocking, non_blocking, second;
static CUdeviceptr state;

static void discard(CUstream stream, CUresult wanted)
{
	CUgraph graph = NULL;

	STATUS(wanted, cuStreamEndCapture(stream, &graph));
	if (graph)
		OK(cuGraphDestroy(graph));
}

static void test_implicit(void)
{
	CUstreamCaptureStatus status;

	OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	STATUS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(NULL, &status));
	OK(cuStreamIsCapturing(blocking, &status));
	EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	discard(blocking, CUDA_SUCCESS);
	OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	STATUS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, spin(spinner, 0, NULL));
	OK(cuStreamIsCapturing(blocking, &status));
	EXPECT(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	STATUS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, spin(spinner, 0, blocking));
	discard(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	STATUS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemcpyHtoD(state, &status, 0));
	discard(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void *query(void *event)
{
	return (void *)(uintptr_t)cuEventQuery(event);
}

static void test_unsafe_calls(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr pointer;
	pthread_t thread;
	CUevent event;
	void *result;

	OK(cuEventCreate(&event, 0));
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(spin(spinner, 0, NULL)); /* legacy work runs at once, outside */
	STATUS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventQuery(event));
	discard(non_blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	STATUS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&pointer, 64));
	discard(non_blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	pthread_create(&thread, NULL, query, event);
	pthread_join(thread, &result);
	EXPECT((CUresult)(uintptr_t)result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	discard(non_blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuEventQuery(event));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	discard(non_blocking, CUDA_SUCCESS);
	/* Thread-local captures of others do not count. */
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	pthread_create(&thread, NULL, query, event);
	pthread_join(thread, &result);
	EXPECT((CUresult)(uintptr_t)result == CUDA_SUCCESS);
	discard(non_blocking, CUDA_SUCCESS);
	OK(cuEventDestroy(event));
}

static void *end_here(void *stream)
{
	CUgraph graph;

	return (void *)(uintptr_t)cuStreamEndCapture(stream, &graph);
}

static void test_codes(void)
{
	CUevent event, outside;
	pthread_t thread;
	void *result;

	OK(cuEventCreate(&event, 0));
	OK(cuEventCreate(&outside, 0));
	OK(cuEventRecord(outside, second));
	STATUS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
	/* 905: an event from outside */
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	STATUS(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(non_blocking, outside, 0));
	discard(non_blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* 904: a stream that never comes back; 903: ended on the wrong stream */
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(event, non_blocking));
	OK(cuStreamWaitEvent(second, event, 0));
	OK(spin(spinner, 0, second));
	discard(non_blocking, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(event, non_blocking));
	OK(cuStreamWaitEvent(second, event, 0));
	discard(second, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	discard(non_blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* 902: two captures */
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(event, non_blocking));
	STATUS(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(second, event, 0));
	discard(non_blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	discard(second, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* 907: asking about a captured event */
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(event, non_blocking));
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	STATUS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	discard(non_blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* 908: another thread */
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CUcontext context;
	OK(cuCtxGetCurrent(&context));
	pthread_create(&thread, NULL, end_here, non_blocking);
	pthread_join(thread, &result);
	EXPECT((CUresult)(uintptr_t)result == CUDA_ERROR_INVALID_CONTEXT ||
	       (CUresult)(uintptr_t)result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	discard(non_blocking, CUDA_SUCCESS);
	/* 900: waiting for the capturing stream itself */
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	STATUS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(non_blocking));
	discard(non_blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	STATUS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(non_blocking, &(CUgraph){0}));
	OK(cuEventDestroy(event));
	OK(cuEventDestroy(outside));
}

static uint64_t read_state(void)
{
	uint64_t value;

	OK(cuMemcpyDtoH(&value, state, 8));
	return value;
}

static void count(void *data)
{
	++*(int *)data;
}

/* A diamond over two streams; launched twice. */
static void test_launch(void)
{
	uint64_t start = 5, expected;
	CUevent fork_event, join_event;
	CUgraphExec exec;
	CUgraph graph;
	size_t nodes = 0;
	int counted = 0;

	OK(cuEventCreate(&fork_event, 0));
	OK(cuEventCreate(&join_event, 0));
	OK(cuMemcpyHtoD(state, &start, 8));
	OK(cuStreamBeginCapture(non_blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(spin(spinner, 5000000, non_blocking)); /* what does not wait for it overtakes */
	OK(hash(hasher, state, 1, non_blocking));
	OK(cuEventRecord(fork_event, non_blocking));
	OK(cuStreamWaitEvent(second, fork_event, 0));
	OK(hash(hasher, state, 2, second));
	OK(cuLaunchHostFunc(second, count, &counted));
	OK(cuEventRecord(join_event, second));
	OK(cuStreamWaitEvent(non_blocking, join_event, 0));
	OK(hash(hasher, state, 3, non_blocking));
	OK(cuStreamEndCapture(non_blocking, &graph));
	EXPECT(read_state() == start); /* nothing ran */
	OK(cuGraphGetNodes(graph, NULL, &nodes));
	EXPECT(nodes == 5);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	expected = start;
	for (int i = 0; i < 2; i++) {
		OK(cuGraphLaunch(exec, blocking));
		for (uint32_t salt = 1; salt <= 3; salt++)
			expected = hash_of(expected, salt);
	}
	EXPECT(read_state() == expected); /* legacy copy: after the blocking stream */
	EXPECT(counted == 2);
	/* Launched on NULL: behind the blocking stream, and the call does not wait. */
	uint64_t begin = now_ns();
	OK(spin(spinner, 40000000, blocking));
	OK(cuGraphLaunch(exec, NULL));
	EXPECT(now_ns() - begin < 30000000);
	OK(cuStreamSynchronize(NULL));
	EXPECT(now_ns() - begin >= 40000000);
	OK(cuGraphExecDestroy(exec));
	OK(cuEventDestroy(fork_event));
	OK(cuEventDestroy(join_event));
}

/* Nodes added by hand; parameters changed in the exec. */
static void test_explicit(void)
{
	CUgraphNode set, add_node, host;
	CUgraphExec exec;
	CUgraph graph;
	uint32_t n = 0, salt = 9;
	int counted = 0;
	void *parameters[] = {&state, &state, &n, &salt};
	CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = state, .value = 0, .elementSize = 4, .width = 2, .height = 1};
	CUDA_KERNEL_NODE_PARAMS kernel_parameters = {
		.func = hasher,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = parameters,
	};
	CUDA_HOST_NODE_PARAMS call = {.fn = count, .userData = &counted};
	CUcontext context;

	OK(cuCtxGetCurrent(&context));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, context));
	OK(cuGraphAddKernelNode(&add_node, graph, &set, 1, &kernel_parameters));
	OK(cuGraphAddHostNode(&host, graph, &add_node, 1, &call));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, non_blocking));
	OK(cuStreamSynchronize(non_blocking));
	EXPECT(read_state() == hash_of(0, 9) && counted == 1);
	salt = 10;
	OK(cuGraphExecKernelNodeSetParams(exec, add_node, &kernel_parameters));
	OK(cuGraphLaunch(exec, non_blocking));
	OK(cuStreamSynchronize(non_blocking));
	EXPECT(read_state() == hash_of(0, 10) && counted == 2);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
}

int main(void)
{
	CUcontext context;
	CUmodule module;

	setenv("SIMCUDA_SEED", "5", 0); /* nodes without an edge between them run in any order */
	fprintf(stderr, "seed %s\n", getenv("SIMCUDA_SEED"));
	OK(cuInit(0));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	spinner = kernel(module, "spin");
	hasher = kernel(module, "hash");
	OK(cuFuncLoad(spinner));
	OK(cuMemAlloc(&state, 8));
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&non_blocking, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	test_implicit();
	test_unsafe_calls();
	test_codes();
	test_launch();
	test_explicit();
	return failures ? 1 : 0;
}
