// SPDX-License-Identifier: MIT
/*
 * Runs a plan: contexts, streams, buffers, threads, and the digest at the end. Called by main.c; actions.c makes the calls of each action.
 *
 * Actions one after the other go from thread to thread by a turn; those beside each other run as they will, and the threads meet in front of them and behind.
 * The digest is of each thread's log (statuses, and what was read at each return), what callbacks saw, and the final bytes.
 */
#include "run.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../simcuda/kernels.h"

CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);

#define SPINS    1000
#define PAUSE_NS 8000 /* the longest pause of a thread */

static int devices;
static bool kept;
static CUcontext kept_contexts[CONTEXTS];
static unsigned char *registered; /* one page */
static unsigned char pageable[PAGEABLE][SIZE];

void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "property: %s: %d\n", what, (int)result);
	_Exit(4);
}

void log_number(struct log *log, const char *what, uint64_t value)
{
	log->digest = (log->digest ^ value) * 1099511628211u;
	log->digest ^= log->digest >> 29;
	if (log->to)
		fprintf(log->to, "\t%u: %s %llx\n", log->action, what, (unsigned long long)value);
}

uint64_t bytes_digest(const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	uint64_t value = 14695981039346656037u;

	for (size_t i = 0; i < size; i++)
		value = (value ^ at[i]) * 1099511628211u;
	return value;
}

void paint(void *bytes, unsigned int value)
{
	unsigned char *at = bytes;

	for (size_t i = 0; i < SIZE; i++)
		at[i] = (unsigned char)(value * 131 + i * 7 + (i >> 4));
}

/* ---- the world ---- */

/* First launches may wait for the context. */
static void warm_up(struct context *context)
{
	uint64_t bytes = 8;
	uint32_t count = 1, value = 1;
	float factor = 1;
	CUdeviceptr to = context->scratch, from = context->scratch + 64;
	void *parameters[KERNELS][4] = {
		[KERNEL_hash] = {&to, &from, &count, &value},
		[KERNEL_fill] = {&to, &value, &count},
		[KERNEL_copy] = {&to, &from, &bytes},
		[KERNEL_saxpy] = {&factor, &from, &to, &count},
		[KERNEL_gate] = {&context->one}, /* not 0 */
	};

	for (int i = 0; i < KERNELS; i++)
		MUST(cuLaunchKernel(context->kernel[i], 1, 1, 1, 1, 1, 1, 0, NULL, parameters[i],
				    NULL));
}

static void set_current(struct world *world, unsigned int context)
{
	world->current[0] = world->context[context].handle;
	MUST(cuCtxSetCurrent(world->current[0]));
}

static void open_context(struct context *context, unsigned int number, bool primary)
{
	if (kept && kept_contexts[number]) {
		context->handle = kept_contexts[number];
	} else if (number == 0 && primary && !kept) {
		MUST(cuDevicePrimaryCtxRetain(&context->handle, 0));
	} else {
		MUST(cuCtxCreate_v2(&context->handle, 0, (CUdevice)number % devices));
		MUST(cuCtxPopCurrent(NULL)); /* or the stack grows from program to program */
		kept_contexts[number] = context->handle;
	}
	MUST(cuCtxSetCurrent(context->handle));
}

/* Of a context that stays, everything that the program made. */
static void empty_context(struct world *world, unsigned int number)
{
	struct context *context = &world->context[number];

	for (unsigned int i = 0; i < LANES; i++)
		if (context->stream[i])
			MUST(cuStreamDestroy(context->stream[i]));
	for (unsigned int i = 0; i < EVENTS; i++)
		MUST(cuEventDestroy(context->event[i]));
	for (unsigned int i = 0; i < PLAIN; i++)
		MUST(cuMemFree(world->buffer[number * OF_CONTEXT + i]));
	MUST(cuMemFree(context->scratch));
	MUST(cuModuleUnload(context->module));
}

static void end_context(struct world *world, unsigned int number)
{
	if (kept) {
		set_current(world, number);
		empty_context(world, number);
	} else if (number || !(world->plan->program->flags & PROGRAM_PRIMARY)) {
		MUST(cuCtxDestroy(world->context[number].handle));
	} else {
		MUST(cuDevicePrimaryCtxReset(0));
		cuDevicePrimaryCtxRelease(0);
	}
}

