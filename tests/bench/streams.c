// SPDX-License-Identifier: MIT
/*
 * What the rewrite of the legacy default stream costs a launch: `streams PART N PAIRS SEED`, by the driver's own address and by the shim's wrapper in turns
 * within one process; started by streams.py under the shim, without it status 77. Or `streams count CELL N`, with the shim and without, for
 * a tool that counts instructions: what runs inside calls_measured() is to be counted.
 *
 * PART
 *	only	launches on the legacy stream of a context in which nothing else is used
 *	idle	launches where the rewrite has nothing to do: on a blocking and a non-blocking stream, before the legacy stream was used and after; then on the
 *		legacy stream in a row, and on the blocking stream while the substitute is in use
 *	dirty	N blocking streams with work: one launch on the legacy stream and the next launch of every blocking stream, over and over ("chain"; of it the
 *		legacy launch alone, "launch"; or the chain less a second launch of every blocking stream, which needs no barrier, "join"); and 64
 *		launches on the legacy stream between ("rows")
 *
 * Why both sides in one process disturb neither the other nor the rewrite: sides.h says what must not be shared, and here nothing is but the
 * device. Each side has a context of its own, made, used and waited for by that side only, with its own legacy stream, blocking streams, module. The
 * driver orders legacy and blocking streams within a context, and the shim keeps its turns, substitute and barriers by context, so a raw launch is
 * past the shim without being past any order that the shim keeps: it is in a context that the shim never sees. Who has its turn makes its
 * context current, untimed, and waits for all that it put there before the other begins, so that no queue is longer for the other's work. A wrapped call
 * finds the wrapped context current always.
 *
 * One thread.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/kernels/kernels.h"
#include "figures.h"
#include "sides.h"

#define DEEP       500 /* launches in a row: fewer than a driver queues */
#define CHAIN      400
#define ROW        64
#define STREAMS    64
#define PAIRS_MOST 4000
#define WARM       3

static struct place {
	CUcontext context;
	CUfunction spin;
	CUstream blocking[STREAMS], non_blocking;
	CUevent event;
} places[SIDES];

static unsigned int streams = 1;
static int64_t own_ns; /* of a burst that times itself */

static void launch(int which, CUstream stream)
{
	sides_launch(which, places[which].spin, 0, stream);
}

static void launch_all(int which)
{
	for (unsigned int i = 0; i < streams; i++)
		launch(which, places[which].blocking[i]);
}

/* A burst returns how many of what its cell is about it made. */
static unsigned int burst_null(int which)
{
	for (int i = 0; i < DEEP; i++)
		launch(which, NULL);
	return DEEP;
}

static unsigned int burst_blocking(int which)
{
	for (int i = 0; i < DEEP; i++)
		launch(which, places[which].blocking[0]);
	return DEEP;
}

static unsigned int burst_non_blocking(int which)
{
	for (int i = 0; i < DEEP; i++)
		launch(which, places[which].non_blocking);
	return DEEP;
}

static unsigned int burst_chain(int which)
{
	unsigned int rounds = CHAIN / (streams + 1);

	for (unsigned int round = 0; round < rounds; round++) {
		launch(which, NULL);
		launch_all(which);
	}
	return rounds;
}

static unsigned int burst_launch(int which)
{
	unsigned int rounds = CHAIN / (streams + 1);
	uint64_t begin;

	for (unsigned int round = 0; round < rounds; round++) {
		begin = figures_now();
		launch(which, NULL);
		own_ns += (int64_t)(figures_now() - begin);
		launch_all(which);
	}
	return rounds;
}

/* The second launch of each stream needs no barrier: it takes off what launches cost by themselves. */
static unsigned int burst_join(int which)
{
	unsigned int rounds = CHAIN / (2 * streams + 1);
	uint64_t begin, middle;

	for (unsigned int round = 0; round < rounds; round++) {
		begin = figures_now();
		launch(which, NULL);
		launch_all(which);
		middle = figures_now();
		launch_all(which);
		own_ns += (int64_t)(middle - begin) - (int64_t)(figures_now() - middle);
	}
	return rounds;
}

