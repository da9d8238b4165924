// SPDX-License-Identifier: MIT
/*
 * Cases: what a copy waits for, before and after, and what the program could notice if it did not.
 */
#include "cases.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream);

static unsigned char *source; /* written by host functions */

static void CUDA_CB write_source(void *data)
{
	usleep(20000);
	paint(source, SOME, (unsigned int)(uintptr_t)data);
}

static void host_writes_on(CUstream stream, unsigned int value)
{
	spin(stream, 1000000);
	OK(cuLaunchHostFunc(stream, write_source, (void *)(uintptr_t)value));
}

/* The documented wait of a synchronous copy: a host function that was submitted before writes the source. */
static void host_function_writes_source(void)
{
	CUdeviceptr block = device_block(SOME);

	source = pattern(SOME, 1);
	host_writes_on(new_stream(CU_STREAM_DEFAULT), 2);
	OK(cuMemcpyHtoD(block, source, SOME));
	paint(source, SOME, 9); /* it may be reused */
	EXPECT(device_is(block, SOME, 2));
	host_writes_on(NULL, 3);
	OK(cuMemcpy(block, (uintptr_t)source, SOME));
	EXPECT(device_is(block, SOME, 3));
	host_writes_on(CU_STREAM_PER_THREAD, 4);
	OK(cuMemcpyHtoD_v2_ptds(block, source, SOME));
	EXPECT(device_is(block, SOME, 4));
}

/* A copy on the thread's own stream waits for nothing else; the legacy stream not for non-blocking ones. */
static void waits_for_no_more(void)
{
	CUdeviceptr block = device_block(SOME);
	CUstream blocking = new_stream(CU_STREAM_DEFAULT),
		 loose = new_stream(CU_STREAM_NON_BLOCKING);

	source = pattern(SOME, 1);
	spin(CU_STREAM_PER_THREAD, 1000000);
	close_gate(blocking);
	OK(cuMemcpyHtoD_v2_ptds(block, source,
				SOME)); /* hangs where it is made on the legacy stream */
	OK(cuMemcpyDtoHAsync_v2_ptsz(source, block, SOME, 0));
	open_gate();
	OK(cuCtxSynchronize());
	spin(NULL, 1000000);
	close_gate(loose);
	OK(cuMemcpyHtoD(block, source, SOME));
	OK(cuMemcpyDtoH(source, block, SOME));
	open_gate();
	EXPECT(device_is(block, SOME, 1));
}

/* run.py looks for the wait in the record. */
static void wait_is_recorded(void)
{
	CUdeviceptr block = device_block(SOME);
	unsigned char *bytes = pattern(SOME, 1);
	uint64_t began;

	spin(NULL, SPIN_NS);
	began = now_ns();
	OK(cuMemcpyHtoD(block, bytes, SOME));
	EXPECT(now_ns() - began > WAIT_NS);
	OK(cuCtxSynchronize());
	spin(NULL, SPIN_NS);
	began = now_ns();
	OK(cuMemcpyDtoH(bytes, block, SOME));
	EXPECT(now_ns() - began > WAIT_NS);
}

/* By default: one that is to be waited for first is staged where a kernel is under way, not where nothing is. run.py counts. */
static void read_first_by_default(void)
{
	enum { BYTES = 1 << 20 };
	CUdeviceptr block = device_block(BYTES);
	unsigned char *bytes = pattern(BYTES, 1);
	uint64_t began;

	OK(cuCtxSynchronize());
	OK(cuMemcpyHtoD(block, bytes, BYTES));
	for (int i = 0; i < 2; i++) {
		paint(bytes, BYTES, 2 + i);
		spin(NULL, SPIN_NS);
		began = now_ns();
		OK(cuMemcpyHtoD(block, bytes, BYTES));
		EXPECT(now_ns() - began > WAIT_NS);
		memset(bytes, 0, BYTES);
		EXPECT(device_is(block, BYTES, 2 + i));
	}
	free(bytes);
}

/* What another thread does while a copy of the legacy stream waits. */
struct writer {
	CUstream opens; /* on it; NULL: nothing is to be opened */
	CUdeviceptr word;
	CUcontext context;
};

