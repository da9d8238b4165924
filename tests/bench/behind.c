// SPDX-License-Identifier: MIT
/*
 * Calls that mode fix answers while a kernel runs, and where their time goes: `behind order|free [OPTION...]`, started by behind.py under the
 * shim; without it status 77. Many turns of each cell in one process, all cells of a round in a new random order; why the driver's own
 * addresses may be called between: sides.h.
 *
 * order	synchronous copies to the device behind a kernel of 2 ms on the legacy stream (relax=order), and by the driver's address the
 *		calls that a staged copy is made of, at the same place: what is left of the whole is the shim's own
 * free		frees of pinned and device memory beside a kernel of 5 ms on another stream, and the calls they make
 *
 * A call's time depends on what is in the caches, which a launch and the wait before it have thrown out; so each is timed
 *	cold	as the first call behind the launch
 *	second	behind the launch and one other call of the same side (cuCtxGetCurrent)
 *	later	200 us behind the launch, in which the processor did nothing but look at the clock
 *	evicted	behind the launch and a walk through 8 MiB, more than a core's own caches: the worst that a program can do to it
 *	row	as one of 32 in a row behind the launch, the first left out
 *	idle	without a kernel, behind a wait: the same call where nothing is to be left out
 *
 * Prints a line a cell: its name, pattern, times, ns of the first, the least, the median, the 90th hundredth and the greatest. "clock" is what
 * reading the clock twice takes, which is in each figure.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figures.h"
#include "sides.h"

#define ROW          32
#define LATER_NS     200000
#define EVICTED      ((size_t)8 << 20)
#define LINE         64
#define BYTES_MOST   ((size_t)4 << 20)
#define SAMPLES_MOST 20000

enum pattern { COLD, SECOND, LATER, EVICTED_CACHES, IN_ROW, IDLE, PATTERNS };
static const char *const pattern_names[] = {"cold", "second", "later", "evicted", "row", "idle"};

static struct {
	uint64_t rounds, kernel_us, seed, raw_rounds;
} options = {.rounds = 200, .seed = 1, .raw_rounds = 5};

static CUfunction spin;
static CUstream elsewhere[SIDES], worker[SIDES];
static CUdeviceptr device[SIDES];
static CUevent event;
static void *pinned; /* the raw side's */
static char *pageable, *walked;
static bool frees;

static CUresult (*get_attributes)(unsigned int, CUpointer_attribute *, void **, CUdeviceptr);
static CUresult (*get_flags)(unsigned int *);
static CUresult (*get_id)(CUcontext, unsigned long long *);

/* What a turn works with; a block for each call of a row. */
static struct {
	void *host[ROW];
	CUdeviceptr device[ROW];
} blocks;

struct call {
	const char *name;
	int which;  /* the side that makes it, and launches and waits around it */
	bool waits; /* for the kernel: few rounds, cold only */
	size_t bytes;
	void (*prepare)(const struct call *call, unsigned int at);
	CUresult (*make)(const struct call *call, unsigned int at);
	void (*tidy)(const struct call *call, unsigned int at);
};

static CUresult nothing(const struct call *call, unsigned int at)
{
	return CUDA_SUCCESS;
}

static CUresult copy(const struct call *call, unsigned int at)
{
	return side[call->which].cuMemcpyHtoD(device[call->which], pageable, call->bytes);
}

static CUresult copy_async(const struct call *call, unsigned int at)
{
	return side[call->which].cuMemcpyHtoDAsync(device[call->which], pageable, call->bytes,
						   NULL);
}

static CUresult copy_pinned(const struct call *call, unsigned int at)
{
	return side[call->which].cuMemcpyHtoDAsync(device[call->which], pinned, call->bytes, NULL);
}

static CUresult exchange_mode(const struct call *call, unsigned int at)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult result = side[call->which].cuThreadExchangeStreamCaptureMode(&mode);

	return result ? result : side[call->which].cuThreadExchangeStreamCaptureMode(&mode);
}