static unsigned int burst_rows(int which)
{
	unsigned int rounds = CHAIN / (streams + ROW);

	rounds = rounds ? rounds : 1;
	for (unsigned int round = 0; round < rounds; round++) {
		for (int i = 0; i < ROW; i++)
			launch(which, NULL);
		launch_all(which);
	}
	return rounds;
}

/* Both kinds of streams are used, and by more than launches: the shim need not see those of what it knows. */
static void mix(int which)
{
	launch(which, NULL);
	launch_all(which);
	sides_check(side[which].cuEventRecord(places[which].event, NULL), "cuEventRecord");
	sides_check(side[which].cuEventRecord(places[which].event, places[which].blocking[0]),
		    "cuEventRecord");
}

static void make_dirty(int which)
{
	launch_all(which);
}

static const struct cell_of_part {
	const char *part, *name;
	unsigned int (*burst)(int which);
	void (*before)(int which); /* each burst, untimed; not waited for */
	void (*first)(int which);  /* once, before the cell */
	bool times_itself;
} cells_of_parts[] = {
	{"only", "null_only", burst_null, NULL, NULL, false},
	{"idle", "blocking_alone", burst_blocking, NULL, NULL, false},
	{"idle", "non_blocking_alone", burst_non_blocking, NULL, NULL, false},
	{"idle", "blocking_mixed", burst_blocking, NULL, mix, false},
	{"idle", "non_blocking_mixed", burst_non_blocking, NULL, mix, false},
	{"idle", "null_mixed", burst_null, NULL, mix, false},
	{"idle", "blocking_behind", burst_blocking, NULL, mix, false},
	{"dirty", "chain", burst_chain, make_dirty, mix, false},
	{"dirty", "launch", burst_launch, make_dirty, mix, true},
	{"dirty", "join", burst_join, make_dirty, mix, true},
	{"dirty", "rows", burst_rows, make_dirty, mix, false},
};
#define CELLS (sizeof(cells_of_parts) / sizeof(cells_of_parts[0]))

static void turn_of(int which)
{
	sides_check(side[which].cuCtxSetCurrent(places[which].context), "cuCtxSetCurrent");
}

static void settle(int which)
{
	sides_check(side[which].context_synchronize(), "cuCtxSynchronize");
}

