// SPDX-License-Identifier: MIT
/*
 * The engine of staged copies alone, without the shim, on whatever libcuda.so.1 is found: `stage [NAME=VALUE...] [cpu]`. Prints GB/s of
 * synchronous copies of ordinary memory to the device and back, beside the driver's own, and checks each byte once. The values are those of
 * stage_tuning: by_value, fill_streamed, empty_streamed, piece, unit, ring, helpers; `sizes=A,B` in bytes; `runs`; `fresh=1`: a target that
 * was never touched; `huge=1`: on huge pages. Several sets in one go are separated by `--`. `cpu`: no driver at all; what the copying
 * loops, the kernel's look at pages, and posting to the helpers take.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "driver/driver.h"
#include "emit/emit.h"
#include "stage/chunks.h"
#include "stage/copy_bytes.h"
#include "stage/copy_threads.h"
#include "stage/stage.h"
#include "stage/stage_memory.h"
#include "stage/stage_tuning.h"

struct driver_ops driver;
static unsigned int notes, wrong;
static const char *last_note = "";

void emit_note(enum note_code code, const char *text)
{
	notes++;
	last_note = text;
}

static CUresult (*copy_to)(CUdeviceptr, const void *, size_t);
static CUresult (*copy_from)(void *, CUdeviceptr, size_t);

static struct {
	size_t sizes[16];
	unsigned int count, runs;
	bool fresh, huge;
} options = {.sizes = {64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20},
	     .count = 6,
	     .runs = 9};

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "stage: %s: %d\n", what, (int)result);
	exit(1);
}

static void find(void *library, void *member, const char *name, bool must)
{
	void *found = dlsym(library, name);

	if (!found && must) {
		fprintf(stderr, "stage: the driver has no %s\n", name);
		exit(1);
	}
	memcpy(member, &found, sizeof(found));
}

#define FIND(name) find(library, &driver.name, #name, false)

static bool find_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		return false;
	FIND(cuInit);
	FIND(cuDevicePrimaryCtxRetain);
	FIND(cuCtxSetCurrent);
	FIND(cuCtxGetId);
	FIND(cuCtxGetFlags);
	FIND(cuCtxGetStreamPriorityRange);
	FIND(cuEventCreate);
	FIND(cuEventQuery);
	FIND(cuEventRecord);
	FIND(cuEventSynchronize);
	FIND(cuMemAlloc_v2);
	FIND(cuMemHostGetDevicePointer_v2);
	FIND(cuMemHostRegister_v2);
	FIND(cuMemcpy2DAsync_v2);
	FIND(cuMemcpy3DAsync_v2);
	FIND(cuMemcpyDtoHAsync_v2);
	FIND(cuMemcpyHtoDAsync_v2);
	FIND(cuStreamBatchMemOp_v2);
	FIND(cuStreamCreateWithPriority);
	FIND(cuStreamCreate);
	FIND(cuStreamQuery);
	FIND(cuStreamSynchronize);
	FIND(cuStreamWaitValue32_v2);
	FIND(cuStreamWriteValue32_v2);
	FIND(cuThreadExchangeStreamCaptureMode);
	find(library, &copy_to, "cuMemcpyHtoD_v2", true);
	find(library, &copy_from, "cuMemcpyDtoH_v2", true);
	return true;
}

static char *map(size_t bytes)
{
	size_t room = bytes + CHUNK_BYTES;
	char *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	memory += -(uintptr_t)memory & (CHUNK_BYTES - 1);
	madvise(memory, bytes, options.huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return memory;
}

static void unmap(char *memory, size_t bytes)
{
	munmap(memory, bytes);
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static void fill(char *memory, size_t bytes, uint64_t seed)
{
	uint64_t *words = (void *)memory;

	for (size_t i = 0; i < bytes / 8; i++)
		words[i] = seed = seed * 6364136223846793005u + 1442695040888963407u;
}

/* Nanoseconds of the median run. */
static uint64_t measure(bool staged, bool to_device, CUdeviceptr device, char *host, size_t bytes,
			CUstream stream, uint64_t context)
{
	uint64_t took[100];
	unsigned int i;

	for (i = 0; i < options.runs; i++) {
		char *target = host;
		struct stage_copy copy = {
			.device = device,
			.to_device = to_device,
			.width = bytes,
			.height = 1,
			.depth = 1,
			.context = context,
			.stream = stream,
		};
		CUresult result = CUDA_SUCCESS;
		uint64_t begin;

		if (options.fresh && !to_device)
			target = map(bytes);
		copy.host = target;
		begin = copy_now();
		if (!staged)
			result = to_device ? copy_to(device, target, bytes)
					   : copy_from(target, device, bytes);
		else if (stage_copy(&copy) != STAGE_DONE)
			return 0;
		check(result, "a copy");
		if (to_device)
			check(driver.cuStreamSynchronize(staged ? stream : NULL),
			      "cuStreamSynchronize");
		took[i] = copy_now() - begin;
		if (target != host)
			unmap(target, bytes);
	}
	qsort(took, options.runs, sizeof(*took), compare);
	return took[options.runs / 2];
}

