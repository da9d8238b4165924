// SPDX-License-Identifier: MIT
/* The host waits as it should, or touches what no copy uses: nothing is found in any case (guarded.h). */
#include "guarded.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>

static volatile uint32_t *host, *source;

/* A copy in each direction; `look` reads what the one wrote, writes what the other read. */
static void copies_on(CUstream on)
{
	host = pinned(REGION);
	source = pinned(REGION);
	source[9] = 9;
	busy_on(on);
	OK(cuMemcpyHtoDAsync(data + 64, (const void *)source, 64, on));
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, on));
}

static void look(void)
{
	CHECK(host[0] == 42 && host[16 + 9] == 9 && host[4095] == 42);
	source[9] = 1;
	host[1] = 1;
}

static void event_wait(void)
{
	copies_on(stream);
	OK(cuEventRecord(event, stream));
	OK(cuEventSynchronize(event));
	look();
}

static void event_query(void)
{
	copies_on(stream);
	OK(cuEventRecord(event, stream));
	while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		;
	look();
}

/* Times are there when both events are complete. */
static void event_times(void)
{
	CUevent first = new_event(0), last = new_event(0);
	float time;

	OK(cuEventRecord(first, stream));
	copies_on(stream);
	OK(cuEventRecord(last, stream));
	while (cuEventElapsedTime(&time, first, last) == CUDA_ERROR_NOT_READY)
		;
	look();
}

static void stream_wait(void)
{
	copies_on(stream);
	OK(cuStreamSynchronize(stream));
	look();
}

static void stream_query(void)
{
	copies_on(stream);
	while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
		;
	look();
}

static void context_wait(void)
{
	copies_on(stream);
	OK(cuCtxSynchronize());
	look();
}

/* The copy's stream is ordered before another one, which is waited for. */
static void other_stream(void)
{
	copies_on(stream);
	order(stream, second);
	OK(cuStreamSynchronize(second));
	look();
}

static void other_stream_event(void)
{
	CUstream third = new_stream(CU_STREAM_NON_BLOCKING);

	copies_on(stream);
	order(stream, second);
	order(second, third);
	OK(cuEventRecord(event, third));
	OK(cuEventSynchronize(event));
	look();
}

/* By the order of the legacy stream. */
static void through_legacy(void)
{
	CUstream first = new_stream(CU_STREAM_DEFAULT), last = new_stream(CU_STREAM_DEFAULT);

	copies_on(first);
	OK(cuMemsetD32Async(data, 42, 1, NULL));
	OK(cuMemsetD32Async(data + 8, 42, 1, last));
	OK(cuStreamSynchronize(last));
	look();
}

static void legacy_wait(void)
{
	copies_on(new_stream(CU_STREAM_DEFAULT));
	OK(cuStreamSynchronize(NULL));
	look();
}

static void legacy_event(void)
{
	copies_on(new_stream(CU_STREAM_DEFAULT));
	OK(cuEventRecord(event, NULL));
	OK(cuEventSynchronize(event));
	look();
}

static void synchronous_copy(void)
{
	uint32_t word = 0;

	copies_on(NULL);
	OK(cuMemcpyDtoH(&word, data, sizeof(word)));
	CHECK(word == 42);
	look();
}

static void pageable_read_back(void)
{
	uint32_t word = 0;

	copies_on(stream);
	OK(cuMemcpyDtoHAsync(&word, data, sizeof(word), stream));
	CHECK(word == 42);
	look();
}

static void free_drains(void)
{
	CUdeviceptr memory = on_device(4096);

	copies_on(stream);
	OK(cuMemFree(memory));
	look();
}

static pthread_barrier_t barrier;

static void *wait_for_stream(void *argument)
{
	OK(cuCtxSetCurrent(context));
	OK(cuStreamSynchronize(stream));
	(void)pthread_barrier_wait(&barrier);
	return argument;
}

static void other_thread(void)
{
	pthread_t thread;

	CHECK(!pthread_barrier_init(&barrier, NULL, 2));
	copies_on(stream);
	thread = new_thread(wait_for_stream, NULL);
	(void)pthread_barrier_wait(&barrier);
	look();
	CHECK(!pthread_join(thread, NULL));
}

static uint32_t is_told;

static void tell(void *argument)
{
	(void)argument;
	__atomic_store_n(&is_told, 1, __ATOMIC_RELEASE);
}

static void host_function(void)
{
	copies_on(stream);
	OK(cuLaunchHostFunc(stream, tell, NULL));
	while (!__atomic_load_n(&is_told, __ATOMIC_ACQUIRE))
		;
	look();
}