static void *write_later(void *data)
{
	const struct writer *writer = data;

	usleep(50000);
	paint(source, SOME, 7);
	OK(cuCtxSetCurrent(writer->context));
	if (writer->opens)
		OK(cuMemsetD32Async(writer->word, 1, 1, writer->opens));
	return NULL;
}

static void copy_while_written(struct writer *writer, CUdeviceptr block)
{
	pthread_t thread;

	OK(cuCtxGetCurrent(&writer->context));
	source = pattern(SOME, 1);
	EXPECT(!pthread_create(&thread, NULL, write_later, writer));
	OK(cuMemcpyHtoD(block, source, SOME));
	EXPECT(!pthread_join(thread, NULL));
}

/*
 * A kernel is under way that nothing of the program's can be what it waits for: the source is read meanwhile, and the call waits all the same. That a
 * write in the middle does not count shows it, which no program may do. Several times: this thread may get no processor.
 */
static void source_is_read_first(void)
{
	CUdeviceptr block = device_block(SOME);
	struct writer writer = {0};
	bool first = false;

	for (int i = 0; i < 10 && !first; i++) {
		uint64_t began;

		spin(NULL, SPIN_NS);
		began = now_ns();
		copy_while_written(&writer, block);
		EXPECT(now_ns() - began > WAIT_NS);
		first = device_is(block, SOME, 1);
	}
	EXPECT(first);
}

/* The work that the copy waits for waits for who writes the source, by way of memory of the device. */
static void source_is_written_behind_a_wait(void)
{
	CUdeviceptr block = device_block(SOME), word = device_block(4);
	CUstream waits = new_stream(CU_STREAM_DEFAULT), opens = new_stream(CU_STREAM_DEFAULT);
	struct writer writer = {.opens = opens, .word = word};

	OK(cuMemsetD32(word, 0, 1));
	OK(cuCtxSynchronize());
	OK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	copy_while_written(&writer, block);
	EXPECT(device_is(block, SOME, 7));
}

/* The same from a stream that does not wait for the legacy one. */
static void source_is_written_beside(void)
{
	CUdeviceptr block = device_block(SOME), word = device_block(4);
	struct writer writer = {.opens = new_stream(CU_STREAM_NON_BLOCKING), .word = word};

	OK(cuMemsetD32(word, 0, 1));
	OK(cuCtxSynchronize());
	OK(cuStreamWaitValue32(NULL, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	copy_while_written(&writer, block);
	EXPECT(device_is(block, SOME, 7));
}

/* A node of a graph writes the source: its launch says nothing of that. */
static void source_is_written_by_a_graph(void)
{
	CUdeviceptr block = device_block(SOME), from = device_block(SOME);
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = from,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .WidthInBytes = SOME,
			      .Height = 1,
			      .Depth = 1};
	CUgraphExec executable;
	CUcontext current;
	CUgraphNode node;
	CUgraph graph;

	source = pattern(SOME, 7);
	OK(cuMemcpyHtoD(from, source, SOME));
	paint(source, SOME, 1);
	copy.dstHost = source;
	OK(cuCtxGetCurrent(&current));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, current));
	OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	OK(cuCtxSynchronize());
	spin(NULL, SPIN_NS);
	OK(cuGraphLaunch(executable, NULL));
	OK(cuMemcpyHtoD(block, source, SOME));
	EXPECT(device_is(block, SOME, 7));
}

static void *write_later_beside(void *data)
{
	struct writer *writer = data;

	usleep(50000);
	paint(source, SOME, 7);
	OK(cuCtxSetCurrent(writer->context));
	writer->opens = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemsetD32Async(writer->word, 1, 1, writer->opens));
	return NULL;
}

