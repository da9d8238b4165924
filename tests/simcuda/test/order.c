// SPDX-License-Identifier: MIT
/*
 * Order between streams: the legacy and per-thread rules, by what a gate holds back and by
 * order-sensitive bytes.
 */
#include "check.h"
#include <pthread.h>

static CUmodule module;
static CUfunction spinner, hasher, gater;
static CUstream blocking, other, non_blocking;

/* A pinned word that parks a stream until it is opened. */
static uint32_t *gate_word;

static void close_gate(CUstream stream)
{
	*(volatile uint32_t *)gate_word = 0;
	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate_word, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void open_gate(void)
{
	__atomic_store_n(gate_word, 1, __ATOMIC_RELEASE);
}

static int done_soon(CUevent event)
{
	for (int i = 0; i < 300; i++) {
		CUresult result = cuEventQuery(event);

		if (result == CUDA_SUCCESS)
			return 1;
		usleep(100);
	}
	return 0;
}

static CUevent mark(CUstream stream)
{
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(spin(spinner, 0, stream));
	OK(cuEventRecord(event, stream));
	return event;
}

/*
 * Parks `first` behind the gate; says whether work submitted to `second` afterwards gets through.
 */
static int passes(CUstream first, CUstream second)
{
	CUevent event;
	int through;

	close_gate(first);
	event = mark(second);
	through = done_soon(event);
	open_gate();
	OK(cuCtxSynchronize());
	OK(cuEventDestroy(event));
	return through;
}

static void test_pairs(void)
{
	EXPECT(!passes(NULL, blocking));
	EXPECT(!passes(CU_STREAM_LEGACY, blocking));
	EXPECT(!passes(blocking, NULL));
	EXPECT(!passes(NULL, CU_STREAM_PER_THREAD));
	EXPECT(!passes(CU_STREAM_PER_THREAD, NULL));
	EXPECT(passes(NULL, non_blocking));
	EXPECT(passes(non_blocking, NULL));
	EXPECT(passes(blocking, other));
	EXPECT(passes(blocking, non_blocking));
	EXPECT(passes(CU_STREAM_PER_THREAD, blocking));
}

/* A legacy operation between two blocking streams orders them. */
static void test_transitive(void)
{
	CUevent event;

	close_gate(blocking);
	OK(spin(spinner, 0, NULL));
	event = mark(other);
	EXPECT(!done_soon(event));
	STATUS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	open_gate();
	OK(cuEventSynchronize(event));
	OK(cuEventDestroy(event));
	OK(cuCtxSynchronize());
	OK(cuStreamQuery(NULL));
}

static void test_query_without_own_work(void)
{
	close_gate(blocking);
	STATUS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	OK(cuStreamQuery(non_blocking));
	open_gate();
	OK(cuStreamSynchronize(NULL));
}

static void test_new_stream_follows(void)
{
	CUstream fresh;
	CUevent event;

	close_gate(NULL);
	OK(cuStreamCreate(&fresh, CU_STREAM_DEFAULT));
	event = mark(fresh);
	EXPECT(!done_soon(event));
	open_gate();
	OK(cuEventSynchronize(event));
	OK(cuEventDestroy(event));
	OK(cuStreamDestroy(fresh));
}

/* One record on NULL covers the blocking streams, one wait on NULL holds them back. */
static void test_record_and_wait_on_null(void)
{
	CUevent event, later;

	OK(cuEventCreate(&event, 0));
	close_gate(blocking);
	OK(cuEventRecord(event, NULL));
	OK(cuStreamWaitEvent(non_blocking, event, 0));
	later = mark(non_blocking);
	EXPECT(!done_soon(later));
	open_gate();
	OK(cuEventSynchronize(later));
	OK(cuEventDestroy(later));
	close_gate(non_blocking);
	OK(cuEventRecord(event, non_blocking));
	OK(cuStreamWaitEvent(NULL, event, 0));
	later = mark(blocking);
	EXPECT(!done_soon(later));
	open_gate();
	OK(cuEventSynchronize(later));
	OK(cuEventDestroy(later));
	OK(cuEventDestroy(event));
}

static void test_context_scope(void)
{
	CUcontext created, back;
	CUevent event;
	CUmodule own;

	close_gate(NULL);
	OK(cuCtxGetCurrent(&back));
	OK(cuCtxCreate(&created, NULL, 0, 0));
	OK(cuModuleLoadData(&own, simcuda_ptx));
	OK(cuEventCreate(&event, 0));
	OK(spin(kernel(own, "spin"), 0, NULL));
	OK(cuEventRecord(event, NULL));
	EXPECT(done_soon(event));
	OK(cuEventDestroy(event));
	open_gate();
	OK(cuCtxDestroy(created));
	OK(cuCtxSynchronize());
}

static void *per_thread(void *context)
{
	unsigned long long id;

	OK(cuCtxSetCurrent(context));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
	return (void *)(uintptr_t)id;
}

static void test_ids(void)
{
	unsigned long long null, legacy, own;
	CUcontext context;
	pthread_t thread;
	void *theirs;

	OK(cuStreamGetId(NULL, &null));
	OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
	EXPECT(null == legacy && own != null);
	OK(cuCtxGetCurrent(&context));
	pthread_create(&thread, NULL, per_thread, context);
	pthread_join(thread, &theirs);
	EXPECT((uintptr_t)theirs != own);
}

/* Bytes: alternating streams around legacy operations give the one allowed result. */
static void test_bytes(void)
{
	CUdeviceptr state;
	uint64_t seen, expected = 1;

	OK(cuMemAlloc(&state, 8));
	OK(cuMemcpyHtoD(state, &expected, 8));
	for (uint32_t i = 0; i < 60; i++) {
		CUstream to = i % 3 == 0 ? blocking : i % 3 == 1 ? NULL : other;

		/* The operation between two blocking ones is legacy, so all are ordered. */
		if (i % 3 == 2)
			OK(spin(spinner, 10000, NULL));
		OK(hash(hasher, state, i, to));
		if (i % 3 == 2)
			OK(spin(spinner, 0, NULL));
		expected = hash_of(expected, i);
	}
	OK(cuMemcpyDtoH(&seen, state, 8));
	EXPECT(seen == expected);
	OK(cuMemFree(state));
}

/* Without an order, a seed makes the order vary; the copy of a pageable source takes the bytes of
 * the call. */
static void test_source_is_taken(void)
{
	uint32_t value = 1, seen = 0;
	CUdeviceptr to;

	OK(cuMemAlloc(&to, 4));
	close_gate(non_blocking);
	OK(cuMemcpyHtoDAsync(to, &value, 4, non_blocking));
	value = 2;
	open_gate();
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(&seen, to, 4));
	EXPECT(seen == 1);
	OK(cuMemFree(to));
}