/* What runs behind another stream's wait tells as well. */
static void host_function_elsewhere(void)
{
	copies_on(stream);
	order(stream, second);
	OK(cuLaunchHostFunc(second, tell, NULL));
	while (!__atomic_load_n(&is_told, __ATOMIC_ACQUIRE))
		;
	look();
}

static void kernel_flag(void)
{
	volatile uint32_t *flag = pinned(4096);
	uint32_t value = 5, count = 1;
	CUfunction fill = kernel("fill");

	copies_on(stream);
	OK(LAUNCH(fill, stream, &flag, &value, &count));
	while (*flag != 5)
		;
	look();
}

static void value_written(void)
{
	volatile uint32_t *flag = pinned(4096);

	copies_on(stream);
	OK(cuStreamWriteValue32(stream, (uintptr_t)flag, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
	while (*flag != 5)
		;
	look();
}

/* The second stream waits for a value that is written behind the copy, by what could not tell the host. */
static void value_waited(void)
{
	CUfunction fill = kernel("fill");
	CUdeviceptr flag = on_device(4096);
	uint32_t value = 5, count = 1;

	OK(cuMemsetD32(flag, 0, 1));
	OK(cuCtxSynchronize());
	copies_on(stream);
	OK(LAUNCH(fill, stream, &flag, &value, &count));
	OK(cuStreamWaitValue32(second, flag, 5, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuStreamSynchronize(second));
	look();
}

static void graph_behind(void)
{
	CUDA_HOST_NODE_PARAMS parameters = {.fn = tell};
	CUgraphExec executable;
	CUgraphNode node;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddHostNode(&node, graph, NULL, 0, &parameters));
	OK(cuGraphInstantiate(&executable, graph, 0));
	copies_on(stream);
	OK(cuGraphLaunch(executable, stream));
	while (!__atomic_load_n(&is_told, __ATOMIC_ACQUIRE))
		;
	look();
}

#define ROUNDS_OF_TWO 400

static pthread_barrier_t rounds;

static void *record_in_rounds(void *argument)
{
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < ROUNDS_OF_TWO; i++) {
		(void)pthread_barrier_wait(&rounds);
		OK(cuEventRecord(event, stream));
		(void)pthread_barrier_wait(&rounds);
	}
	return argument;
}

/* Two threads record one event: where they do so at once nobody knows whose record a wait was for, and both are behind the copy. */
static void recorded_by_two(void)
{
	pthread_t thread;

	CHECK(!pthread_barrier_init(&rounds, NULL, 2));
	host = pinned(REGION);
	thread = new_thread(record_in_rounds, NULL);
	for (uint32_t i = 0; i < ROUNDS_OF_TWO; i++) {
		OK(cuMemsetD32Async(data, i, 1, stream));
		OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream));
		(void)pthread_barrier_wait(&rounds);
		OK(cuEventRecord(event, stream));
		(void)pthread_barrier_wait(&rounds);
		OK(cuEventSynchronize(event));
		CHECK(host[0] == i);
	}
	CHECK(!pthread_join(thread, NULL));
}

/* Reading a source, and both directions of pageable memory, which such a copy is done with when it returns. */
static void allowed(void)
{
	uint32_t *plain = pageable(REGION);

	copies_on(stream);
	sum += source[9];
	OK(cuMemcpyHtoDAsync(data, plain, REGION, second));
	plain[0] = 3;
	OK(cuMemcpyDtoHAsync(plain, data, REGION, second));
	sum += plain[7];
	free(plain);
}

/* Beside the bytes of copies, on the same pages: plain, in strings, in vectors. */
static void neighbours(void)
{
	char *page = pinned(4096), copy[64];
	CUdeviceptr to = on_device(4096);

	strcpy(page + 1024 + 16, "a string right behind a guarded range");
	busy_on(stream);
	OK(cuMemcpyDtoHAsync(page + 1024, data, 16, stream));
	OK(cuMemcpyHtoDAsync(to, page + 2048, 100, stream));
	for (int i = 0; i < 200; i++) {
		CHECK(strlen(page + 1024 + 16) == 37);
		CHECK(!memchr(page + 1024 + 16, '?', 37));
		memset(page, i, 1024);
		memset(page + 2148, i, 4096 - 2148);
		strcpy(copy, page + 1024 + 16);
		sum += (unsigned char)page[1023] + (unsigned char)page[2047];
		/* Each call protects the page again. */
		OK(cuEventRecord(event, stream));
	}
	OK(cuStreamSynchronize(stream));
	CHECK(page[1024] == 42 && page[1023] == (char)199 && page[4095] == (char)199);
}

