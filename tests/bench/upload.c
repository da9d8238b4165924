// SPDX-License-Identifier: MIT
/*
 * What PyTorch's `.cuda()` and `.cpu()` of an ordinary tensor ask of the driver, without PyTorch, by the driver's own address and by the shim's wrapper in
 * turns within one process: `upload [OPTION...]`, started by upload.py under the shim; without it status 77. Why the two sides do not disturb each
 * other: sides.h.
 *
 *	cuda	memory on the device, an asynchronous copy on the legacy stream, a wait for that stream
 *	cpu	new memory of the host, never touched (mapped by the C library, as PyTorch's allocator has it), the same copy back, the wait
 * The device's memory is
 *	kept	from one time to the next, as PyTorch's caching allocator keeps it
 *	each	allocated in the time that counts and freed behind it, as a program without a cache does
 * The source of cuda was
 *	hot	written by this thread just before: what is left of it lies in the caches
 *	cold	not touched since twice the last-level cache's bytes were (cold.h)
 *
 * Prints a line a cell: direction, device's memory, source, bytes, pairs, medians of both sides in us, and the median of raw / wrapped within
 * a pair with its interval (figures.h): how many times as fast. The bytes of each cell's first turns are checked.
 */
#include <argp.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cold.h"
#include "figures.h"
#include "sides.h"

#define PAIRS_MOST 1000

static struct {
	uint64_t pairs, bytes, cold_mib, seed;
} options = {.pairs = 15, .bytes = (uint64_t)256 << 20, .seed = 1};

enum source { HOT, COLD, NEW, SOURCES };
static const char *const source_names[] = {"hot", "cold", "new"};

static struct cell {
	bool to_device, each;
	enum source source;
	double us[SIDES][PAIRS_MOST];
} cells[] = {
	{.to_device = true, .each = false, .source = HOT},
	{.to_device = true, .each = false, .source = COLD},
	{.to_device = true, .each = true, .source = HOT},
	{.to_device = true, .each = true, .source = COLD},
	{.to_device = false, .each = false, .source = NEW},
};
#define CELLS (sizeof(cells) / sizeof(cells[0]))

static struct cold cold, hot;
static CUdeviceptr kept; /* for both, never freed */
static char *other;

static void check_bytes(const struct cell *cell, int which, CUdeviceptr device, const char *memory)
{
	sides_check(side[RAW].cuMemcpyDtoH(other, device, options.bytes), "cuMemcpyDtoH");
	if (memcmp(other, memory, options.bytes) == 0)
		return;
	fprintf(stderr, "upload: %s %s: the bytes are wrong\n", cell->to_device ? "cuda" : "cpu",
		which == RAW ? "raw" : "wrapped");
	exit(1);
}

/* Microseconds of one turn; nothing of it is under way then. */
static double turn(const struct cell *cell, int which, uint64_t number)
{
	const struct gpu *by = &side[which];
	CUdeviceptr device = kept;
	char *memory = NULL;
	uint64_t begin, took;

	if (cell->source != NEW) {
		memory = cold_next(cell->source == COLD ? &cold : &hot, options.bytes);
		if (cell->source == HOT)
			cold_fill(memory, options.bytes, number + 1);
	}
	begin = figures_now();
	if (cell->each)
		sides_check(by->cuMemAlloc(&device, options.bytes), "cuMemAlloc");
	if (cell->source == NEW) {
		memory = aligned_alloc(64, options.bytes);
		if (!memory)
			exit(1);
	}
	sides_check(cell->to_device ? by->cuMemcpyHtoDAsync(device, memory, options.bytes, NULL)
				    : by->cuMemcpyDtoHAsync(memory, device, options.bytes, NULL),
		    "a copy");
	sides_check(by->cuStreamSynchronize(NULL), "cuStreamSynchronize");
	took = figures_now() - begin;
	if (!number)
		check_bytes(cell, which, device, memory);
	if (cell->each)
		sides_check(by->cuMemFree(device), "cuMemFree");
	if (cell->source == NEW)
		free(memory);
	sides_check(by->context_synchronize(), "cuCtxSynchronize");
	return (double)took / 1000;
}

static void print(const struct cell *cell)
{
	double ratio[PAIRS_MOST];
	struct interval ratios;

	for (uint64_t i = 0; i < options.pairs; i++)
		ratio[i] = cell->us[RAW][i] / cell->us[WRAPPED][i];
	ratios = figures_median(ratio, options.pairs);
	printf("cell %s %s %s %" PRIu64 " %" PRIu64 " %.1f %.1f %.3f %.3f %.3f\n",
	       cell->to_device ? "cuda" : "cpu", cell->each ? "each" : "kept",
	       source_names[cell->source], options.bytes, options.pairs,
	       figures_median(cell->us[RAW], options.pairs).middle,
	       figures_median(cell->us[WRAPPED], options.pairs).middle, ratios.middle, ratios.low,
	       ratios.high);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	uint64_t *number = key == 'p'   ? &options.pairs
			   : key == 'b' ? &options.bytes
			   : key == 'c' ? &options.cold_mib
			   : key == 's' ? &options.seed
					: NULL;
	char *end;

	if (key == ARGP_KEY_ARG || !number)
		return ARGP_ERR_UNKNOWN;
	*number = strtoull(text, &end, 0);
	if (end == text || *end || (key != 's' && !*number) || (key == 'p' && *number > PAIRS_MOST))
		argp_error(state, "%s is no number that can be used", text);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"pairs", 'p', "N", 0, "pairs of turns of each cell (15)", 0},
		{"bytes", 'b', "BYTES", 0, "of a tensor (256 MiB)", 0},
		{"cold", 'c', "MIB", 0,
		 "a cold source was not touched for so many MiB (twice the last-level cache)", 0},
		{"seed", 's', "N", 0, "of the order (1)", 0},
		{0},
	};
	static const struct argp argp = {
		argp_options, parse,
		NULL,         "Tensors moved to the device and back, raw and wrapped by turns.",
		NULL,         NULL,
		NULL};
	uint32_t order[CELLS];
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	status = sides_open();
	if (status)
		return status;
	figures_seed(options.seed);
	sides_prepare();
	/* New memory is new: nothing freed is kept, whatever its size. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	cold_open(&cold, options.cold_mib ? options.cold_mib << 20 : cold_enough(), options.bytes,
		  false);
	cold_open(&hot, 0, options.bytes, MADV_NORMAL);
	other = malloc(options.bytes);
	if (!other)
		return 1;
	sides_check(side[WRAPPED].cuMemAlloc(&kept, options.bytes), "cuMemAlloc");
	/* The first of each warms up; it is written over. */
	for (uint64_t i = 0; i <= options.pairs; i++) {
		figures_shuffle(order, CELLS);
		for (size_t j = 0; j < CELLS; j++) {
			struct cell *cell = &cells[order[j]];
			int first = (int)(figures_draw() & 1);

			for (int k = 0; k < SIDES; k++)
				cell->us[first ^ k][i ? i - 1 : 0] = turn(cell, first ^ k, i);
		}
	}
	printf("seed %" PRIu64 "\ncold_mib %zu\n", options.seed, cold.far >> 20);
	for (size_t i = 0; i < CELLS; i++)
		print(&cells[i]);
	return 0;
}
