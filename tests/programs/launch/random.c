// SPDX-License-Identifier: MIT
/*
 * A random program of driver calls, mostly launches in rows: streams of all kinds, two contexts,
 * modules that go and come back, captures, events, calls that fail. A few threads make them by turns,
 * so that a row of one goes on behind what another changed. Run by run.py on the simulated driver
 * twice with the same seed: as it is, and with a call before each launch that ends its row, so that
 * each is looked up and timed (shim/state/launch.h). What is reported must be the same.
 *
 *	random SEED STEPS [each]
 *
 * Deterministic in virtual time: what the driver answers does not depend on how long anything takes,
 * and one thread runs at a time.
 */
#include <cuda.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXTS 2
#define STREAMS  8 /* of a context, besides those that have a fixed handle */
#define MODULES  2 /* of a context, besides the library */
#define KERNELS  4 /* of a module */
#define EVENTS   4
#define BYTES    4096
#define THREADS  3

CUresult cuLaunchKernel_ptsz(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			     unsigned int, unsigned int, unsigned int, CUstream, void **, void **);

/* Newer headers have only newer ones. */
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);

struct world {
	CUcontext context;
	unsigned int generation; /* of the context */
	bool primary;
	CUstream stream[STREAMS], quiet; /* non-blocking, never captures */
	CUmodule module[MODULES];
	CUfunction kernel[MODULES][KERNELS];
	CUevent event[EVENTS];
	CUdeviceptr memory;
};

static struct world worlds[CONTEXTS];
static __thread struct world *world; /* whose context is current */
static __thread unsigned int generation;
static CUlibrary library;
static CUkernel library_kernel[KERNELS];
static bool each;
static uint64_t state;
static char host[BYTES];

