// SPDX-License-Identifier: MIT
/*
 * Staged copies: the measuring process (staging.h). Called by measure.c; relies on gpu.h for both sides and on the process's own record file
 * for what the library did.
 *
 * The copy threads of the library fall asleep between a program's copies, and waking them is what a staged copy is slowest by. So each copy
 * is timed behind a pause, whoever makes it. A kernel makes a stream busy; what it takes by itself is measured with the same pauses.
 *
 * One thread of its own; the library has its copy threads.
 */
#include "staging.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "../kernels/kernels.h"
#include "calibration_copies.h"
#include "cells.h"
#include "gpu.h"
#include "measure.h"
#include "memory.h"
#include "record_read.h"

#define SMALLEST      ((size_t)4 << 10)
#define LARGEST       ((size_t)64 << 20)
#define LARGEST_CHUNK ((size_t)2 << 20) /* more waits all the same (shim/rewrite/staging_sizes.c) */
#define SIZES_MAX     16
#define KERNEL_NS     150000
#define PAUSE_NS      100000 /* helpers sleep after 20 us */
#define ROUNDS_MOST   31
#define ROUNDS_LEAST  3
#define BUDGET_NS     UINT64_C(700000000) /* of one kind of copy, ROUNDS_LEAST aside */

bool staging_explains;

/* Of LARGEST bytes, before anything is measured: at most, and between two looks at what the library holds. */
#define FIRST_COPIES_MOST 64
#define FIRST_COPIES_LOOK 8

enum { DRIVER, STAGED, SIDES };

static struct side {
	struct gpu call;
	CUstream stream; /* a blocking one, of its own */
} side[SIDES];

static CUfunction spin;
static CUdeviceptr device;
static char *host;

struct kind {
	const char *name;
	bool to_device, async, busy, unwaited;
};

struct samples {
	uint64_t call[ROUNDS_MOST], whole[ROUNDS_MOST];
};

static const char *const names[CALIBRATION_COPIES] = CALIBRATION_COPY_NAMES;

static struct kind kind_of(unsigned int copy)
{
	return (struct kind){
		.name = names[copy],
		.to_device = copy == CALIBRATION_UNWAITED || !(copy & 4),
		.async = copy != CALIBRATION_UNWAITED && copy & 2,
		.busy = copy == CALIBRATION_UNWAITED || copy & 1,
		.unwaited = copy == CALIBRATION_UNWAITED,
	};
}

static unsigned int sizes_of(const struct kind *kind, size_t ret_sizes[SIZES_MAX])
{
	size_t largest = kind->unwaited ? LARGEST_CHUNK : LARGEST;
	unsigned int count = 0;

	/* Where a wait is left out the smallest copy may win. */
	if (kind->unwaited)
		ret_sizes[count++] = 1;
	for (size_t size = SMALLEST; size <= largest; size *= 2)
		ret_sizes[count++] = size;
	return count;
}

static CUresult copy(const struct kind *kind, int which, size_t bytes)
{
	const struct gpu *call = &side[which].call;

	if (kind->to_device)
		return kind->async
			       ? call->cuMemcpyHtoDAsync(device, host, bytes, side[which].stream)
			       : call->cuMemcpyHtoD(device, host, bytes);
	return kind->async ? call->cuMemcpyDtoHAsync(host, device, bytes, side[which].stream)
			   : call->cuMemcpyDtoH(host, device, bytes);
}