/* Near the end of a page string functions read from an aligned address before the string. */
static void string_behind(void)
{
	char *page = pinned(4096), *string = page + 4096 - 16;

	strcpy(string, "end of a page");
	busy_on(stream);
	OK(cuMemcpyDtoHAsync(string - 16, data, 16, stream));
	for (int i = 0; i < 20; i++) {
		CHECK(strlen(string) == 13 && !strcmp(string, "end of a page"));
		CHECK(!strchr(string, '?') && !memchr(string, '?', 14));
		OK(cuEventRecord(event, stream));
	}
	OK(cuStreamSynchronize(stream));
	CHECK(string[-16] == 42);
}

/* The same by words, as programs do it that have string functions of their own. */
static void string_by_words(void)
{
	char *page = pinned(4096);

	strcpy(page + 12, "text");
	busy_on(stream);
	OK(cuMemcpyDtoHAsync(page, data, 12, stream));
	/* The upper half is the string's. */
	CHECK(*(volatile uint64_t *)(page + 8) >> 32 == 0x74786574);
	OK(cuStreamSynchronize(stream));
	CHECK(page[8] == 42);
}

/* What shares a page with registered memory at its edge is the C library's, say. */
static void edges(void)
{
	char *block = malloc(3 * 4096);
	char *page = (char *)(((uintptr_t)block + 4095) & ~(uintptr_t)4095);
	uint32_t *inside = (uint32_t *)(page + 512);

	CHECK(block);
	memset(block, 0, 3 * 4096);
	OK(cuMemHostRegister(inside, 1000, 0));
	busy_on(stream);
	OK(cuMemcpyDtoHAsync(inside, data, 1000, stream));
	for (int i = 0; i < 1000; i++)
		free(malloc(100 + (size_t)i));
	OK(cuEventRecord(event, stream));
	/* A call that nobody sees. */
	CHECK(!uname((struct utsname *)(page + 2048)));
	OK(cuStreamSynchronize(stream));
	CHECK(inside[200] == 42);
}

/* Pages that the program protects itself stay as it wants them. */
static void protected_pages(void)
{
	char *memory =
		mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	memset(memory, 0, REGION);
	OK(cuMemHostRegister(memory, REGION, 0));
	busy_on(stream);
	OK(cuMemcpyHtoDAsync(data, memory, REGION, stream));
	CHECK(!mprotect(memory + 4096, 4096, PROT_READ));
	OK(cuStreamSynchronize(stream));
	busy_on(stream);
	OK(cuMemcpyHtoDAsync(data, memory, REGION, stream));
	OK(cuStreamSynchronize(stream));
	memory[0] = 1;
	/* EFAULT says that it cannot be written. */
	CHECK(read(open("/dev/zero", 0), memory + 4096, 1) == -1);
	CHECK(!mprotect(memory + 4096, 4096, PROT_READ | PROT_WRITE));
	memory[4096] = 1;
}

/* A mapping that grows where it is stays what it was. */
static void grows_in_place(void)
{
	char *memory =
		mmap(NULL, 2 * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	/* A mapping of its own: neighbours of the same kind would be one with it. */
	CHECK(mmap(memory, 2 * REGION, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
	OK(cuMemHostRegister(memory, REGION, 0));
	busy_on(stream);
	OK(cuMemcpyDtoHAsync(memory + 4096, data, 4096, stream));
	CHECK(!munmap(memory + REGION, REGION));
	CHECK(mremap(memory, REGION, 2 * REGION, 0) == memory);
	OK(cuStreamSynchronize(stream));
	CHECK(memory[4096] == 42);
}

static const struct guard_case cases[] = {
	{"event-wait", event_wait},
	{"event-query", event_query},
	{"event-times", event_times},
	{"stream-wait", stream_wait},
	{"stream-query", stream_query},
	{"context-wait", context_wait},
	{"other-stream", other_stream},
	{"other-stream-event", other_stream_event},
	{"through-legacy", through_legacy},
	{"legacy-wait", legacy_wait},
	{"legacy-event", legacy_event},
	{"synchronous-copy", synchronous_copy},
	{"pageable-read-back", pageable_read_back},
	{"free-drains", free_drains},
	{"other-thread", other_thread},
	{"host-function", host_function},
	{"host-function-elsewhere", host_function_elsewhere},
	{"kernel-flag", kernel_flag},
	{"value-written", value_written},
	{"value-waited", value_waited},
	{"graph-behind", graph_behind},
	{"recorded-by-two", recorded_by_two},
	{"allowed", allowed},
	{"neighbours", neighbours},
	{"string-behind", string_behind},
	{"string-by-words", string_by_words},
	{"edges", edges},
	{"protected-pages", protected_pages},
	{"grows-in-place", grows_in_place},
};

CASES(cases)
