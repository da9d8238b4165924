// SPDX-License-Identifier: MIT
/*
 * What copies of ordinary memory take, by the driver's own address and by the shim's wrapper in turns within one process: `copies [OPTION...]`, started
 * by copies.py under the shim; without it there is nothing to compare: status 77. Why the two sides do not disturb each other: sides.h.
 *
 * A cell is a direction, a form (synchronous on the legacy stream, asynchronous on a blocking stream), a state and a size:
 *	idle	one copy on an idle device, after a wait
 *	row	sixteen of them one behind the other, for each: a program that copies in a loop (up to 1 MiB)
 *	stream	one copy behind a kernel of 2 ms on its own stream
 *	device	one copy beside such a kernel on a non-blocking stream of its own
 * All cells are gone through in a new random order a few times; each time pairs of turns are made, which of a pair comes first is
 * drawn. Of each cell: the medians of both sides, and the median ratio and difference within a pair, with their intervals (figures.h),
 * of the time until the call returned and until its stream was done. --control: both sides by the driver's address, to see
 * what the method itself makes up. --cold: the host's memory is in no cache (cold.h).
 *
 * Prints a line a cell and figure; the bytes of each cell's first copies are checked, by either side.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cold.h"
#include "figures.h"
#include "sides.h"

#define BUSY_NS      2000000
#define ROW          16
#define ROW_LARGEST  ((size_t)1 << 20)
#define PAIRS_MAX    4000
#define ROUNDS_MAX   1000 /* so that each adds to the pairs */
#define PAIRS_MIN    2    /* at each visit */
#define CHECKED_MOST ((size_t)64 << 20)

enum state { IDLE, IN_ROW, BUSY_STREAM, BUSY_DEVICE, STATES };
enum figure { CALL, WHOLE, FIGURES };

