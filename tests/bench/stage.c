// SPDX-License-Identifier: MIT
/*
 * The engine of staged copies alone, without the shim, on whatever libcuda.so.1 is found: `stage [NAME=VALUE...] [-- NAME=VALUE...]...`. Prints
 * GB/s of synchronous copies of ordinary memory to the device and back, the driver's own first, and checks the bytes of each.
 *
 * Each set of values behind a `--` is measured besides, and begins with those of the set before; the first set is that of the engine as well. The
 * values are those of stage_tuning: by_value, fill_streamed, empty_streamed, fill_streamed_most, empty_streamed_least, piece, unit, ring, fill_helpers,
 * empty_helpers (helpers: both); `fresh=1`: a target that was never touched; `huge=1`: on huge pages. For all sets: `sizes=A,B` in bytes;
 * `rounds=N`, each of which goes through all sets in a new random order (`seed=N`), since a machine changes its pace; `runs=N` copies in each
 * round; `cold=MIB`: the host's memory was not touched for so many MiB (cold.h; `cold=auto`); `check=0`; `brief=1`: for stage_sweep.py.
 *
 * `stage cpu`: no driver at all (stage_cpu.c). `stage show`: the values as the library has them. One thread, but for the engine's helpers.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cold.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "figures.h"
#include "stage/chunks.h"
#include "stage/copy_threads.h"
#include "stage/stage.h"
#include "stage/stage_tuning.h"
#include "stage_bench.h"

#define SIZES_MOST 16
#define SETS_MOST  1024

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
	size_t sizes[SIZES_MOST];
	unsigned int count, runs, rounds;
	uint64_t seed;
	size_t cold_mib;
	bool check, brief;
} options = {.sizes = {64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20},
	     .count = 6,
	     .runs = 9,
	     .rounds = 1,
	     .seed = 1,
	     .check = true};

/* What is compared: the driver's own copies (the first), or the engine as it is tuned then. */
static struct set {
	bool raw, fresh, huge;
	struct stage_tuning tuning;
	double *to, *from; /* ns of each copy of the size that is measured; 0: not staged */
	double median_to[SIZES_MOST], median_from[SIZES_MOST];
} sets[SETS_MOST];
static unsigned int set_count;
static uint64_t context;
static CUstream stream;
static struct cold host[2]; /* on small pages, and on huge ones */

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
	FIND(cuMemFree_v2);
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

/* One copy; ns, or 0 where the engine left it to the driver. */
static double copy_once(const struct set *set, bool to_device, CUdeviceptr device, size_t bytes)
{
	char *memory = !to_device && set->fresh ? stage_bench_map(bytes, set->huge)
						: cold_next(&host[set->huge], bytes);
	struct stage_copy copy = {.device = device,
				  .host = memory,
				  .to_device = to_device,
				  .width = bytes,
				  .height = 1,
				  .depth = 1,
				  .context = context,
				  .stream = stream};
	uint64_t begin = figures_now(), took;
	bool done = true;

	if (set->raw)
		check(to_device ? copy_to(device, memory, bytes) : copy_from(memory, device, bytes),
		      "a copy");
	else
		done = stage_copy(&copy) == STAGE_DONE;
	if (to_device)
		check(driver.cuStreamSynchronize(set->raw ? NULL : stream), "cuStreamSynchronize");
	took = figures_now() - begin;
	if (!to_device && set->fresh)
		munmap(memory, bytes);
	return done ? (double)took : 0;
}

static void check_bytes(CUdeviceptr device, char *memory, size_t bytes)
{
	struct stage_copy copy = {.device = device,
				  .host = memory,
				  .to_device = true,
				  .width = bytes,
				  .height = 1,
				  .depth = 1,
				  .context = context,
				  .stream = stream};
	char *back = stage_bench_map(bytes, false);
	bool same = true;

	cold_fill(memory, bytes, bytes + 1);
	if (stage_copy(&copy) == STAGE_DONE) {
		check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
		check(copy_from(back, device, bytes), "cuMemcpyDtoH");
		same = memcmp(memory, back, bytes) == 0;
	} else {
		fprintf(stderr, "stage: %zu bytes not staged: %s\n", bytes, last_note);
		check(copy_to(device, memory, bytes), "cuMemcpyHtoD");
	}
	memset(back, 0, bytes);
	copy.host = back;
	copy.to_device = false;
	if (stage_copy(&copy) == STAGE_DONE)
		same &= memcmp(memory, back, bytes) == 0;
	if (!same) {
		fprintf(stderr, "stage: %zu bytes: WRONG\n", bytes);
		wrong++;
	}
	munmap(back, bytes);
}