/* A pinned source is read when the copy runs, not before. */
static void test_source_is_read_late(void)
{
	uint32_t *pinned, seen = 0;
	CUdeviceptr to;

	OK(cuMemHostAlloc((void **)&pinned, 4, 0));
	OK(cuMemAlloc(&to, 4));
	*pinned = 1;
	close_gate(non_blocking);
	OK(cuMemcpyHtoDAsync(to, pinned, 4, non_blocking));
	*(volatile uint32_t *)pinned = 2;
	open_gate();
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(&seen, to, 4));
	EXPECT(seen == 2);
	OK(cuMemFree(to));
	OK(cuMemFreeHost(pinned));
}

static void append(void *data)
{
	char *text = data;
	size_t length = strlen(text);

	text[length] = 'a' + (char)length;
}

static void test_host_functions(void)
{
	char text[16] = "";
	uint32_t *word;

	for (int i = 0; i < 3; i++)
		OK(cuLaunchHostFunc(i == 1 ? NULL : blocking, append, text));
	OK(cuCtxSynchronize());
	EXPECT(!strcmp(text, "abc"));
	OK(cuMemHostAlloc((void **)&word, 4, 0));
	*word = 0;
	void *parameters[] = {&word};
	OK(cuLaunchKernel(gater, 1, 1, 1, 1, 1, 1, 0, blocking, parameters, NULL));
	STATUS(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	OK(cuStreamSynchronize(blocking));
	OK(cuMemFreeHost(word));
}

static void *opener(void *unused)
{
	usleep(30000);
	open_gate();
	return unused;
}

/* A submission to a full queue blocks until there is room. */
static void test_queue_limit(void)
{
	pthread_t thread;
	uint64_t start;

	close_gate(non_blocking);
	for (int i = 0; i < 1023; i++)
		OK(spin(spinner, 0, non_blocking));
	pthread_create(&thread, NULL, opener, NULL);
	start = now_ns();
	OK(spin(spinner, 0, non_blocking));
	EXPECT(now_ns() - start > 10000000);
	pthread_join(thread, NULL);
	OK(cuCtxSynchronize());
}

/* The first launch of a function waits for what runs, the second does not. */
static void test_lazy_load(void)
{
	CUmodule again;
	CUfunction fresh;
	uint64_t start;

	OK(cuModuleLoadData(&again, simcuda_ptx));
	fresh = kernel(again, "spin");
	OK(spin(spinner, 30000000, non_blocking));
	start = now_ns();
	OK(spin(fresh, 0, blocking));
	EXPECT(now_ns() - start > 15000000);
	OK(spin(spinner, 60000000, non_blocking));
	start = now_ns();
	OK(spin(fresh, 0, blocking));
	EXPECT(now_ns() - start < 30000000);
	OK(cuCtxSynchronize());
	OK(cuModuleUnload(again));
}

/* A free waits for work that was submitted while it waited. */
static void *submitter(void *context)
{
	OK(cuCtxSetCurrent(context));
	usleep(15000);
	OK(spin(spinner, 60000000, other));
	return NULL;
}

static void test_free_waits_for_newer(void)
{
	CUcontext context;
	CUdeviceptr pointer;
	pthread_t thread;
	uint64_t start = now_ns();

	OK(cuCtxGetCurrent(&context));
	OK(cuMemAlloc(&pointer, 4096));
	OK(spin(spinner, 40000000, non_blocking));
	pthread_create(&thread, NULL, submitter, context);
	OK(cuMemFree(pointer));
	EXPECT(now_ns() - start >= 70000000);
	pthread_join(thread, NULL);
}

static void test_two_devices(void)
{
	CUcontext first, second;
	CUdeviceptr here, there;
	CUevent event;
	CUstream far;
	uint32_t value = 77, seen = 0;

	OK(cuCtxGetCurrent(&first));
	OK(cuMemAlloc(&here, 4));
	OK(cuCtxCreate(&second, NULL, 0, 1));
	OK(cuMemAlloc(&there, 4));
	OK(cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
	OK(cuCtxPopCurrent(NULL));
	OK(cuEventCreate(&event, 0));
	close_gate(non_blocking);
	OK(cuMemcpyHtoDAsync(here, &value, 4, non_blocking));
	OK(cuEventRecord(event, non_blocking));
	OK(cuCtxPushCurrent(second));
	OK(cuStreamWaitEvent(far, event, 0));
	OK(cuMemcpyPeerAsync(there, second, here, first, 4, far));
	STATUS(CUDA_ERROR_NOT_READY, cuStreamQuery(far));
	open_gate();
	OK(cuStreamSynchronize(far));
	OK(cuMemcpyDtoH(&seen, there, 4));
	EXPECT(seen == 77);
	OK(cuCtxDestroy(second));
	OK(cuEventDestroy(event));
	OK(cuMemFree(here));
}

int main(void)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	spinner = kernel(module, "spin");
	hasher = kernel(module, "hash");
	gater = kernel(module, "gate");
	OK(cuFuncLoad(spinner));
	OK(cuFuncLoad(hasher));
	OK(cuFuncLoad(gater));
	OK(cuMemHostAlloc((void **)&gate_word, 4, 0));
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&non_blocking, CU_STREAM_NON_BLOCKING));
	test_pairs();
	test_transitive();
	test_query_without_own_work();
	test_new_stream_follows();
	test_record_and_wait_on_null();
	test_context_scope();
	test_ids();
	test_bytes();
	test_source_is_taken();
	test_source_is_read_late();
	test_host_functions();
	test_queue_limit();
	test_lazy_load();
	test_free_waits_for_newer();
	test_two_devices();
	return failures ? 1 : 0;
}