static void make_context(struct world *world, unsigned int number)
{
	static const char *const names[] = {"hash", "fill", "copy", "saxpy", "gate"};
	const struct program *program = world->plan->program;
	struct context *context = &world->context[number];
	float one[SUM], zero[SUM] = {0};

	open_context(context, number, program->flags & PROGRAM_PRIMARY);
	MUST(cuModuleLoadData(&context->module, simcuda_ptx));
	for (int i = 0; i < KERNELS; i++) {
		MUST(cuModuleGetFunction(&context->kernel[i], context->module, names[i]));
		MUST(cuFuncLoad(context->kernel[i]));
	}
	for (unsigned int i = 0; i < program->blocking; i++)
		MUST(cuStreamCreate(&context->stream[FIRST_BLOCKING + i], CU_STREAM_DEFAULT));
	for (unsigned int i = 0; i < program->side; i++)
		MUST(cuStreamCreate(&context->stream[FIRST_SIDE + i], CU_STREAM_NON_BLOCKING));
	for (unsigned int i = 0; i < EVENTS; i++)
		MUST(cuEventCreate(&context->event[i],
				   i % 2 ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
	MUST(cuMemAlloc(&context->scratch, SIZE * (3 + THREADS)));
	context->sum = context->scratch + SIZE;
	context->one = context->sum + SIZE;
	for (unsigned int i = 0; i < THREADS; i++)
		context->part[i] = context->one + SIZE * (1 + i);
	for (unsigned int i = 0; i < SUM; i++)
		one[i] = (float)(i + 1);
	MUST(cuMemcpyHtoD(context->one, one, sizeof(one)));
	MUST(cuMemcpyHtoD(context->sum, zero, sizeof(zero)));
	for (unsigned int i = 0; i < PLAIN; i++) {
		unsigned char bytes[SIZE];

		paint(bytes, (unsigned int)program->seed + number * PLAIN + i);
		MUST(cuMemAlloc(&world->buffer[number * OF_CONTEXT + i], SIZE));
		MUST(cuMemcpyHtoD(world->buffer[number * OF_CONTEXT + i], bytes, SIZE));
	}
	if (!(program->flags & PROGRAM_COLD))
		warm_up(context);
	MUST(cuCtxSynchronize());
}

static void make_world(struct world *world)
{
	const struct program *program = world->plan->program;
	unsigned int value = (unsigned int)program->seed + 100;
	void *at;

	for (unsigned int i = 0; i < program->contexts; i++)
		make_context(world, i);
	for (unsigned int i = 0; i < PINNED; i++) {
		MUST(cuMemHostAlloc(&at, SIZE,
				    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
		world->buffer[FIRST_PINNED + i] = (uintptr_t)at;
	}
	MUST(cuMemHostAlloc(&at, WORDS * 4, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	world->words = at;
	memset(at, 0, WORDS * 4);
	MUST(cuMemHostRegister(registered, 4096,
			       CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
	world->buffer[FIRST_REGISTERED] = (uintptr_t)registered;
	for (unsigned int i = 0; i < PAGEABLE; i++)
		world->buffer[FIRST_PAGEABLE + i] = (uintptr_t)pageable[i];
	for (unsigned int i = FIRST_PINNED; i < BUFFERS; i++)
		paint((void *)world->buffer[i], value + i);
	pthread_mutex_init(&world->mutex, NULL);
	pthread_mutex_init(&world->capture_lock, NULL);
	pthread_mutex_init(&world->turn_lock, NULL);
	pthread_cond_init(&world->turned, NULL);
}

/* Nothing may be left that the next program would find: a run in one process is as good as one in its own. */
static void end_world(struct world *world)
{
	const struct program *program = world->plan->program;

	for (unsigned int i = 0; i < world->execs; i++) {
		cuGraphExecDestroy(world->all_execs[i]);
		cuGraphDestroy(world->graphs[i]);
	}
	for (unsigned int c = 0; c < program->contexts; c++) {
		set_current(world, c);
		for (unsigned int i = 0; i < POOLED; i++)
			if (world->plan->pooled[c][i])
				MUST(cuMemFree(world->buffer[c * OF_CONTEXT + PLAIN + i]));
	}
	set_current(world, 0);
	for (unsigned int i = 0; i < PINNED; i++)
		MUST(cuMemFreeHost((void *)world->buffer[FIRST_PINNED + i]));
	MUST(cuMemFreeHost(world->words));
	MUST(cuMemHostUnregister(registered));
	for (unsigned int c = program->contexts; c; c--)
		end_context(world, c - 1);
	pthread_mutex_destroy(&world->mutex);
	pthread_mutex_destroy(&world->capture_lock);
	pthread_mutex_destroy(&world->turn_lock);
	pthread_cond_destroy(&world->turned);
}

/* ---- threads ---- */

static void run_one(struct world *world, unsigned int thread, const struct action *action)
{
	struct log *log = &world->log[thread];
	CUcontext wanted = world->context[action->context].handle;

	if (world->current[thread] != wanted) {
		MUST(cuCtxSetCurrent(wanted));
		world->current[thread] = wanted;
	}
	log->action = (unsigned int)(action - world->plan->action);
	action_run(world, action);
}

static void wait_for_turn(struct world *world, unsigned int turn)
{
	pthread_mutex_lock(&world->turn_lock);
	while (world->turn != turn)
		pthread_cond_wait(&world->turned, &world->turn_lock);
	pthread_mutex_unlock(&world->turn_lock);
}

static void give_turn(struct world *world, unsigned int turn)
{
	pthread_mutex_lock(&world->turn_lock);
	world->turn = turn;
	pthread_cond_broadcast(&world->turned);
	pthread_mutex_unlock(&world->turn_lock);
}

/* The last one that is through gives the turn on. */
static void meet(struct world *world, unsigned int turn)
{
	pthread_mutex_lock(&world->turn_lock);
	if (++world->arrived == world->plan->program->threads) {
		world->arrived = 0;
		world->turn = turn;
		pthread_cond_broadcast(&world->turned);
	}
	while (world->turn < turn)
		pthread_cond_wait(&world->turned, &world->turn_lock);
	pthread_mutex_unlock(&world->turn_lock);
}

/*
 * Threads that were woken one after the other would have done half of their work before the last one begins. Each comes here once a segment; who is
 * last lets all go.
 */
static void begin_together(struct world *world, unsigned int *segments)
{
	unsigned int wanted = ++*segments * world->plan->program->threads;

	__atomic_add_fetch(&world->together, 1, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; __atomic_load_n(&world->together, __ATOMIC_SEQ_CST) < wanted; i++)
		if (i > SPINS)
			sched_yield();
}

/* One time in four, for some microseconds: sleeping would take longer than most calls. */
static void dawdle(uint64_t *random)
{
	struct timespec now;
	int64_t left;

	if (!*random || next_random(random) % 4)
		return;
	left = (int64_t)(next_random(random) % PAUSE_NS);
	clock_gettime(CLOCK_MONOTONIC, &now);
	for (int64_t end = now.tv_sec * 1000000000 + now.tv_nsec + left;
	     now.tv_sec * 1000000000 + now.tv_nsec < end;)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

struct thread_start {
	struct world *world;
	uint64_t random; /* for pauses; 0: there are none */
	unsigned int number;
};

static void *run_thread(void *data)
{
	struct thread_start *start = data;
	struct world *world = start->world;
	const struct plan *plan = world->plan;
	unsigned int i = 0, end, segments = 0;

	while (i < plan->count) {
		unsigned int segment = plan->action[i].segment;

		if (!plan->beside[segment]) {
			if (plan->action[i].thread == start->number) {
				wait_for_turn(world, i);
				run_one(world, start->number, &plan->action[i]);
				give_turn(world, i + 1);
			}
			i++;
			continue;
		}
		for (end = i; end < plan->count && plan->action[end].segment == segment; end++)
			;
		pthread_mutex_lock(&world->turn_lock);
		while (world->turn < i)
			pthread_cond_wait(&world->turned, &world->turn_lock);
		pthread_mutex_unlock(&world->turn_lock);
		begin_together(world, &segments);
		for (; i < end; i++) {
			if (plan->action[i].thread != start->number)
				continue;
			dawdle(&start->random);
			run_one(world, start->number, &plan->action[i]);
		}
		meet(world, end);
	}
	wait_for_turn(world, plan->count);
	if (start->number && world->current[start->number] &&
	    !(plan->program->flags & PROGRAM_PENDING_END))
		log_number(&world->log[start->number], "own",
			   cuStreamSynchronize(CU_STREAM_PER_THREAD));
	return NULL;
}

static void run_threads(struct world *world, uint64_t pauses)
{
	const struct program *program = world->plan->program;
	struct thread_start start[THREADS];
	pthread_t thread[THREADS];

	for (unsigned int i = 0; i < program->threads; i++) {
		start[i] = (struct thread_start){world, pauses ? next_random(&pauses) : 0, i};
		if (i && pthread_create(&thread[i], NULL, run_thread, &start[i]))
			must(CUDA_ERROR_OUT_OF_MEMORY, "pthread_create");
	}
	run_thread(&start[0]);
	for (unsigned int i = 1; i < program->threads; i++)
		pthread_join(thread[i], NULL);
}

/* ---- the end ---- */

static void read_buffer(struct world *world, struct log *log, unsigned int buffer)
{
	unsigned char bytes[SIZE];
	char name[16];

	if (buffer_is_device(buffer))
		MUST(cuMemcpyDtoH(bytes, world->buffer[buffer], SIZE));
	else
		memcpy(bytes, (void *)world->buffer[buffer], SIZE);
	snprintf(name, sizeof(name), "buffer %u", buffer);
	log_number(log, name, bytes_digest(bytes, SIZE));
}

static void read_device(struct world *world, struct log *log, uint32_t which)
{
	for (unsigned int c = 0; c < world->plan->program->contexts; c++) {
		float sum[SUM];

		set_current(world, c);
		for (unsigned int i = c * OF_CONTEXT; i < (c + 1) * OF_CONTEXT; i++)
			if (which & 1u << i)
				read_buffer(world, log, i);
		MUST(cuMemcpyDtoH(sum, world->context[c].sum, sizeof(sum)));
		log_number(log, "sum", bytes_digest(sum, sizeof(sum)));
	}
}

static uint64_t read_all(struct world *world)
{
	const struct plan *plan = world->plan;
	struct log *log = &world->log[0];

	log->action = plan->count;
	if (plan->program->flags & PROGRAM_QUICK_END)
		read_device(world, log, plan->live & ~plan->unwaited);
	for (unsigned int c = 0; c < plan->program->contexts; c++) {
		set_current(world, c);
		log_number(log, "end", cuCtxSynchronize());
	}
	read_device(world, log, plan->live);
	for (unsigned int i = FIRST_PINNED; i < BUFFERS; i++)
		read_buffer(world, log, i);
	for (unsigned int i = 0; i < plan->count; i++)
		if (world->host[i].wrong)
			log_number(log, "callback", i + 1);
	for (unsigned int i = 1; i < plan->program->threads; i++)
		log_number(log, "thread", world->log[i].digest);
	return log->digest;
}

void execute_start(bool keep)
{
	kept = keep;
	MUST(cuInit(0));
	MUST(cuDeviceGetCount(&devices));
	registered = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (registered == MAP_FAILED)
		must(CUDA_ERROR_OUT_OF_MEMORY, "mmap");
}

uint64_t plan_run(const struct plan *plan, uint64_t pauses, FILE *to)
{
	static struct world world;
	uint64_t digest;

	memset(&world, 0, sizeof(world));
	world.plan = plan;
	for (unsigned int i = 0; i < THREADS; i++)
		world.log[i] = (struct log){.digest = 14695981039346656037u, .to = to, .thread = i};
	make_world(&world);
	world.current[0] = NULL;
	run_threads(&world, pauses);
	digest = read_all(&world);
	end_world(&world);
	return digest;
}