static CUresult launch(int which, CUstream stream, uint64_t ns)
{
	void *arguments[] = {&ns};

	return side[which].call.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/* One copy of a side; no bytes: the kernel alone. The device is idle before and after. */
static int turn(const struct kind *kind, int which, size_t bytes, struct samples *samples,
		unsigned int round)
{
	static const struct timespec pause = {.tv_nsec = PAUSE_NS};
	CUstream stream = kind->async ? side[which].stream : NULL;
	uint64_t begin, returned, done;

	nanosleep(&pause, NULL);
	begin = bench_now();
	if (kind->busy) {
		TRY(launch(which, stream, KERNEL_NS));
		/* The kernel's time is counted from its launch on, the launch itself as no one's. */
		if (bytes)
			begin = bench_now();
	}
	if (bytes)
		TRY(copy(kind, which, bytes));
	returned = bench_now();
	/* By the driver's address, so that no wrapper is timed; then by its own, so that the library knows. */
	TRY(side[DRIVER].call.cuStreamSynchronize(stream));
	done = bench_now();
	TRY(side[which].call.cuStreamSynchronize(stream));
	TRY(side[which].call.context_synchronize());
	samples->call[round] = returned - begin;
	samples->whole[round] = done - (bytes ? begin : returned);
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static struct staging_figures medians(struct samples *samples, unsigned int rounds)
{
	qsort(samples->call, rounds, sizeof(samples->call[0]), compare);
	qsort(samples->whole, rounds, sizeof(samples->whole[0]), compare);
	return (struct staging_figures){samples->call[rounds / 2], samples->whole[rounds / 2]};
}

/* What only the first copies need is not measured: the driver's memory and the library's, threads, pages. */
static int warm_up(const struct kind *kind, const size_t *sizes, unsigned int count)
{
	struct samples unused;
	int r = 0;

	for (int which = 0; !r && which < SIDES; which++)
		for (unsigned int n = 0; !r && n < 3; n++)
			r = turn(kind, which, sizes[n * (count - 1) / 2], &unused, 0);
	return r;
}

/* Goes through all sizes, the sides by turns, the first by turns. Returns how often, or -EIO. */
static int measure_rounds(const struct kind *kind, const size_t *sizes, unsigned int count,
			  struct samples samples[SIZES_MAX][SIDES], struct samples *kernel)
{
	uint64_t begin = bench_now();
	unsigned int rounds;
	int r = warm_up(kind, sizes, count);

	for (rounds = 0; !r && rounds < ROUNDS_MOST; rounds++) {
		if (rounds >= ROUNDS_LEAST && bench_now() - begin > BUDGET_NS)
			break;
		if (kind->busy)
			r = turn(kind, DRIVER, 0, kernel, rounds);
		for (unsigned int i = 0; !r && i < count; i++)
			for (unsigned int n = 0; !r && n < SIDES; n++) {
				unsigned int which = (rounds + i + n) % SIDES;

				r = turn(kind, (int)which, sizes[i], &samples[i][which], rounds);
			}
	}
	return r ? r : (int)rounds;
}

struct seen {
	uint64_t staged, unwaited; /* copies */
	uint64_t held;             /* bytes */
	char note[128];            /* a reason for which it left calls to the driver; empty: none */
};

/* What the library says that it did in this process so far. False: it left no record. */
static bool look_at_record(struct seen *ret_seen)
{
	const char *folder = getenv("SLIPSTREAM_OUT");
	_cleanup_free_ char *own = memory_format("%d-", (int)getpid());
	_cleanup_free_ char *problem = NULL;
	struct record_file *file = NULL;
	DIR *files = folder ? opendir(folder) : NULL;
	struct dirent *entry;

	*ret_seen = (struct seen){0};
	while (files && !file && (entry = readdir(files))) {
		_cleanup_free_ char *path = memory_format("%s/%s", folder, entry->d_name);

		if (!strncmp(entry->d_name, own, strlen(own)) &&
		    record_file_read(path, &file, &problem))
			file = NULL;
	}
	if (files)
		(void)closedir(files);
	if (!file)
		return false;
	for (size_t i = 0; i < file->rewrites.count; i++) {
		const struct record_rewrite *rewrite = (const void *)file->rewrites.records[i];

		ret_seen->staged += rewrite->to_device + rewrite->from_device;
		ret_seen->unwaited += rewrite->waits_avoided;
		ret_seen->held += rewrite->held_bytes;
	}
	for (size_t i = 0; i < file->notes.count; i++) {
		const struct record_note *note = (const void *)file->notes.records[i];
		const char *text = record_string_text(file, note->text);

		if (note->code == NOTE_REWRITE && text)
			snprintf(ret_seen->note, sizeof(ret_seen->note), "%s", text);
	}
	record_file_free(file);
	return true;
}

static void print_from(const struct kind *kind, uint64_t from)
{
	if (from == CALIBRATION_NEVER)
		printf("stage %s never\n", kind->name);
	else
		printf("stage %s %llu\n", kind->name, (unsigned long long)from);
	fflush(stdout);
}

static void explain(const struct kind *kind, size_t size, struct staging_figures staged,
		    struct staging_figures driver, uint64_t kernel, bool fast)
{
	if (!staging_explains)
		return;
	fprintf(stderr,
		"%s %zu: call %.1f staged %.1f driver, whole %.1f staged %.1f driver, kernel %.1f "
		"us%s\n",
		kind->name, size, (double)staged.call / 1000, (double)driver.call / 1000,
		(double)staged.whole / 1000, (double)driver.whole / 1000, (double)kernel / 1000,
		fast ? "" : " (slower)");
}

static int measure_kind(const struct kind *kind)
{
	static struct samples samples[SIZES_MAX][SIDES], kernel;
	size_t sizes[SIZES_MAX];
	bool fast[SIZES_MAX];
	unsigned int count = sizes_of(kind, sizes);
	struct seen before, after;
	uint64_t kernel_ns = 0;
	int rounds;

	(void)look_at_record(&before);
	rounds = measure_rounds(kind, sizes, count, samples, &kernel);
	if (rounds < 0)
		return 1;
	if (!look_at_record(&after)) {
		fprintf(stderr,
			"slipstream calibrate: staged copies: the library left no record\n");
		return MEASURE_TOLD;
	}
	/* Then both sides were the driver's: the library's own size stands. */
	if (kind->unwaited ? after.unwaited == before.unwaited : after.staged == before.staged) {
		fprintf(stderr, "slipstream calibrate: %s: nothing to measure here%s%s\n",
			kind->name, after.note[0] ? ": " : "", after.note);
		return 0;
	}
	if (kind->busy)
		kernel_ns = medians(&kernel, (unsigned int)rounds).whole;
	for (unsigned int i = 0; i < count; i++) {
		struct staging_figures staged = medians(&samples[i][STAGED], (unsigned int)rounds),
				       driver = medians(&samples[i][DRIVER], (unsigned int)rounds);

		/* A wait is left out for the call's sake; the copy has the kernel before it all the same. */
		fast[i] = kind->unwaited
				  ? staging_is_call_as_fast(staged.call, driver.call, kernel_ns)
				  : staging_is_as_fast(staged, driver, kernel_ns);
		explain(kind, sizes[i], staged, driver, kernel_ns, fast[i]);
	}
	print_from(kind, staging_from(sizes, fast, count));
	return 0;
}

static int prepare(void)
{
	CUcontext context;
	CUmodule module;

	TRY(gpu.cuInit(0));
	TRY(gpu.cuDevicePrimaryCtxRetain(&context, 0));
	TRY(gpu.cuCtxSetCurrent(context));
	TRY(gpu.cuModuleLoadData(&module, KERNELS_SPIN));
	TRY(gpu.cuModuleGetFunction(&spin, module, "spin"));
	TRY(gpu.cuMemAlloc(&device, LARGEST));
	side[STAGED].call = gpu;
	for (int which = 0; which < SIDES; which++) {
		TRY(side[which].call.cuStreamCreate(&side[which].stream, CU_STREAM_DEFAULT));
		TRY(launch(which, side[which].stream, 1000));
		TRY(side[which].call.context_synchronize());
	}
	host = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (host == MAP_FAILED)
		return -ENOMEM;
	memset(host, 1, LARGEST);
	return 0;
}

/*
 * Does the library stage here at all? It makes its memory bit by bit, for a share of what was copied: that is behind us before anything is
 * timed. 0, or the exit status of a process that could not tell.
 */
static int start_staging(bool *ret_stages, bool says_why_not)
{
	struct kind kind = kind_of(0);
	struct samples unused;
	uint64_t held = 0;
	struct seen seen;

	*ret_stages = false;
	for (unsigned int n = 1; n <= FIRST_COPIES_MOST; n++) {
		if (turn(&kind, STAGED, LARGEST, &unused, 0))
			return 1;
		if (n % FIRST_COPIES_LOOK)
			continue;
		if (!look_at_record(&seen)) {
			fprintf(stderr, "slipstream calibrate: staged copies: the library left no "
					"record\n");
			return MEASURE_TOLD;
		}
		if (seen.held == held)
			break;
		held = seen.held;
	}
	*ret_stages = seen.staged;
	/* No failure: then no program's copies are staged here either. */
	if (!*ret_stages && says_why_not)
		fprintf(stderr,
			"slipstream calibrate: staged copies: not measured, there are none "
			"here%s%s\n",
			seen.note[0] ? ": " : "", seen.note);
	return 0;
}

int staging_measure(const char *unit)
{
	bool unwaited = !strcmp(unit, STAGING_UNIT_UNWAITED);
	bool stages;
	char line[64];
	int r;

	if (gpu_open_unhooked(&side[DRIVER].call))
		return MEASURE_TOLD;
	if ((void *)side[DRIVER].call.cuMemcpyHtoD == (void *)gpu.cuMemcpyHtoD) {
		fprintf(stderr,
			"slipstream calibrate: staged copies: the library was not loaded\n");
		return MEASURE_TOLD;
	}
	if (prepare())
		return 1;
	r = start_staging(&stages, !unwaited);
	if (r || !stages)
		return r;
	for (unsigned int copy = 0; copy < CALIBRATION_COPIES; copy++) {
		struct kind kind = kind_of(copy);

		if (kind.unwaited != unwaited)
			continue;
		snprintf(line, sizeof(line), "stage %s never", kind.name);
		if (!measure_step(line))
			continue;
		r = measure_kind(&kind);
		if (r)
			return r;
	}
	return 0;
}