static double rate(size_t bytes, uint64_t took)
{
	return took ? (double)bytes / (double)took : 0;
}

static void check_bytes(CUdeviceptr device, char *host, size_t bytes, CUstream stream,
			uint64_t context)
{
	struct stage_copy copy = {device, host, true, bytes, 1, 1, 0, 0, 0, 0, context, stream};
	char *back = map(bytes);
	bool same = true;

	fill(host, bytes, bytes + 1);
	if (stage_copy(&copy) == STAGE_DONE) {
		check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
		check(copy_from(back, device, bytes), "cuMemcpyDtoH");
		same = memcmp(host, back, bytes) == 0;
	} else {
		fprintf(stderr, "stage: %zu bytes not staged: %s\n", bytes, last_note);
		check(copy_to(device, host, bytes), "cuMemcpyHtoD");
	}
	memset(back, 0, bytes);
	copy.host = back;
	copy.to_device = false;
	if (stage_copy(&copy) == STAGE_DONE)
		same &= memcmp(host, back, bytes) == 0;
	if (!same) {
		fprintf(stderr, "stage: %zu bytes: WRONG\n", bytes);
		wrong++;
	}
	unmap(back, bytes);
}

static void run(CUstream stream, uint64_t context, bool raw)
{
	unsigned int i;

	copy_threads_limit(COPY_THREADS_MAX, false);
	printf("%-6s by_value %d fill_streamed %d empty_streamed %d piece %zu unit %zu ring %u "
	       "helpers "
	       "%u fresh %d huge %d\n",
	       raw ? "driver" : "stage", stage_tuning.by_value, stage_tuning.fill_streamed,
	       stage_tuning.empty_streamed, stage_tuning.piece_bytes, stage_tuning.unit_bytes,
	       stage_tuning.ring, stage_tuning.fill_helpers, options.fresh, options.huge);
	for (i = 0; i < options.count; i++) {
		size_t bytes = options.sizes[i];
		uint64_t to, from;
		CUdeviceptr device;
		char *host = map(bytes);

		check(driver.cuMemAlloc_v2(&device, bytes), "cuMemAlloc");
		chunks_earn((uint64_t)1 << 30);
		if (!raw)
			check_bytes(device, host, bytes, stream, context);
		fill(host, bytes, 1);
		to = measure(!raw, true, device, host, bytes, stream, context);
		from = measure(!raw, false, device, host, bytes, stream, context);
		printf("  %10zu bytes: to the device %7.2f GB/s %9.1f us, from it %7.2f GB/s %9.1f "
		       "us\n",
		       bytes, rate(bytes, to), (double)to / 1000, rate(bytes, from),
		       (double)from / 1000);
		fflush(stdout);
		unmap(host, bytes);
	}
	if (notes)
		printf("  %u notes, the last: %s\n", notes, last_note);
	notes = 0;
}

/* ---- cpu ---- */

#define BYTES ((size_t)256 << 20)
#define RING  ((size_t)16 << 20)
#define UNIT  ((size_t)128 << 10)

static struct {
	char *memory, *ring;
	bool streamed, out;
	uint64_t next, arrived;
} work;

static void copy_all(void *unused)
{
	size_t at;

	while ((at = __atomic_fetch_add(&work.next, UNIT, __ATOMIC_RELAXED)) < BYTES) {
		char *chunk = work.ring + at % RING, *memory = work.memory + at;

		(work.streamed ? copy_bytes_streamed : copy_bytes_cached)(
			work.out ? memory : chunk, work.out ? chunk : memory, UNIT);
	}
}

static void arrive(void *unused)
{
	__atomic_add_fetch(&work.arrived, 1, __ATOMIC_RELEASE);
}

static void loops(unsigned int helpers)
{
	for (int way = 0; way < 4; way++) {
		uint64_t best = UINT64_MAX;

		work.streamed = way & 1;
		work.out = way & 2;
		for (int i = 0; i < 5; i++) {
			int slot = copy_threads_take();
			uint64_t begin = copy_now();

			work.next = 0;
			copy_threads_post(slot, copy_all, NULL, helpers);
			copy_all(NULL);
			copy_threads_give(slot);
			while (copy_threads_inside(slot))
				copy_pause();
			begin = copy_now() - begin;
			if (begin < best)
				best = begin;
		}
		printf("  %2u threads, %s chunks, %s: %.2f GB/s\n", helpers + 1,
		       work.out ? "out of" : "into", work.streamed ? "streamed" : "cached",
		       rate(BYTES, best));
	}
}