/* No launch on the legacy stream: cells come before it. */
static void prepare(int which)
{
	const struct gpu *by = &side[which];
	struct place *place = &places[which];
	CUctxCreateParams none = {0};
	CUmodule module;

	sides_check(by->cuCtxCreate(&place->context, &none, 0, 0), "cuCtxCreate");
	sides_check(by->cuModuleLoadData(&module, KERNELS_SPIN), "cuModuleLoadData");
	sides_check(by->cuModuleGetFunction(&place->spin, module, "spin"), "cuModuleGetFunction");
	sides_check(by->cuStreamCreate(&place->non_blocking, CU_STREAM_NON_BLOCKING),
		    "cuStreamCreate");
	sides_check(by->cuEventCreate(&place->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	launch(which, place->non_blocking);
	settle(which);
}

/* Made where they are used, so that N streams are all that the driver has to join. */
static void make_blocking(int which)
{
	for (unsigned int i = 0; i < streams; i++) {
		sides_check(side[which].cuStreamCreate(&places[which].blocking[i], 0),
			    "cuStreamCreate");
		launch(which, places[which].blocking[i]);
	}
	settle(which);
}

static double timed(const struct cell_of_part *cell, int which)
{
	uint64_t begin, ns;
	unsigned int count;

	turn_of(which);
	if (cell->before)
		cell->before(which);
	own_ns = 0;
	begin = figures_now();
	count = cell->burst(which);
	ns = figures_now() - begin;
	settle(which);
	return (cell->times_itself ? (double)own_ns : (double)ns) / count;
}

static void run_cell(const struct cell_of_part *cell, unsigned int pairs)
{
	static double ns[SIDES][PAIRS_MOST], difference[PAIRS_MOST];
	struct interval of;

	for (int which = 0; which < SIDES && cell->first; which++) {
		turn_of(which);
		cell->first(which);
		settle(which);
	}
	for (unsigned int i = 0; i < pairs + WARM; i++) {
		unsigned int at = i < WARM ? 0 : i - WARM;
		int first = (int)(figures_draw() & 1);

		ns[first][at] = timed(cell, first);
		ns[!first][at] = timed(cell, !first);
		difference[at] = ns[WRAPPED][at] - ns[RAW][at];
	}
	of = figures_median(difference, pairs);
	printf("cell %s %u raw %.1f wrapped %.1f difference %.1f low %.1f high %.1f pairs %u\n",
	       cell->name, streams, figures_median(ns[RAW], pairs).middle,
	       figures_median(ns[WRAPPED], pairs).middle, of.middle, of.low, of.high, pairs);
	fflush(stdout);
}

/* The driver's own threads exist by now and are left alone. */
static void stay(void)
{
	int processor = sched_getcpu();
	cpu_set_t set;

	if (processor < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)processor, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static int measure(const char *part, unsigned int pairs)
{
	bool is_only = !strcmp(part, "only"), found = false;
	int status = sides_open();

	if (status)
		return status;
	sides_check(side[WRAPPED].cuInit(0), "cuInit");
	for (int which = 0; which < SIDES; which++) {
		prepare(which);
		if (!is_only)
			make_blocking(which);
	}
	stay();
	for (size_t i = 0; i < CELLS; i++) {
		if (strcmp(cells_of_parts[i].part, part) != 0)
			continue;
		found = true;
		run_cell(&cells_of_parts[i], pairs);
	}
	return found ? 0 : 2;
}

/* Known to the counting tool by its name, so nothing of it may be elsewhere. */
BENCH_ALONE unsigned int calls_measured(unsigned int (*burst)(int which));

unsigned int calls_measured(unsigned int (*burst)(int which))
{
	return burst(WRAPPED);
}

static int count(const char *name)
{
	const struct cell_of_part *cell = NULL;

	for (size_t i = 0; i < CELLS; i++)
		if (!strcmp(cells_of_parts[i].name, name))
			cell = &cells_of_parts[i];
	if (!cell)
		return 2;
	if (gpu_open(NULL))
		return SIDES_NO_SHIM;
	side[WRAPPED] = gpu;
	sides_check(gpu.cuInit(0), "cuInit");
	prepare(WRAPPED);
	if (strcmp(cell->part, "only") != 0)
		make_blocking(WRAPPED);
	if (cell->first)
		cell->first(WRAPPED);
	settle(WRAPPED);
	for (int i = 0; i < WARM; i++) {
		cell->burst(WRAPPED);
		settle(WRAPPED);
	}
	if (cell->before)
		cell->before(WRAPPED);
	printf("%u\n", calls_measured(cell->burst));
	settle(WRAPPED);
	return 0;
}

static unsigned int number(const char *text, unsigned int most)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end == text || *end || !value || value > most) {
		fprintf(stderr, "streams: %s: a number from 1 to %u is wanted\n", text, most);
		exit(2);
	}
	return (unsigned int)value;
}

int main(int argc, char **argv)
{
	int status = 2;

	if (argc == 4 && !strcmp(argv[1], "count")) {
		streams = number(argv[3], STREAMS);
		status = count(argv[2]);
	} else if (argc == 5) {
		streams = number(argv[2], STREAMS);
		figures_seed(number(argv[4], UINT32_MAX));
		status = measure(argv[1], number(argv[3], PAIRS_MOST));
	}
	if (status == 2)
		fprintf(stderr,
			"usage: streams only|idle|dirty N PAIRS SEED, or streams count CELL N\n");
	return status;
}