/* The same, and the way around the legacy stream is made while the copy waits. */
static void source_is_written_by_what_comes(void)
{
	CUdeviceptr block = device_block(SOME), word = device_block(4);
	struct writer writer = {.word = word};
	pthread_t thread;

	OK(cuCtxGetCurrent(&writer.context));
	OK(cuMemsetD32(word, 0, 1));
	OK(cuCtxSynchronize());
	source = pattern(SOME, 1);
	OK(cuStreamWaitValue32(NULL, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	EXPECT(!pthread_create(&thread, NULL, write_later_beside, &writer));
	OK(cuMemcpyHtoD(block, source, SOME));
	EXPECT(!pthread_join(thread, NULL));
	EXPECT(device_is(block, SOME, 7));
}

/* A copy behind a busy stream is in its place, though its source is overwritten at once. */
static void async_to_device(void)
{
	CUstream streams[] = {new_stream(CU_STREAM_DEFAULT), new_stream(CU_STREAM_NON_BLOCKING),
			      NULL, CU_STREAM_PER_THREAD};
	CUdeviceptr block = device_block(SOME), after = device_block(SOME);
	unsigned char *bytes = pattern(SOME, 1);
	size_t n = SOME;
	void *parameters[] = {&after, &block, &n};

	for (unsigned int i = 0; i < 4; i++) {
		close_gate(streams[i]);
		fill(streams[i], block, 0xffffffff, SOME);
		for (unsigned int j = 0; j < 40; j++) {
			paint(bytes, SOME, 50 * i + j);
			OK(cuMemcpyHtoDAsync(block, bytes, SOME, streams[i]));
			if (j == 3)
				OK(cuLaunchKernel(copy_kernel, 1, 1, 1, 1, 1, 1, 0, streams[i],
						  parameters, NULL));
		}
		memset(bytes, 0, SOME);
		open_gate();
		OK(cuStreamSynchronize(streams[i]));
		EXPECT(device_is(block, SOME, 50 * i + 39));
		EXPECT(device_is(after, SOME, 50 * i + 3));
	}
}

/* Where the driver is not known to wait for the stream, a copy does not, whatever its size: here it would for ever. */
static void async_behind_gate(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);
	CUdeviceptr block = device_block(LARGE);
	unsigned char *bytes = pattern(LARGE, 1);

	for (size_t size = SOME; size < (size_t)8 << 20; size *= 2) {
		close_gate(stream);
		OK(cuMemcpyHtoDAsync(block, bytes, size, stream));
		open_gate();
		OK(cuStreamSynchronize(stream));
	}
	EXPECT(device_is(block, (size_t)4 << 20, 1));
}

/* Nobody has waited for the kernel, but it is done. */
static void async_behind_done(void)
{
	CUstream streams[] = {new_stream(CU_STREAM_NON_BLOCKING), NULL};
	CUdeviceptr block = device_block(LARGE);
	unsigned char *bytes = pattern(LARGE, 1);

	for (unsigned int i = 0; i < 2; i++) {
		spin(streams[i], 1000000);
		usleep(100000);
		OK(cuMemcpyHtoDAsync(block, bytes, (size_t)5 << 20, streams[i]));
	}
	EXPECT(device_is(block, (size_t)5 << 20, 1));
}

/* A copy to the host is complete when it returns, asynchronous or not. */
static void to_host(void)
{
	CUstream streams[] = {new_stream(CU_STREAM_DEFAULT), new_stream(CU_STREAM_NON_BLOCKING),
			      NULL, CU_STREAM_PER_THREAD};
	CUdeviceptr block = device_block(SOME);
	uint32_t *words = malloc(SOME);

	for (unsigned int i = 0; i < 4; i++) {
		memset(words, 0, SOME);
		spin(streams[i], 20000000);
		fill(streams[i], block, 100 + i, SOME);
		OK(cuMemcpyDtoHAsync(words, block, SOME, streams[i]));
		for (size_t j = 0; j < SOME / 4; j++)
			if (words[j] != 100 + i) {
				EXPECT(words[j] == 100 + i);
				break;
			}
	}
	spin(streams[0], 20000000);
	fill(streams[0], block, 7, SOME);
	OK(cuMemcpyDtoH(words, block, SOME));
	EXPECT(words[0] == 7 && words[SOME / 4 - 1] == 7);
	spin(streams[0], 20000000);
	fill(streams[0], block, 8, SOME);
	OK(cuMemcpy((uintptr_t)words, block, SOME));
	EXPECT(words[0] == 8 && words[SOME / 4 - 1] == 8);
	spin(streams[1], 20000000);
	fill(streams[1], block, 9, SOME);
	OK(cuMemcpyAsync((uintptr_t)words, block, SOME, streams[1]));
	EXPECT(words[0] == 9 && words[SOME / 4 - 1] == 9);
}

static struct {
	CUstream stream;
	CUdeviceptr block, seen;
	bool stop;
	unsigned int torn, looks;
} race;

/* Looks at the block on the same stream, again and again: all bytes are of one copy. */
static void *look(void *data)
{
	size_t n = LARGE;
	void *parameters[] = {&race.seen, &race.block, &n};
	unsigned char *bytes;
	void *pinned;

	OK(cuCtxSetCurrent(context));
	OK(cuMemAllocHost(&pinned, LARGE));
	bytes = pinned;
	while (!__atomic_load_n(&race.stop, __ATOMIC_RELAXED)) {
		OK(cuLaunchKernel(copy_kernel, 1, 1, 1, 1, 1, 1, 0, race.stream, parameters, NULL));
		OK(cuMemcpyDtoHAsync(pinned, race.seen, LARGE, race.stream));
		OK(cuStreamSynchronize(race.stream));
		race.looks++;
		for (size_t i = 1; i < LARGE; i += 4093)
			if (bytes[i] != bytes[0]) {
				race.torn++;
				break;
			}
	}
	return NULL;
}

static void torn_on(CUstream stream)
{
	unsigned char *bytes = malloc(LARGE);
	pthread_t thread;

	race.stream = stream;
	race.stop = false;
	race.looks = race.torn = 0;
	race.block = device_block(LARGE);
	race.seen = device_block(LARGE);
	OK(cuMemsetD8(race.block, 0, LARGE));
	OK(cuCtxSynchronize());
	pthread_create(&thread, NULL, look, NULL);
	for (int i = 1; i < 40; i++) {
		memset(bytes, i, LARGE);
		OK(cuMemcpyHtoDAsync(race.block, bytes, LARGE, stream));
	}
	__atomic_store_n(&race.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT(race.torn == 0);
	EXPECT(race.looks > 2);
}

/* A large copy has one place in its stream, for other threads too. */
static void torn(void)
{
	torn_on(new_stream(CU_STREAM_NON_BLOCKING));
	torn_on(new_stream(CU_STREAM_DEFAULT));
}

/* The same from the other side: what the stream does behind it does not show in a copy to the host. */
static void *overwrite(void *data)
{
	OK(cuCtxSetCurrent(context));
	for (unsigned int i = 1; !__atomic_load_n(&race.stop, __ATOMIC_RELAXED); i++) {
		fill(race.stream, race.block, i * 0x01010101, LARGE);
		OK(cuStreamSynchronize(race.stream));
	}
	return NULL;
}

static void torn_to_host(void)
{
	unsigned char *bytes = malloc(LARGE);
	pthread_t thread;
	unsigned int torn = 0;

	race.stream = new_stream(CU_STREAM_NON_BLOCKING);
	race.stop = false;
	race.block = device_block(LARGE);
	fill(race.stream, race.block, 0, LARGE);
	OK(cuCtxSynchronize());
	pthread_create(&thread, NULL, overwrite, NULL);
	for (int i = 0; i < 40; i++) {
		OK(cuMemcpyDtoHAsync(bytes, race.block, LARGE, race.stream));
		for (size_t j = 1; j < LARGE; j += 4093)
			torn += bytes[j] != bytes[0];
	}
	__atomic_store_n(&race.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT(torn == 0);
}

/* Large ones in one thread, by each kind of stream, in both directions, with other work before and behind. */
static void large(void)
{
	CUstream streams[] = {new_stream(CU_STREAM_DEFAULT), new_stream(CU_STREAM_NON_BLOCKING),
			      NULL, CU_STREAM_PER_THREAD};
	CUdeviceptr block = device_block(LARGE), after = device_block(LARGE);
	unsigned char *bytes = pattern(LARGE, 1), *back = malloc(LARGE);
	size_t n = LARGE;
	void *parameters[] = {&after, &block, &n};

	for (unsigned int i = 0; i < 4; i++) {
		paint(bytes, LARGE, i);
		spin(streams[i], 20000000);
		fill(streams[i], block, 0xffffffff, LARGE);
		OK(cuMemcpyHtoDAsync(block, bytes, LARGE, streams[i]));
		memset(bytes, 0, LARGE);
		spin(streams[i], 20000000);
		OK(cuLaunchKernel(copy_kernel, 1, 1, 1, 1, 1, 1, 0, streams[i], parameters, NULL));
		fill(streams[i], block, 5, LARGE);
		OK(cuMemcpyDtoHAsync(back, after, LARGE, streams[i]));
		EXPECT(is_pattern(back, LARGE, i));
		paint(bytes, LARGE, 20 + i);
		OK(cuMemcpyHtoD(block, bytes, LARGE));
		memset(bytes, 0, LARGE);
		OK(cuMemcpyDtoH(back, block, LARGE));
		EXPECT(is_pattern(back, LARGE, 20 + i));
	}
}

/* ---- relax=order: run.py sets it ---- */

/* A small synchronous copy behind a kernel on a blocking stream. True: it did not wait. */
static bool goes_at_once(void)
{
	static CUstream stream;
	static CUdeviceptr block;
	unsigned char *bytes = pattern(4096, 3);
	uint64_t took;

	if (!stream) {
		stream = new_stream(CU_STREAM_DEFAULT);
		block = device_block(4096);
	}
	spin(stream, SPIN_NS);
	took = now_ns();
	OK(cuMemcpyHtoD(block, bytes, 4096));
	took = now_ns() - took;
	memset(bytes, 0, 4096);
	free(bytes);
	bytes = malloc(4096);
	OK(cuMemcpyDtoH(bytes, block, 4096));
	EXPECT(is_pattern(bytes, 4096, 3));
	free(bytes);
	return took < WAIT_NS;
}

static void relaxed(void)
{
	EXPECT(goes_at_once());
	EXPECT(goes_at_once());
}

/* As many as there are small chunks go at once, and the bytes of none of them are overwritten while they wait. */
static void relaxed_many(void)
{
	enum { COUNT = 80, BYTES = 4096 };
	CUdeviceptr blocks = device_block(COUNT * BYTES);
	unsigned char *bytes = pattern(BYTES, 0);

	spin(new_stream(CU_STREAM_DEFAULT), SPIN_NS);
	for (int i = 0; i < COUNT; i++) {
		paint(bytes, BYTES, i);
		OK(cuMemcpyHtoD(blocks + (size_t)i * BYTES, bytes, BYTES));
	}
	for (int i = 0; i < COUNT; i++)
		EXPECT(device_is(blocks + (size_t)i * BYTES, BYTES, i));
	free(bytes);
}

/* One of many chunks is not counted as if it had gone at once. run.py counts. */
static void relaxed_large(void)
{
	CUdeviceptr block = device_block(LARGE);
	unsigned char *bytes = pattern(LARGE, 1);

	spin(new_stream(CU_STREAM_DEFAULT), SPIN_NS);
	OK(cuMemcpyHtoD(block, bytes, LARGE));
	memset(bytes, 0, LARGE);
	OK(cuMemcpyDtoH(bytes, block, LARGE));
	EXPECT(is_pattern(bytes, LARGE, 1));
}

static void CUDA_CB nothing(void *data)
{
	(void)data;
}

static void CUDA_CB a_while(void *data)
{
	usleep(SPIN_NS / 500);
}

static void refused_host_function(void)
{
	CUstream other = new_stream(CU_STREAM_DEFAULT);

	OK(cuLaunchHostFunc(other, nothing, NULL));
	OK(cuStreamSynchronize(other));
	EXPECT(goes_at_once());
	OK(cuCtxSynchronize());
	OK(cuLaunchHostFunc(other, a_while, NULL));
	EXPECT(!goes_at_once());
}

static void refused_stream(void)
{
	CUstream other = new_stream(CU_STREAM_NON_BLOCKING);

	EXPECT(!goes_at_once());
	spin(other, 200000000);
	OK(cuStreamDestroy(other));
	EXPECT(!goes_at_once()); /* its work is still there */
	OK(cuCtxSynchronize());
	EXPECT(goes_at_once());
}

static void refused_pinned(void)
{
	void *block;

	OK(cuMemHostAlloc(&block, 4096, 0));
	EXPECT(!goes_at_once());
	OK(cuMemFreeHost(block));
	OK(cuCtxSynchronize());
	EXPECT(goes_at_once());
}

static void refused_registered(void)
{
	void *block = aligned_alloc(4096, 8192);

	OK(cuMemHostRegister(block, 8192, 0));
	EXPECT(!goes_at_once());
	OK(cuMemHostUnregister(block));
	EXPECT(goes_at_once());
}

static void refused_managed(void)
{
	CUdeviceptr block;

	OK(cuMemAllocManaged(&block, 4096, CU_MEM_ATTACH_GLOBAL));
	EXPECT(!goes_at_once());
	OK(cuMemFree(block));
	EXPECT(goes_at_once());
}

/* No stream waits for the thread's own but the legacy one, so what is launched behind the copy relies on its wait. */
static void refused_own_thread(void)
{
	CUdeviceptr block = device_block(4096), seen = device_block(4096),
		    other = device_block(4096);
	CUstream stream = new_stream(CU_STREAM_DEFAULT);
	unsigned char *bytes = pattern(4096, 3);
	size_t n = 4096;
	void *parameters[] = {&seen, &block, &n};
	uint32_t word = 0;

	spin(CU_STREAM_PER_THREAD, SPIN_NS);
	fill(CU_STREAM_PER_THREAD, block, 7, 4096);
	OK(cuMemcpyHtoD_v2_ptds(other, bytes, 4096));
	OK(cuLaunchKernel(copy_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
	OK(cuMemcpyDtoH(&word, seen, 4));
	EXPECT(word == 7);
}

/* The legacy stream of another context does not wait for this one's. */
static void refused_context(void)
{
	CUcontext second;

	EXPECT(goes_at_once());
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	device_block(4096);
	OK(cuCtxSetCurrent(context));
	EXPECT(!goes_at_once());
}

/* Another process may be told that the call has returned, and look. */
static void refused_exported(void)
{
	CUdeviceptr block = device_block(4096);
	CUipcMemHandle handle;

	EXPECT(goes_at_once());
	OK(cuIpcGetMemHandle(&handle, block));
	OK(cuIpcGetMemHandle(&handle, block));
	EXPECT(!goes_at_once());
	OK(cuMemFree(block));
	EXPECT(goes_at_once());
}

static void refused_node(void)
{
	CUDA_HOST_NODE_PARAMS parameters = {.fn = nothing};
	CUgraphNode node;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	EXPECT(goes_at_once());
	OK(cuGraphAddHostNode(&node, graph, NULL, 0, &parameters));
	EXPECT(!goes_at_once());
}

static void refused_captured(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);
	CUgraph graph;

	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuLaunchHostFunc(stream, nothing, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	EXPECT(!goes_at_once());
}

static void refused_object(void)
{
	CUuserObject object;

	OK(cuUserObjectCreate(&object, &object, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	EXPECT(!goes_at_once());
}

static void refused_pool(void)
{
	CUmemoryPool pool;
	CUdeviceptr block;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemAllocFromPoolAsync(&block, 4096, pool, NULL));
	OK(cuCtxSynchronize());
	EXPECT(!goes_at_once());
}

/* run.py makes the devices reach pageable memory. */
static void refused_hmm(void)
{
	EXPECT(!goes_at_once());
}

const struct named_case order_cases[] = {
	{"host-function-writes-source", host_function_writes_source},
	{"waits-for-no-more", waits_for_no_more},
	{"wait-is-recorded", wait_is_recorded},
	{"read-first-by-default", read_first_by_default},
	{"source-is-read-first", source_is_read_first},
	{"source-is-written-behind-a-wait", source_is_written_behind_a_wait},
	{"source-is-written-beside", source_is_written_beside},
	{"source-is-written-by-a-graph", source_is_written_by_a_graph},
	{"source-is-written-by-what-comes", source_is_written_by_what_comes},
	{"async-to-device", async_to_device},
	{"async-behind-gate", async_behind_gate},
	{"async-behind-done", async_behind_done},
	{"to-host", to_host},
	{"torn", torn},
	{"torn-to-host", torn_to_host},
	{"large", large},
	{"relaxed", relaxed},
	{"relaxed-large", relaxed_large},
	{"relaxed-many", relaxed_many},
	{"refused-host-function", refused_host_function},
	{"refused-stream", refused_stream},
	{"refused-pinned", refused_pinned},
	{"refused-registered", refused_registered},
	{"refused-managed", refused_managed},
	{"refused-own-thread", refused_own_thread},
	{"refused-context", refused_context},
	{"refused-exported", refused_exported},
	{"refused-node", refused_node},
	{"refused-captured", refused_captured},
	{"refused-object", refused_object},
	{"refused-pool", refused_pool},
	{"refused-hmm", refused_hmm},
	{NULL, NULL},
};