/* The caller's time for a post, and the time until all have come. */
static void posts(unsigned int helpers, unsigned int pause_us)
{
	uint64_t post[101], all[101], begin;
	struct timespec pause = {.tv_nsec = pause_us * 1000L};

	for (int i = 0; i < 101; i++) {
		int slot;

		if (pause_us)
			nanosleep(&pause, NULL);
		while ((slot = copy_threads_take()) < 0)
			copy_pause();
		work.arrived = 0;
		begin = copy_now();
		copy_threads_post(slot, arrive, NULL, helpers);
		post[i] = copy_now() - begin;
		while (__atomic_load_n(&work.arrived, __ATOMIC_ACQUIRE) < helpers &&
		       copy_now() - begin < 10000000)
			copy_pause();
		all[i] = copy_now() - begin;
		copy_threads_give(slot);
	}
	qsort(post, 101, sizeof(*post), compare);
	qsort(all, 101, sizeof(*all), compare);
	printf("  post to %u helpers that %s: %.2f us; %.2f us until %u came\n", helpers,
	       pause_us ? "sleep" : "spin", (double)post[50] / 1000, (double)all[50] / 1000,
	       helpers);
}

static void pages(bool huge)
{
	uint64_t begin, took;

	options.huge = huge;
	work.memory = map(BYTES);
	begin = copy_now();
	stage_memory_populate((uintptr_t)work.memory, (uintptr_t)work.memory + BYTES, true);
	printf("  %s pages: first touch %.1f us a 2 MiB", huge ? "huge" : "small",
	       (double)(copy_now() - begin) / 1000 / (BYTES / CHUNK_BYTES));
	for (int way = 0; way < 3; way++) {
		begin = copy_now();
		for (size_t at = 0; at < BYTES; at += UNIT) {
			uintptr_t first = (uintptr_t)work.memory + at;

			if (way == 2)
				stage_memory_is_there(first, first + UNIT);
			else
				stage_memory_populate(first, first + UNIT, way);
		}
		took = copy_now() - begin;
		printf(", %s %.2f us a 128 KiB",
		       way == 2 ? "mincore"
		       : way    ? "populate for writing"
				: "for reading",
		       (double)took / 1000 / (BYTES / UNIT));
	}
	printf("\n");
}

static int cpu(void)
{
	unsigned int possible = copy_threads_possible();
	uint64_t begin = copy_now();

	printf("%u processors, %u helpers\n", copy_cpus(), possible);
	for (int i = 0; i < 100; i++)
		stage_memory_look((uintptr_t)&options, (uintptr_t)&options + 1, true);
	printf("  look at mappings %.2f us\n", (double)(copy_now() - begin) / 1000 / 100);
	work.ring = chunk_map(RING);
	memset(work.ring, 1, RING);
	for (int huge = 0; huge < 2; huge++) {
		pages(huge);
		for (unsigned int helpers = 0; helpers <= possible; helpers = helpers * 2 + 1)
			loops(helpers);
		unmap(work.memory, BYTES);
	}
	for (unsigned int helpers = 1; helpers <= possible; helpers = helpers * 2 + 1) {
		posts(helpers, 0);
		posts(helpers, 1000);
	}
	return 0;
}

static void set(const char *word)
{
	size_t value = 0, length = strcspn(word, "=");
	char *end;

	if (word[length])
		value = strtoull(word + length + 1, &end, 0);
#define IS(name) (length == strlen(name) && strncmp(word, name, length) == 0)
	if (IS("by_value"))
		stage_tuning.by_value = value;
	else if (IS("fill_streamed"))
		stage_tuning.fill_streamed = value;
	else if (IS("empty_streamed"))
		stage_tuning.empty_streamed = value;
	else if (IS("piece"))
		stage_tuning.piece_bytes = value;
	else if (IS("unit"))
		stage_tuning.unit_bytes = value;
	else if (IS("ring"))
		stage_tuning.ring = (unsigned int)value;
	else if (IS("helpers"))
		stage_tuning.fill_helpers = stage_tuning.empty_helpers = (unsigned int)value;
	else if (IS("runs"))
		options.runs = value < 100 ? (unsigned int)value : 99;
	else if (IS("fresh"))
		options.fresh = value;
	else if (IS("huge"))
		options.huge = value;
	else if (IS("sizes"))
		for (options.count = 0; options.count < 16; word = end) {
			options.sizes[options.count++] = value;
			if (*end != ',')
				break;
			value = strtoull(end + 1, &end, 0);
		}
	else
		fprintf(stderr, "stage: %s?\n", word);
#undef IS
}

int main(int argc, char **argv)
{
	unsigned long long context;
	CUcontext current;
	CUstream stream;
	int i;

	if (argc == 2 && strcmp(argv[1], "cpu") == 0)
		return cpu();
	if (!find_driver()) {
		fprintf(stderr, "stage: no libcuda.so.1\n");
		return 77;
	}
	check(driver.cuInit(0), "cuInit");
	check(driver.cuDevicePrimaryCtxRetain(&current, 0), "cuDevicePrimaryCtxRetain");
	check(driver.cuCtxSetCurrent(current), "cuCtxSetCurrent");
	check(driver.cuCtxGetId(current, &context), "cuCtxGetId");
	check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		set(argv[i]);
	run(stream, context, true);
	for (i = 1; i <= argc; i++) {
		if (i == argc || strcmp(argv[i], "--") == 0)
			run(stream, context, false);
		else
			set(argv[i]);
	}
	return wrong != 0;
}