static CUresult ask_pageable(const struct call *call, unsigned int at)
{
	unsigned int type;

	/* An error is the answer that means pageable. */
	side[call->which].cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						(uintptr_t)pageable);
	return CUDA_SUCCESS;
}

/* The six that a staged copy asks for. */
static CUresult ask_device(const struct call *call, unsigned int at)
{
	unsigned int type, managed;
	int ordinal, sync_memops;
	CUdeviceptr start;
	size_t size;
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_SYNC_MEMOPS};
	void *values[] = {&type, &managed, &ordinal, &start, &size, &sync_memops};

	return get_attributes(sizeof(attributes) / sizeof(attributes[0]), attributes, values,
			      device[call->which]);
}

static CUresult ask_flags(const struct call *call, unsigned int at)
{
	unsigned int flags;

	return get_flags(&flags);
}

static CUresult ask_id(const struct call *call, unsigned int at)
{
	unsigned long long id;

	return get_id(NULL, &id);
}

static CUresult record(const struct call *call, unsigned int at)
{
	return side[call->which].cuEventRecord(event, NULL);
}

static CUresult query(const struct call *call, unsigned int at)
{
	CUresult result = side[call->which].cuEventQuery(event);

	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

/* Used by the device before, as blocks are. */
static void make_host(const struct call *call, unsigned int at)
{
	const struct gpu *by = &side[call->which];

	sides_check(by->cuMemHostAlloc(&blocks.host[at], call->bytes, 0), "cuMemHostAlloc");
	memset(blocks.host[at], 1, LINE);
	sides_check(by->cuMemcpyHtoDAsync(device[call->which], blocks.host[at], LINE,
					  worker[call->which]),
		    "cuMemcpyHtoDAsync");
}

static CUresult free_host(const struct call *call, unsigned int at)
{
	return side[call->which].cuMemFreeHost(blocks.host[at]);
}

static void make_device(const struct call *call, unsigned int at)
{
	const struct gpu *by = &side[call->which];

	sides_check(by->cuMemAlloc(&blocks.device[at], call->bytes), "cuMemAlloc");
	sides_check(by->cuMemsetD8Async(blocks.device[at], 1, LINE, worker[call->which]),
		    "cuMemsetD8Async");
}

static CUresult free_device(const struct call *call, unsigned int at)
{
	return side[call->which].cuMemFree(blocks.device[at]);
}

static CUresult alloc_host(const struct call *call, unsigned int at)
{
	return side[call->which].cuMemHostAlloc(&blocks.host[at], call->bytes, 0);
}

static void free_host_after(const struct call *call, unsigned int at)
{
	sides_check(free_host(call, at), "cuMemFreeHost");
}

static const struct call order_calls[] = {
	{"clock", WRAPPED, false, 0, NULL, nothing, NULL},
	{"copy_1", WRAPPED, false, 1, NULL, copy, NULL},
	{"copy_4k", WRAPPED, false, 4 << 10, NULL, copy, NULL},
	{"copy_64k", WRAPPED, false, 64 << 10, NULL, copy, NULL},
	{"copy_1m", WRAPPED, false, 1 << 20, NULL, copy, NULL},
	{"raw_copy_4k", RAW, true, 4 << 10, NULL, copy, NULL},
	{"raw_copy_async_4k", RAW, false, 4 << 10, NULL, copy_async, NULL},
	{"raw_copy_pinned_4k", RAW, false, 4 << 10, NULL, copy_pinned, NULL},
	{"raw_exchange_mode_twice", RAW, false, 0, NULL, exchange_mode, NULL},
	{"raw_ask_pageable", RAW, false, 0, NULL, ask_pageable, NULL},
	{"raw_ask_device", RAW, false, 0, NULL, ask_device, NULL},
	{"raw_ask_flags", RAW, false, 0, NULL, ask_flags, NULL},
	{"raw_event_record", RAW, false, 0, NULL, record, NULL},
	{"raw_event_query", RAW, false, 0, NULL, query, NULL},
};

static const struct call free_calls[] = {
	{"clock", WRAPPED, false, 0, NULL, nothing, NULL},
	{"free_host_4k", WRAPPED, false, 4 << 10, make_host, free_host, NULL},
	{"free_host_1m", WRAPPED, false, 1 << 20, make_host, free_host, NULL},
	{"alloc_host_4k", WRAPPED, false, 4 << 10, NULL, alloc_host, free_host_after},
	{"free_device_4k", WRAPPED, false, 4 << 10, make_device, free_device, NULL},
	{"free_device_1m", WRAPPED, false, 1 << 20, make_device, free_device, NULL},
	{"raw_free_host_4k", RAW, true, 4 << 10, make_host, free_host, NULL},
	{"raw_free_device_4k", RAW, true, 4 << 10, make_device, free_device, NULL},
	{"raw_get_id", RAW, false, 0, NULL, ask_id, NULL},
	{"raw_exchange_mode_twice", RAW, false, 0, NULL, exchange_mode, NULL},
	{"raw_event_query", RAW, false, 0, NULL, query, NULL},
};

#define CALLS_MOST 16

static struct cell {
	const struct call *call;
	enum pattern pattern;
	size_t count;
	double first, *ns;
} cells[CALLS_MOST * PATTERNS];
static unsigned int cell_count;

static void wait_all(int which)
{
	sides_check(side[which].cuStreamSynchronize(NULL), "cuStreamSynchronize");
	if (frees) {
		sides_check(side[which].cuStreamSynchronize(worker[which]), "cuStreamSynchronize");
		sides_check(side[which].cuStreamSynchronize(elsewhere[which]),
			    "cuStreamSynchronize");
	}
	sides_check(side[which].context_synchronize(), "cuCtxSynchronize");
}

static void before(const struct cell *cell)
{
	int which = cell->call->which;
	uint64_t begin;
	CUcontext context;

	if (cell->pattern != IDLE)
		sides_launch(which, spin, options.kernel_us * 1000,
			     frees ? elsewhere[which] : NULL);
	begin = figures_now();
	switch (cell->pattern) {
	case SECOND:
		sides_check(side[which].cuCtxGetCurrent(&context), "cuCtxGetCurrent");
		break;
	case LATER:
		while (figures_now() - begin < LATER_NS)
			;
		break;
	case EVICTED_CACHES:
		for (size_t at = 0; at < EVICTED; at += LINE)
			walked[at]++;
		break;
	default:
		break;
	}
}

static void turn(struct cell *cell)
{
	const struct call *call = cell->call;
	unsigned int count = cell->pattern == IN_ROW ? ROW : 1;
	double took[ROW];

	for (unsigned int i = 0; i < count && call->prepare; i++)
		call->prepare(call, i);
	wait_all(call->which);
	before(cell);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t begin = figures_now();
		CUresult result = call->make(call, i);

		took[i] = (double)(figures_now() - begin);
		sides_check(result, call->name);
	}
	wait_all(call->which);
	for (unsigned int i = 0; i < count && call->tidy; i++)
		call->tidy(call, i);
	for (unsigned int i = cell->pattern == IN_ROW; i < count && cell->count < SAMPLES_MOST;
	     i++) {
		if (!cell->count)
			cell->first = took[i];
		cell->ns[cell->count++] = took[i];
	}
}