static const char *const state_names[] = {"idle", "row", "stream", "device"};
static const char *const figure_names[] = {"call", "whole"};
static const size_t sizes[] = {1,       64,      4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20,
			       2 << 20, 4 << 20, 8 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct cell {
	bool to_device, async, checked;
	enum state state;
	size_t bytes;
	unsigned int pairs;
	double *us[SIDES][FIGURES];
} cells[SIZES * STATES * 4];
static unsigned int cell_count;

static struct {
	uint64_t milliseconds, rounds, largest, cold_mib, seed;
	bool control;
} options = {.milliseconds = 300, .rounds = 4, .largest = (uint64_t)1 << 30, .seed = 1};

static CUfunction spin;
static struct cold host;
static char *other;
static struct {
	const struct gpu *by;
	CUstream stream, elsewhere;
} who[SIDES];
/* For both, since two places of the same memory differ by up to a fifth. */
static CUdeviceptr device;
/* Copies that the wrapper made on an idle device, for a look at whether large ones were staged. */
static uint64_t idle_copies_of_4m;

static void copy(const struct cell *cell, int which, char *memory)
{
	const struct gpu *by = who[which].by;
	CUstream stream = who[which].stream;
	CUresult result;

	if (cell->to_device)
		result = cell->async ? by->cuMemcpyHtoDAsync(device, memory, cell->bytes, stream)
				     : by->cuMemcpyHtoD(device, memory, cell->bytes);
	else
		result = cell->async ? by->cuMemcpyDtoHAsync(memory, device, cell->bytes, stream)
				     : by->cuMemcpyDtoH(memory, device, cell->bytes);
	sides_check(result, "a copy");
}

static void launch(int which, CUstream stream)
{
	sides_launch(options.control ? RAW : which, spin, BUSY_NS, stream);
}

/* One turn of a side. Returns the memory that it used last; nothing of it is under way then. */
static char *turn(struct cell *cell, int which, unsigned int pair)
{
	const struct gpu *by = who[which].by;
	CUstream on = cell->async ? who[which].stream : NULL;
	unsigned int count = cell->state == IN_ROW ? ROW : 1;
	char *memory[ROW];
	uint64_t begin, returned, done;

	for (unsigned int i = 0; i < count; i++)
		memory[i] = cold_next(&host, cell->bytes);
	if (cell->state == BUSY_STREAM)
		launch(which, on);
	else if (cell->state == BUSY_DEVICE)
		launch(which, who[which].elsewhere);
	begin = figures_now();
	for (unsigned int i = 0; i < count; i++)
		copy(cell, which, memory[i]);
	returned = figures_now();
	/* By the driver's address, so that no second wrapper is timed; then by the side's own, so that the shim knows. */
	sides_check(side[RAW].cuStreamSynchronize(on), "cuStreamSynchronize");
	done = figures_now();
	sides_check(by->cuStreamSynchronize(on), "cuStreamSynchronize");
	sides_check(by->context_synchronize(), "cuCtxSynchronize");
	cell->us[which][CALL][pair] = (double)(returned - begin) / 1000 / count;
	cell->us[which][WHOLE][pair] = (double)(done - begin) / 1000 / count;
	if (which == WRAPPED && cell->bytes >= (size_t)4 << 20 && cell->state == IDLE)
		idle_copies_of_4m++;
	return memory[count - 1];
}

static void check_bytes(struct cell *cell, int which)
{
	char *memory;
	bool same;

	/* What the device has before, so that a copy that did nothing is seen. */
	cold_fill(other, cell->bytes, cell->bytes + 7 * (size_t)which);
	sides_check(side[RAW].cuMemcpyHtoD(device, other, cell->bytes), "cuMemcpyHtoD");
	sides_check(side[RAW].context_synchronize(), "cuCtxSynchronize");
	memory = turn(cell, which, 0);
	if (cell->to_device) {
		sides_check(side[RAW].cuMemcpyDtoH(other, device, cell->bytes), "cuMemcpyDtoH");
		sides_check(side[RAW].context_synchronize(), "cuCtxSynchronize");
	}
	same = memcmp(memory, other, cell->bytes) == 0;
	/* The device has something else than the host for the next cell. */
	cold_fill(memory, cell->bytes, 3);
	if (same)
		return;
	fprintf(stderr, "copies: %zu bytes %s the device are wrong\n", cell->bytes,
		cell->to_device ? "to" : "from");
	exit(1);
}

static void visit(struct cell *cell)
{
	uint64_t budget = options.milliseconds * 1000000 / options.rounds, begin;
	unsigned int pairs = 0;
	int first;

	if (!cell->checked &&
	    (cell->bytes <= CHECKED_MOST || (cell->state == IDLE && !cell->async)))
		for (int which = 0; which < SIDES; which++)
			check_bytes(cell, which);
	cell->checked = true;
	/* One of each to warm up; it is written over. */
	turn(cell, RAW, cell->pairs);
	turn(cell, WRAPPED, cell->pairs);
	begin = figures_now();
	do {
		first = (int)(figures_draw() & 1);
		turn(cell, first, cell->pairs);
		turn(cell, !first, cell->pairs);
		cell->pairs++;
		pairs++;
	} while (pairs < PAIRS_MIN ||
		 (pairs < PAIRS_MAX / options.rounds && figures_now() - begin < budget));
}

static void print(const struct cell *cell, enum figure figure)
{
	static double ratio[PAIRS_MAX], difference[PAIRS_MAX];
	const double *raw = cell->us[RAW][figure], *wrapped = cell->us[WRAPPED][figure];
	struct interval ratios, differences;

	for (unsigned int i = 0; i < cell->pairs; i++) {
		ratio[i] = raw[i] > 0 ? wrapped[i] / raw[i] : 1;
		difference[i] = wrapped[i] - raw[i];
	}
	ratios = figures_median(ratio, cell->pairs);
	differences = figures_median(difference, cell->pairs);
	printf("cell %s %s %s %zu %s %u %.3f %.3f %.4f %.4f %.4f %.4f %.4f %.4f\n",
	       cell->to_device ? "to" : "from", cell->async ? "async" : "sync",
	       state_names[cell->state], cell->bytes, figure_names[figure], cell->pairs,
	       figures_median(raw, cell->pairs).middle, figures_median(wrapped, cell->pairs).middle,
	       ratios.middle, ratios.low, ratios.high, differences.middle, differences.low,
	       differences.high);
}

static void make_cells(void)
{
	for (size_t size = 0; size < SIZES && sizes[size] <= options.largest; size++)
		for (int way = 0; way < 4 * STATES; way++) {
			struct cell *cell = &cells[cell_count];

			*cell = (struct cell){.to_device = way & 1,
					      .async = way & 2,
					      .state = (enum state)(way >> 2),
					      .bytes = sizes[size]};
			if (cell->state == IN_ROW && cell->bytes > ROW_LARGEST)
				continue;
			for (int i = 0; i < SIDES * FIGURES; i++) {
				cell->us[i / FIGURES][i % FIGURES] =
					calloc(PAIRS_MAX + 1, sizeof(double));
				if (!cell->us[i / FIGURES][i % FIGURES])
					exit(1);
			}
			cell_count++;
		}
}

static void prepare(void)
{
	spin = sides_prepare();
	for (int which = 0; which < SIDES; which++) {
		const struct gpu *by = &side[options.control ? RAW : which];

		who[which].by = by;
		sides_check(by->cuStreamCreate(&who[which].stream, 0), "cuStreamCreate");
		sides_check(by->cuStreamCreate(&who[which].elsewhere, CU_STREAM_NON_BLOCKING),
			    "cuStreamCreate");
	}
	sides_check(side[options.control ? RAW : WRAPPED].cuMemAlloc(&device, options.largest),
		    "cuMemAlloc");
	cold_open(&host, options.cold_mib << 20, options.largest, MADV_NORMAL);
	other = malloc(options.largest);
	if (!other)
		exit(1);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	uint64_t *number = key == 'm'   ? &options.milliseconds
			   : key == 'r' ? &options.rounds
			   : key == 'l' ? &options.largest
			   : key == 'c' ? &options.cold_mib
			   : key == 's' ? &options.seed
					: NULL;
	char *end;

	if (key == 'x')
		options.control = true;
	if (key == 'x' || key == ARGP_KEY_INIT || key == ARGP_KEY_END || key == ARGP_KEY_FINI ||
	    key == ARGP_KEY_SUCCESS)
		return 0;
	if (!number)
		return ARGP_ERR_UNKNOWN;
	if (key == 'c' && !strcmp(text, "auto")) {
		options.cold_mib = cold_enough() >> 20;
		return 0;
	}
	*number = strtoull(text, &end, 0);
	if (end == text || *end || (key != 'c' && key != 's' && !*number) ||
	    (key == 'r' && *number > ROUNDS_MAX))
		argp_error(state, "%s is no number that can be used", text);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"milliseconds", 'm', "N", 0, "a cell, of all rounds together (300)", 0},
		{"rounds", 'r', "N", 0, "times that all cells are gone through (4)", 0},
		{"largest", 'l', "BYTES", 0, "largest copy (1 GiB)", 0},
		{"cold", 'c', "MIB", 0,
		 "use a part of the host's memory again only after so many MiB; 0: warm; auto: "
		 "cold.h (0)",
		 0},
		{"seed", 's', "N", 0, "of the order (1)", 0},
		{"control", 'x', NULL, 0, "both sides by the driver's own address", 0},
		{0},
	};
	static const struct argp argp = {
		argp_options, parse, NULL, "Copies of ordinary memory by turns, raw and wrapped.",
		NULL,         NULL,  NULL};
	uint32_t order[SIZES * STATES * 4];
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	status = sides_open();
	if (status)
		return status;
	figures_seed(options.seed);
	prepare();
	make_cells();
	for (uint64_t round = 0; round < options.rounds; round++) {
		figures_shuffle(order, cell_count);
		for (unsigned int i = 0; i < cell_count; i++)
			visit(&cells[order[i]]);
	}
	printf("seed %" PRIu64 "\ncold_mib %" PRIu64 "\nidle_copies_of_4m %" PRIu64 "\n",
	       options.seed, options.cold_mib, idle_copies_of_4m);
	for (unsigned int i = 0; i < cell_count; i++)
		for (int figure = 0; figure < FIGURES; figure++)
			print(&cells[i], (enum figure)figure);
	return 0;
}