static double *samples(void)
{
	double *memory = calloc((size_t)options.runs * options.rounds, sizeof(double));

	if (!memory)
		exit(1);
	return memory;
}

static void measure(size_t at)
{
	size_t bytes = options.sizes[at], all = (size_t)options.runs * options.rounds;
	uint32_t order[SETS_MOST];
	CUdeviceptr device;

	check(driver.cuMemAlloc_v2(&device, bytes), "cuMemAlloc");
	chunks_earn((uint64_t)1 << 30);
	for (unsigned int i = 0; i < set_count; i++) {
		stage_tuning = sets[i].tuning;
		if (options.check && !sets[i].raw)
			check_bytes(device, cold_next(&host[sets[i].huge], bytes), bytes);
	}
	for (unsigned int round = 0; round < options.rounds; round++) {
		figures_shuffle(order, set_count);
		for (unsigned int i = 0; i < set_count; i++) {
			struct set *set = &sets[order[i]];

			stage_tuning = set->tuning;
			for (unsigned int run = 0; run < options.runs; run++)
				set->to[round * options.runs + run] =
					copy_once(set, true, device, bytes);
			for (unsigned int run = 0; run < options.runs; run++)
				set->from[round * options.runs + run] =
					copy_once(set, false, device, bytes);
		}
	}
	for (unsigned int i = 0; i < set_count; i++) {
		sets[i].median_to[at] = figures_quantile(sets[i].to, all, 0.5);
		sets[i].median_from[at] = figures_quantile(sets[i].from, all, 0.5);
	}
	check(driver.cuMemFree_v2(device), "cuMemFree");
}

static double rate(size_t bytes, double ns)
{
	return ns > 0 ? (double)bytes / ns : 0;
}

static void print_values(const struct set *set)
{
	const struct stage_tuning *tuning = &set->tuning;

	printf("by_value=%d fill_streamed=%d empty_streamed=%d fill_streamed_most=%zu "
	       "empty_streamed_least=%zu piece=%zu unit=%zu "
	       "ring=%u fill_helpers=%u empty_helpers=%u fresh=%d huge=%d\n",
	       tuning->by_value, tuning->fill_streamed, tuning->empty_streamed,
	       tuning->fill_streamed_most, tuning->empty_streamed_least, tuning->piece_bytes,
	       tuning->unit_bytes, tuning->ring, tuning->fill_helpers, tuning->empty_helpers,
	       set->fresh, set->huge);
}

static void print(unsigned int number)
{
	const struct set *set = &sets[number];

	if (!options.brief && set->raw)
		printf("driver fresh=%d huge=%d\n", set->fresh, set->huge);
	else if (!options.brief) {
		printf("stage ");
		print_values(set);
	}
	for (unsigned int i = 0; i < options.count; i++) {
		size_t bytes = options.sizes[i];
		double to = set->median_to[i], from = set->median_from[i];

		if (options.brief)
			printf("set %u %zu %.0f %.0f\n", number, bytes, to, from);
		else
			printf("  %10zu bytes: to the device %7.2f GB/s %9.1f us, from it %7.2f "
			       "GB/s %9.1f us\n",
			       bytes, rate(bytes, to), to / 1000, rate(bytes, from), from / 1000);
	}
}