static void make_cells(const struct call *calls, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int pattern = 0; pattern < PATTERNS; pattern++) {
			struct cell *cell = &cells[cell_count];

			if (calls[i].waits && pattern != COLD)
				continue;
			*cell = (struct cell){.call = &calls[i], .pattern = (enum pattern)pattern};
			cell->ns = calloc(SAMPLES_MOST, sizeof(double));
			if (!cell->ns)
				exit(1);
			cell_count++;
		}
}

/* With relax=order no stream outside legacy order may be there, nor pinned memory that the shim has seen. */
static void prepare(void)
{
	spin = sides_prepare();
	for (int which = 0; which < SIDES; which++) {
		sides_check(side[which].cuMemAlloc(&device[which], BYTES_MOST), "cuMemAlloc");
		if (!frees)
			continue;
		sides_check(side[which].cuStreamCreate(&elsewhere[which], CU_STREAM_NON_BLOCKING),
			    "cuStreamCreate");
		sides_check(side[which].cuStreamCreate(&worker[which], CU_STREAM_NON_BLOCKING),
			    "cuStreamCreate");
	}
	sides_check(side[RAW].cuMemHostAlloc(&pinned, BYTES_MOST, 0), "cuMemHostAlloc");
	sides_check(side[RAW].cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	sides_check(side[RAW].cuEventRecord(event, NULL), "cuEventRecord");
	sides_check(side[RAW].context_synchronize(), "cuCtxSynchronize");
	get_attributes = sides_raw_symbol("cuPointerGetAttributes");
	get_flags = sides_raw_symbol("cuCtxGetFlags");
	get_id = sides_raw_symbol("cuCtxGetId");
	pageable = calloc(1, BYTES_MOST);
	walked = calloc(1, EVICTED);
	if (!pageable || !walked)
		exit(1);
	memset(pageable, 1, BYTES_MOST);
}

static void print(struct cell *cell)
{
	double median = figures_quantile(cell->ns, cell->count, 0.5);

	printf("cell %s %s %zu %.0f %.0f %.0f %.0f %.0f\n", cell->call->name,
	       pattern_names[cell->pattern], cell->count, cell->first,
	       figures_quantile(cell->ns, cell->count, 0), median,
	       figures_quantile(cell->ns, cell->count, 0.9),
	       figures_quantile(cell->ns, cell->count, 1));
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	uint64_t *number = key == 'r'   ? &options.rounds
			   : key == 'k' ? &options.kernel_us
			   : key == 's' ? &options.seed
					: NULL;
	char *end;

	if (key == ARGP_KEY_ARG && !state->arg_num &&
	    (!strcmp(text, "order") || !strcmp(text, "free"))) {
		frees = !strcmp(text, "free");
		return 0;
	}
	if (key == ARGP_KEY_NO_ARGS)
		argp_usage(state);
	if (!number)
		return ARGP_ERR_UNKNOWN;
	*number = strtoull(text, &end, 0);
	if (end == text || *end || (key != 's' && !*number))
		argp_error(state, "%s is no number that can be used", text);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"rounds", 'r', "N", 0, "turns of each cell (200)", 0},
		{"kernel-us", 'k', "N", 0, "length of the kernel (order: 2000, free: 5000)", 0},
		{"seed", 's', "N", 0, "of the order (1)", 0},
		{0},
	};
	static const struct argp argp = {
		argp_options, parse, "order|free", "Calls of mode fix while a kernel runs.",
		NULL,         NULL,  NULL};
	uint32_t order[CALLS_MOST * PATTERNS];
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (!options.kernel_us)
		options.kernel_us = frees ? 5000 : 2000;
	status = sides_open();
	if (status)
		return status;
	figures_seed(options.seed);
	prepare();
	if (frees)
		make_cells(free_calls, sizeof(free_calls) / sizeof(free_calls[0]));
	else
		make_cells(order_calls, sizeof(order_calls) / sizeof(order_calls[0]));
	for (uint64_t round = 0; round < options.rounds; round++) {
		figures_shuffle(order, cell_count);
		for (unsigned int i = 0; i < cell_count; i++)
			if (!cells[order[i]].call->waits || round < options.raw_rounds)
				turn(&cells[order[i]]);
	}
	printf("seed %" PRIu64 "\n", options.seed);
	for (unsigned int i = 0; i < cell_count; i++)
		print(&cells[i]);
	return 0;
}