#define CHECK(call)                                                                                \
	do {                                                                                       \
		CUresult result_ = (call);                                                         \
		if (result_ != CUDA_SUCCESS) {                                                     \
			fprintf(stderr, "random: %s: %d\n", #call, (int)result_);                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* splitmix64 */
static uint64_t next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static unsigned int below(unsigned int bound)
{
	return (unsigned int)(next() % bound);
}

static void write_module(char *text, size_t size, const char **ret_suit)
{
	static const char *const suits[] = {"clubs", "spades", "hearts"};
	int at;

	*ret_suit = suits[below(3)];
	at = snprintf(text, size, ".version 6.4\n.target sm_70\n.address_size 64\n");
	for (int i = 0; i < KERNELS; i++)
		at += snprintf(text + at, size - (size_t)at,
			       ".visible .entry %s%d()\n{\n\tret;\n}\n", *ret_suit, i);
}

/* A first launch may take long, which is a finding: none that hides another. */
static void launch_first(CUfunction function)
{
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, world->quiet, NULL, NULL));
}

static void load_module(unsigned int index)
{
	char text[1024], name[16];
	const char *suit;

	write_module(text, sizeof(text), &suit);
	CHECK(cuModuleLoadData(&world->module[index], text));
	for (int i = 0; i < KERNELS; i++) {
		snprintf(name, sizeof(name), "%s%d", suit, i);
		CHECK(cuModuleGetFunction(&world->kernel[index][i], world->module[index], name));
		launch_first(world->kernel[index][i]);
	}
}

/* The same handles in all contexts. In the first, which lasts: there the simulated driver keeps it. */
static void load_library(void)
{
	char text[1024], name[16];
	const char *suit;

	write_module(text, sizeof(text), &suit);
	CHECK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	for (int i = 0; i < KERNELS; i++) {
		snprintf(name, sizeof(name), "%s%d", suit, i);
		CHECK(cuLibraryGetKernel(&library_kernel[i], library, name));
		launch_first((CUfunction)library_kernel[i]);
	}
}

static void fill_world(void)
{
	CHECK(cuStreamCreate(&world->quiet, CU_STREAM_NON_BLOCKING));
	for (unsigned int i = 0; i < MODULES; i++)
		load_module(i);
	for (unsigned int i = 0; i < STREAMS; i++)
		CHECK(cuStreamCreate(&world->stream[i], i % 3 == 2 ? CU_STREAM_NON_BLOCKING : 0));
	for (unsigned int i = 0; i < EVENTS; i++)
		CHECK(cuEventCreate(&world->event[i], CU_EVENT_DISABLE_TIMING));
	CHECK(cuMemAlloc(&world->memory, BYTES));
}

static void enter(struct world *other)
{
	world = other;
	generation = world->generation;
	CHECK(cuCtxSetCurrent(world->context));
}

/* Half of all choices fall on the first few, so that threads get into each other's way. */
static unsigned int choose(unsigned int bound)
{
	return below(2) ? below(3) : below(bound);
}

/* A stream of the context by number: those with handles, then those that every context has. */
static CUstream stream_at(unsigned int number)
{
	switch (number) {
	case STREAMS:
	case STREAMS + 1:
	case STREAMS + 2:
		return NULL;
	case STREAMS + 3:
		return CU_STREAM_LEGACY;
	case STREAMS + 4:
		return CU_STREAM_PER_THREAD;
	default:
		return world->stream[number];
	}
}

static CUstream a_stream(void)
{
	return stream_at(choose(STREAMS + 5));
}

static CUfunction kernel_at(unsigned int number)
{
	if (number < KERNELS)
		return (CUfunction)library_kernel[number];
	return world->kernel[number / KERNELS - 1][number % KERNELS];
}

/* Often the one that a row, perhaps of another thread, just went into. */
static unsigned int last_stream;

static unsigned int own_number(void)
{
	return below(2) ? last_stream : choose(STREAMS);
}

static CUstream own_stream(void)
{
	return world->stream[own_number()];
}

enum way { WAY_PLAIN, WAY_PER_THREAD, WAY_EX, WAY_EX_EVENT, WAY_COOPERATIVE, WAYS };

static void launch(enum way way, CUfunction function, CUstream stream, unsigned int grid)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
	CUlaunchConfig config = {grid, 1, 1, 1, 1, 1, 0, stream, NULL, 0};

	if (each)
		(void)cuCtxPushCurrent(NULL); /* fails */
	switch (way) {
	case WAY_EX_EVENT:
		attribute.value.programmaticEvent.event = world->event[0];
		config.attrs = &attribute;
		config.numAttrs = 1;
		__attribute__((fallthrough));
	case WAY_EX:
		(void)cuLaunchKernelEx(&config, function, NULL, NULL);
		break;
	case WAY_COOPERATIVE:
		(void)cuLaunchCooperativeKernel(function, grid, 1, 1, 1, 1, 1, 0, stream, NULL);
		break;
	case WAY_PER_THREAD:
		(void)cuLaunchKernel_ptsz(function, grid, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
		break;
	default:
		(void)cuLaunchKernel(function, grid, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
		break;
	}
}

/* What a thread launches again and again: one to three kernels into one to three streams, by turns. */
static void launch_row(void)
{
	static __thread struct {
		enum way way;
		unsigned int kernels, streams;
		unsigned int kernel[3], stream[3];
	} habit;
	unsigned int count = 1 + below(below(4) ? 20 : 200),
		     failing = below(8) ? UINT32_MAX : below(count);

	if (!habit.kernels || below(6) == 0) {
		habit.way = below(2) ? WAY_PLAIN : (enum way)below(WAYS);
		habit.kernels = 1 + below(3);
		habit.streams = 1 + below(3);
		for (int i = 0; i < 3; i++) {
			habit.kernel[i] = choose((1 + MODULES) * KERNELS);
			habit.stream[i] = below(4) ? choose(STREAMS + 5) : STREAMS;
		}
	}
	if (habit.stream[0] < STREAMS)
		last_stream = habit.stream[0];
	for (unsigned int i = 0; i < count; i++)
		launch(habit.way, kernel_at(habit.kernel[i % habit.kernels]),
		       stream_at(habit.stream[i % habit.streams]), i != failing);
}

/* One at a time, begun by one thread and ended by perhaps another. */
static struct {
	struct world *world;
	unsigned int generation;
	CUstream stream, other; /* `other`: drawn in */
	CUgraph graph;          /* captured to; NULL: a new one */
} capture;

static void begin_capture(void)
{
	CUevent event = world->event[below(EVENTS)];

	capture.world = world;
	capture.generation = world->generation;
	capture.stream = own_stream();
	capture.other = below(2) ? own_stream() : NULL;
	capture.graph = NULL;
	if (below(2))
		(void)cuCtxSynchronize(); /* what is pending afterwards was taken for work */
	if (below(3) == 0) {
		CHECK(cuGraphCreate(&capture.graph, 0));
		(void)cuStreamBeginCaptureToGraph(capture.stream, capture.graph, NULL, NULL, 0,
						  CU_STREAM_CAPTURE_MODE_RELAXED);
	} else {
		(void)cuStreamBeginCapture(capture.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	}
	if (!capture.other)
		return;
	(void)cuEventRecord(event, capture.stream);
	(void)cuStreamWaitEvent(capture.other, event, 0);
}

static void end_capture(void)
{
	CUevent event = world->event[below(EVENTS)];
	CUgraphExec instance = NULL;
	CUgraph graph = NULL;

	if (capture.world != world || capture.generation != world->generation) {
		/* Its context is gone, or somebody of that context will do it. */
		if (capture.generation != capture.world->generation)
			capture.world = NULL;
		return;
	}
	if (capture.other && below(4)) {
		(void)cuEventRecord(event, capture.other);
		(void)cuStreamWaitEvent(capture.stream, event, 0);
	}
	capture.world = NULL;
	if (cuStreamEndCapture(capture.stream, &graph) == CUDA_SUCCESS && graph && below(2) &&
	    cuGraphInstantiateWithFlags(&instance, graph, 0) == CUDA_SUCCESS) {
		(void)cuGraphLaunch(instance, own_stream());
		(void)cuGraphExecDestroy(instance);
	} else if (below(2))
		(void)cuCtxSynchronize();
	if (graph && graph != capture.graph)
		(void)cuGraphDestroy(graph);
	if (capture.graph)
		(void)cuGraphDestroy(capture.graph);
}

static void renew_stream(void)
{
	unsigned int index = own_number();

	(void)cuStreamDestroy(world->stream[index]);
	CHECK(cuStreamCreate(&world->stream[index], below(2) ? CU_STREAM_NON_BLOCKING : 0));
}

static void renew_module(void)
{
	unsigned int index = below(MODULES);

	if (below(2)) {
		CHECK(cuModuleUnload(world->module[index]));
		load_module(index);
	} else {
		enter(&worlds[0]);
		CHECK(cuLibraryUnload(library));
		load_library();
	}
}

static void change_context(void)
{
	struct world *other = &worlds[below(CONTEXTS)];
	CUcontext popped;

	switch (below(4)) {
	case 0:
		CHECK(cuCtxPushCurrent(other->context));
		world = other;
		generation = world->generation;
		break;
	case 1: /* there and back, with launches there */
		CHECK(cuCtxPushCurrent(other->context));
		for (unsigned int i = below(20); i; i--)
			launch(WAY_PLAIN, kernel_at(below(3)), NULL, 1);
		CHECK(cuCtxPopCurrent(&popped));
		break;
	default:
		enter(other);
		break;
	}
}

/* The second context ends and another begins, perhaps with its handle. */
static void renew_context(void)
{
	enter(&worlds[1]);
	if (world->primary) {
		CHECK(cuDevicePrimaryCtxReset(1));
		CHECK(cuDevicePrimaryCtxRetain(&world->context, 1));
	} else {
		CHECK(cuCtxDestroy(world->context));
		CHECK(cuCtxCreate_v2(&world->context, 0, 1));
	}
	world->generation++;
	enter(world);
	fill_world();
}

static void step(void)
{
	unsigned int kind = below(32);
	CUevent event = world->event[below(EVENTS)];
	CUstream stream = a_stream();
	CUcontext context;

	/* Its context may be gone: another thread has made a new one. Launches may try all the same. */
	if (generation != world->generation && kind <= 16)
		enter(world);
	switch (kind) {
	case 0:
		(void)cuStreamSynchronize(stream);
		break;
	case 1:
		(void)cuStreamQuery(stream);
		break;
	case 2:
		(void)cuCtxSynchronize();
		break;
	case 3:
		(void)cuEventRecord(event, stream);
		break;
	case 4:
		(void)cuEventSynchronize(event);
		break;
	case 5:
		(void)cuStreamWaitEvent(stream, event, 0);
		break;
	case 6:
		(void)cuMemcpyDtoH(host, world->memory, BYTES);
		break;
	case 7:
		(void)cuMemsetD8Async(world->memory, 1, BYTES, stream);
		break;
	case 8:
		(void)cuMemcpyHtoDAsync(world->memory, host, BYTES, stream);
		break;
	case 9:
		renew_stream();
		break;
	case 10:
		renew_module();
		break;
	case 11:
	case 12:
		change_context();
		break;
	case 13:
		if (below(6) == 0)
			renew_context();
		break;
	case 14:
	case 15:
		if (capture.world)
			end_capture();
		else
			begin_capture();
		break;
	case 16:
		(void)cuCtxGetCurrent(&context);
		break;
	default:
		launch_row();
		break;
	}
}

static struct worker {
	pthread_t thread;
	sem_t go, done;
	bool ends;
} workers[THREADS];

static void *work(void *argument)
{
	struct worker *worker = argument;

	for (;;) {
		sem_wait(&worker->go);
		if (!world)
			enter(&worlds[below(CONTEXTS)]);
		if (worker->ends)
			return NULL;
		step();
		sem_post(&worker->done);
	}
}

static void begin(struct worker *worker)
{
	worker->ends = false;
	if (pthread_create(&worker->thread, NULL, work, worker))
		exit(1);
}

static void end(struct worker *worker)
{
	worker->ends = true;
	sem_post(&worker->go);
	pthread_join(worker->thread, NULL);
}

int main(int argc, char **argv)
{
	unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
	struct worker *worker = workers;

	state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	each = argc > 3;
	CHECK(cuInit(0));
	worlds[1].primary = below(2);
	for (int i = 0; i < CONTEXTS; i++) {
		world = &worlds[i];
		if (i == 1 && world->primary)
			CHECK(cuDevicePrimaryCtxRetain(&world->context, 1));
		else
			CHECK(cuCtxCreate_v2(&world->context, 0, i));
		enter(world);
		fill_world();
		if (i == 0)
			load_library();
	}
	for (int i = 0; i < THREADS; i++) {
		sem_init(&workers[i].go, 0, 0);
		sem_init(&workers[i].done, 0, 0);
		begin(&workers[i]);
	}
	while (steps--) {
		if (below(2))
			worker = &workers[below(THREADS)];
		if (below(200) == 0) {
			end(worker);
			begin(worker);
		}
		sem_post(&worker->go);
		sem_wait(&worker->done);
	}
	for (int i = 0; i < THREADS; i++)
		end(&workers[i]);
	for (int i = 0; i < CONTEXTS; i++) {
		enter(&worlds[i]);
		(void)cuCtxSynchronize();
	}
	return 0;
}