static void set_value(struct set *set, const char *word)
{
	size_t value = 0, length = strcspn(word, "=");
	char *end;

	if (word[length])
		value = strtoull(word + length + 1, &end, 0);
#define IS(name) (length == strlen(name) && strncmp(word, name, length) == 0)
	if (IS("by_value"))
		set->tuning.by_value = value;
	else if (IS("fill_streamed"))
		set->tuning.fill_streamed = value;
	else if (IS("empty_streamed"))
		set->tuning.empty_streamed = value;
	else if (IS("fill_streamed_most"))
		set->tuning.fill_streamed_most = value;
	else if (IS("empty_streamed_least"))
		set->tuning.empty_streamed_least = value;
	else if (IS("piece"))
		set->tuning.piece_bytes = value;
	else if (IS("unit"))
		set->tuning.unit_bytes = value;
	else if (IS("ring"))
		set->tuning.ring = (unsigned int)value;
	else if (IS("helpers"))
		set->tuning.fill_helpers = set->tuning.empty_helpers = (unsigned int)value;
	else if (IS("fill_helpers"))
		set->tuning.fill_helpers = (unsigned int)value;
	else if (IS("empty_helpers"))
		set->tuning.empty_helpers = (unsigned int)value;
	else if (IS("runs"))
		options.runs = (unsigned int)value;
	else if (IS("rounds"))
		options.rounds = (unsigned int)value;
	else if (IS("seed"))
		options.seed = value;
	else if (IS("cold"))
		options.cold_mib = strcmp(word, "cold=auto") ? value : cold_enough() >> 20;
	else if (IS("check"))
		options.check = value;
	else if (IS("brief"))
		options.brief = value;
	else if (IS("fresh"))
		set->fresh = value;
	else if (IS("huge"))
		set->huge = value;
	else if (IS("sizes"))
		for (options.count = 0; options.count < SIZES_MOST; word = end) {
			options.sizes[options.count++] = value;
			if (*end != ',')
				break;
			value = strtoull(end + 1, &end, 0);
		}
	else
		fprintf(stderr, "stage: %s?\n", word);
#undef IS
}

/* The driver first; its own set is the engine's first one as well. */
static void make_sets(int argc, char **argv)
{
	struct set set = {.tuning = stage_tuning};

	for (int i = 1; i <= argc; i++) {
		if (i < argc && strcmp(argv[i], "--") != 0) {
			set_value(&set, argv[i]);
			continue;
		}
		if (!set_count) {
			sets[set_count] = set;
			sets[set_count++].raw = true;
		}
		if (set_count == SETS_MOST) {
			fprintf(stderr, "stage: at most %d sets\n", SETS_MOST - 1);
			exit(2);
		}
		sets[set_count++] = set;
	}
	if (!options.runs || !options.rounds) {
		fprintf(stderr, "stage: runs and rounds are at least 1\n");
		exit(2);
	}
}

static void open_memory(void)
{
	size_t largest = 0;

	for (unsigned int i = 0; i < options.count; i++)
		if (options.sizes[i] > largest)
			largest = options.sizes[i];
	for (unsigned int i = 0; i < set_count; i++) {
		struct cold *cold = &host[sets[i].huge];

		if (!cold->memory)
			cold_open(cold, options.cold_mib << 20, largest,
				  sets[i].huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		sets[i].to = samples();
		sets[i].from = samples();
	}
}

int main(int argc, char **argv)
{
	unsigned long long id;
	CUcontext current;

	copy_threads_limit(COPY_THREADS_MAX, false);
	if (argc == 2 && strcmp(argv[1], "cpu") == 0)
		return stage_bench_cpu();
	make_sets(argc == 2 && !strcmp(argv[1], "show") ? 1 : argc, argv);
	if (argc == 2 && !strcmp(argv[1], "show")) {
		print_values(&sets[0]);
		return 0;
	}
	if (!find_driver()) {
		fprintf(stderr, "stage: no libcuda.so.1\n");
		return 77;
	}
	check(driver.cuInit(0), "cuInit");
	check(driver.cuDevicePrimaryCtxRetain(&current, 0), "cuDevicePrimaryCtxRetain");
	check(driver.cuCtxSetCurrent(current), "cuCtxSetCurrent");
	check(driver.cuCtxGetId(current, &id), "cuCtxGetId");
	context = id;
	check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	figures_seed(options.seed);
	open_memory();
	for (size_t i = 0; i < options.count; i++)
		measure(i);
	printf("cold: %zu MiB\n", options.cold_mib);
	for (unsigned int i = 0; i < set_count; i++)
		print(i);
	if (notes)
		printf("  %u notes, the last: %s\n", notes, last_note);
	return wrong != 0;
}
