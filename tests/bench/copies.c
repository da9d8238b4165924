// SPDX-License-Identifier: MIT
/*
 * What copies of ordinary memory take, by the driver's own address and by the shim's wrapper in turns within one process: `copies [OPTION...]`, started
 * by copies.py under the shim; without it there is nothing to compare: status 77. Why the two sides do not disturb each other: sides.h.
 *
 * A cell is a direction, a form (synchronous on the legacy stream, asynchronous on a blocking stream; the same in two and three dimensions, shaped.h),
 * a state and a size:
 *	idle	one copy on an idle device, after a wait
 *	row	sixteen of them one behind the other, for each: a program that copies in a loop (up to 1 MiB)
 *	stream	one copy behind a kernel of 2 ms on its own stream
 *	device	one copy beside such a kernel on a non-blocking stream of its own
 * Sizes are the powers of two, and some beside them where copies go another way. Copies of more dimensions have some of them, idle and behind a kernel.
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
#include "shaped.h"
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
/* Besides the powers of two: odd ones, and those where the driver's way or ours changes. */
static const size_t more_sizes[] = {
	3,       1000,           (4 << 10) + 1,  (64 << 10) + 1, (768 << 10) + 3, (2 << 20) + 1,
	3 << 20, (16 << 20) + 1, (100 << 20) + 7};
static const size_t few_sizes[] = {1, 64, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20};
static const size_t shaped_sizes[] = {SHAPED_LEAST, 64 << 10, 256 << 10, 1 << 20,
				      4 << 20,      16 << 20, 64 << 20,  256 << 20};
#define COUNT(sizes) (sizeof(sizes) / sizeof((sizes)[0]))
#define CELLS_MAX    1024

static struct cell {
	bool to_device, async, checked;
	unsigned int dimensions;
	enum state state;
	size_t bytes, span; /* of the host's memory */
	unsigned int pairs;
	double *us[SIDES][FIGURES];
} cells[CELLS_MAX];
static unsigned int cell_count;

static struct {
	uint64_t milliseconds, rounds, largest, cold_mib, seed;
	bool control, few;
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

static struct shaped shape_of(const struct cell *cell)
{
	return (struct shaped){cell->dimensions, cell->to_device, cell->bytes};
}

static void copy(const struct cell *cell, int which, char *memory)
{
	const struct shaped shaped = shape_of(cell);
	const struct gpu *by = who[which].by;
	CUstream stream = who[which].stream;
	CUresult result;

	if (cell->dimensions > 1) {
		shaped_copy(which, &shaped, cell->async, memory, device, stream);
		return;
	}
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
		memory[i] = cold_next(&host, cell->span);
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

/* By the driver, between `other` and the device, in the cell's shape. */
static void move_other(const struct cell *cell, bool to_device)
{
	struct shaped shaped = shape_of(cell);

	shaped.to_device = to_device;
	if (cell->dimensions > 1)
		shaped_copy(RAW, &shaped, false, other, device, NULL);
	else if (to_device)
		sides_check(side[RAW].cuMemcpyHtoD(device, other, cell->bytes), "cuMemcpyHtoD");
	else
		sides_check(side[RAW].cuMemcpyDtoH(other, device, cell->bytes), "cuMemcpyDtoH");
	sides_check(side[RAW].context_synchronize(), "cuCtxSynchronize");
}

static void check_bytes(struct cell *cell, int which)
{
	const struct shaped shaped = shape_of(cell);
	char *memory;
	bool same;

	/* What the device has before, so that a copy that did nothing is seen. */
	cold_fill(other, cell->span, cell->bytes + 7 * (size_t)which);
	move_other(cell, true);
	memory = turn(cell, which, 0);
	if (cell->to_device)
		move_other(cell, false);
	same = cell->dimensions > 1 ? shaped_same(&shaped, memory, other)
				    : memcmp(memory, other, cell->bytes) == 0;
	/* The device has something else than the host for the next cell. */
	cold_fill(memory, cell->span, 3);
	if (same)
		return;
	fprintf(stderr, "copies: %zu bytes %s the device, %u-D, are wrong\n", cell->bytes,
		cell->to_device ? "to" : "from", cell->dimensions);
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
	printf("cell %s %s%s %s %zu %s %u %.3f %.3f %.4f %.4f %.4f %.4f %.4f %.4f\n",
	       cell->to_device ? "to" : "from", cell->async ? "async" : "sync",
	       cell->dimensions == 3   ? "-3d"
	       : cell->dimensions == 2 ? "-2d"
				       : "",
	       state_names[cell->state], cell->bytes, figure_names[figure], cell->pairs,
	       figures_median(raw, cell->pairs).middle, figures_median(wrapped, cell->pairs).middle,
	       ratios.middle, ratios.low, ratios.high, differences.middle, differences.low,
	       differences.high);
}

static void make_cell(const struct cell *wanted)
{
	struct cell *cell = &cells[cell_count];

	if (cell_count == CELLS_MAX)
		exit(1);
	*cell = *wanted;
	for (int i = 0; i < SIDES * FIGURES; i++) {
		cell->us[i / FIGURES][i % FIGURES] = calloc(PAIRS_MAX + 1, sizeof(double));
		if (!cell->us[i / FIGURES][i % FIGURES])
			exit(1);
	}
	cell_count++;
}

static void make_cells_of(size_t bytes)
{
	for (int way = 0; way < 4 * STATES && bytes <= options.largest; way++) {
		const struct cell cell = {.to_device = way & 1,
					  .async = way & 2,
					  .dimensions = 1,
					  .state = (enum state)(way >> 2),
					  .bytes = bytes,
					  .span = bytes};

		if (cell.state != IN_ROW || bytes <= ROW_LARGEST)
			make_cell(&cell);
	}
}

static void make_shaped_cells_of(size_t bytes)
{
	for (int way = 0; way < 16; way++) {
		struct cell cell = {.to_device = way & 1,
				    .async = way & 2,
				    .dimensions = way & 4 ? 3 : 2,
				    .state = way & 8 ? BUSY_STREAM : IDLE,
				    .bytes = bytes};
		const struct shaped shaped = shape_of(&cell);

		cell.span = shaped_span(&shaped);
		if (cell.span <= options.largest)
			make_cell(&cell);
	}
}

static void make_cells(void)
{
	for (size_t i = 0; options.few && i < COUNT(few_sizes); i++)
		make_cells_of(few_sizes[i]);
	for (size_t bytes = 1; !options.few && bytes <= (size_t)1 << 30; bytes *= 2)
		make_cells_of(bytes);
	for (size_t i = 0; !options.few && i < COUNT(more_sizes); i++)
		make_cells_of(more_sizes[i]);
	for (size_t i = 0; i < COUNT(shaped_sizes); i++)
		make_shaped_cells_of(shaped_sizes[i]);
}

static void prepare(void)
{
	spin = sides_prepare();
	shaped_open(options.control);
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
	if (key == 'f')
		options.few = true;
	if (key == 'x' || key == 'f' || key == ARGP_KEY_INIT || key == ARGP_KEY_END ||
	    key == ARGP_KEY_FINI || key == ARGP_KEY_SUCCESS)
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
		{"few", 'f', NULL, 0, "few sizes", 0},
		{0},
	};
	static const struct argp argp = {
		argp_options, parse, NULL, "Copies of ordinary memory by turns, raw and wrapped.",
		NULL,         NULL,  NULL};
	uint32_t order[CELLS_MAX];
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
