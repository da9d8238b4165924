// SPDX-License-Identifier: MIT
/*
 * The driver calls of each action. Called by execute.c, in the action's thread and context. What each call returns goes to the thread's log,
 * and so does what the host reads.
 */
#include "run.h"

#include <string.h>
#include <time.h>

/* Streams by both kinds of names: of the plain ones 0 means the legacy stream, of the others the thread's own. */
#define PTSZ(name) extern __typeof__(name) name##_ptsz
#define PTDS(name) extern __typeof__(name) name##_ptds

PTSZ(cuLaunchKernel);
PTSZ(cuLaunchKernelEx);
PTSZ(cuLaunchCooperativeKernel);
PTSZ(cuMemcpyAsync);
PTSZ(cuMemcpyHtoDAsync_v2);
PTSZ(cuMemcpyDtoHAsync_v2);
PTSZ(cuMemcpyDtoDAsync_v2);
PTSZ(cuMemcpy2DAsync_v2);
PTSZ(cuMemsetD8Async);
PTSZ(cuMemsetD32Async);
PTSZ(cuMemsetD2D32Async);
PTSZ(cuEventRecord);
PTSZ(cuStreamWaitEvent);
PTSZ(cuStreamSynchronize);
PTSZ(cuStreamQuery);
PTSZ(cuLaunchHostFunc);
PTSZ(cuStreamAddCallback);
PTSZ(cuGraphLaunch);
PTSZ(cuMemAllocAsync);
PTSZ(cuMemFreeAsync);
PTSZ(cuMemcpyPeerAsync);
PTSZ(cuStreamWaitValue32_v2);
PTSZ(cuStreamWriteValue32_v2);
PTSZ(cuStreamBatchMemOp_v2);
PTSZ(cuStreamBeginCapture_v2);
PTSZ(cuStreamEndCapture);
PTDS(cuMemcpy);
PTDS(cuMemcpyHtoD_v2);
PTDS(cuMemcpyDtoH_v2);
PTDS(cuMemcpyDtoD_v2);
PTDS(cuMemcpy2D_v2);
PTDS(cuMemsetD8_v2);
PTDS(cuMemsetD32_v2);

struct target {
	CUstream stream;
	bool own; /* through the names whose 0 is the thread's own stream */
};

#define ON(target, name)  ((target).own ? name##_ptsz : name)
#define NOW(target, name) ((target).own ? name##_ptds : name)

static struct context *context_of(struct world *world, const struct action *action)
{
	return &world->context[action->context];
}

static struct target target_of(struct world *world, const struct action *action, unsigned int lane)
{
	unsigned int form = action->form % 3;

	if (lane == LEGACY)
		return (struct target){form ? CU_STREAM_LEGACY : NULL, form == 2};
	if (lane >= OWN)
		return (struct target){form == 1 ? NULL : CU_STREAM_PER_THREAD, form != 0};
	return (struct target){context_of(world, action)->stream[lane], form == 1};
}

static struct target target(struct world *world, const struct action *action)
{
	return target_of(world, action, action->lane);
}

static struct log *log_of(struct world *world, const struct action *action)
{
	return &world->log[action->thread];
}

static void status(struct world *world, const struct action *action, CUresult result)
{
	log_number(log_of(world, action), action_names[action->kind], result);
}

static void saw(struct world *world, const struct action *action, unsigned int buffer)
{
	log_number(log_of(world, action), "saw", bytes_digest((void *)world->buffer[buffer], SIZE));
}

/* ---- kernels ---- */

static CUresult launch(struct target target, unsigned int form, CUfunction kernel,
		       void **parameters)
{
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 32,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = target.stream};

	switch (form / 3 % 8) {
	case 0:
		return ON(target, cuLaunchKernelEx)(&config, kernel, parameters, NULL);
	case 1:
		return ON(target, cuLaunchCooperativeKernel)(kernel, 1, 1, 1, 32, 1, 1, 0,
							     target.stream, parameters);
	default:
		return ON(target, cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, target.stream,
						  parameters, NULL);
	}
}

static CUresult hash_on(struct world *world, const struct action *action, struct target target,
			unsigned int to, unsigned int from)
{
	uint64_t state = world->buffer[to] + 8 * (action->value % 8), data = world->buffer[from];
	uint32_t count = 64 + 64 * (action->value % 4), salt = action->value;
	void *parameters[] = {&state, &data, &count, &salt};

	return launch(target, action->form, context_of(world, action)->kernel[KERNEL_hash],
		      parameters);
}

static void run_hash(struct world *world, const struct action *action)
{
	status(world, action,
	       hash_on(world, action, target(world, action), action->to, action->from));
}

static void run_fill(struct world *world, const struct action *action)
{
	uint64_t to = world->buffer[action->to];
	uint32_t value = action->value * 0x01010101u, count = SIZE / 4;
	void *parameters[] = {&to, &value, &count};

	status(world, action,
	       launch(target(world, action), action->form,
		      context_of(world, action)->kernel[KERNEL_fill], parameters));
}

static void run_move(struct world *world, const struct action *action)
{
	uint64_t to = world->buffer[action->to], from = world->buffer[action->from], bytes = SIZE;
	void *parameters[] = {&to, &from, &bytes};

	if (action->value % 3 == 0) {
		bytes = SIZE / 2;
		from += SIZE / 4;
	}
	status(world, action,
	       launch(target(world, action), action->form,
		      context_of(world, action)->kernel[KERNEL_copy], parameters));
}

/* Sums of small whole numbers would be too kind: any bytes are taken for numbers. */
static void run_blend(struct world *world, const struct action *action)
{
	uint64_t to = world->buffer[action->to], from = world->buffer[action->from];
	float factor = 0.5f + action->value % 16;
	uint32_t count = SIZE / 4;
	void *parameters[] = {&factor, &from, &to, &count};

	status(world, action,
	       launch(target(world, action), action->form,
		      context_of(world, action)->kernel[KERNEL_saxpy], parameters));
}

/* ---- copies and memsets ---- */

static void *host(struct world *world, unsigned int buffer)
{
	return (void *)world->buffer[buffer];
}

static void finish_copy(struct world *world, const struct action *action, CUresult result)
{
	status(world, action, result);
	if (result == CUDA_SUCCESS && buffer_is_pageable(action->to))
		saw(world, action, action->to);
	else if (result == CUDA_SUCCESS && action->item && !buffer_is_device(action->to))
		saw(world, action, action->to);
}

static void run_copy(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	uint64_t to = world->buffer[action->to], from = world->buffer[action->from];
	CUresult result;

	if (action->form / 3 % 4 == 0)
		result = ON(on, cuMemcpyAsync)(to, from, SIZE, on.stream);
	else if (!buffer_is_device(action->to))
		result = ON(on, cuMemcpyDtoHAsync_v2)(host(world, action->to), from, SIZE,
						      on.stream);
	else if (!buffer_is_device(action->from))
		result = ON(on, cuMemcpyHtoDAsync_v2)(to, host(world, action->from), SIZE,
						      on.stream);
	else
		result = ON(on, cuMemcpyDtoDAsync_v2)(to, from, SIZE, on.stream);
	finish_copy(world, action, result);
}

static void run_copy_now(struct world *world, const struct action *action)
{
	struct target on = {NULL, action->lane >= OWN};
	uint64_t to = world->buffer[action->to], from = world->buffer[action->from];
	CUresult result;

	if (action->form / 3 % 4 == 0)
		result = NOW(on, cuMemcpy)(to, from, SIZE);
	else if (!buffer_is_device(action->to))
		result = NOW(on, cuMemcpyDtoH_v2)(host(world, action->to), from, SIZE);
	else if (!buffer_is_device(action->from))
		result = NOW(on, cuMemcpyHtoD_v2)(to, host(world, action->from), SIZE);
	else
		result = NOW(on, cuMemcpyDtoD_v2)(to, from, SIZE);
	finish_copy(world, action, result);
}

static void run_plane(struct world *world, const struct action *action)
{
	CUDA_MEMCPY2D copy = {
		.srcMemoryType =
			buffer_is_device(action->from) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.srcHost = host(world, action->from),
		.srcDevice = world->buffer[action->from],
		.srcPitch = 64,
		.dstMemoryType =
			buffer_is_device(action->to) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.dstHost = host(world, action->to),
		.dstDevice = world->buffer[action->to],
		.dstPitch = 64,
		.WidthInBytes = 8 + action->value % 56,
		.Height = SIZE / 64,
	};
	struct target on = target(world, action);

	if (action->item) {
		on.own = action->lane >= OWN;
		finish_copy(world, action, NOW(on, cuMemcpy2D_v2)(&copy));
	} else {
		finish_copy(world, action, ON(on, cuMemcpy2DAsync_v2)(&copy, on.stream));
	}
}

static void run_set(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	uint64_t to = action->to == BUFFERS ? context_of(world, action)->scratch
					    : world->buffer[action->to];
	CUresult result;

	switch (action->form / 3 % 4) {
	case 0:
		result = ON(on, cuMemsetD32Async)(to, action->value * 65537u, SIZE / 4, on.stream);
		break;
	case 1:
		result = ON(on, cuMemsetD2D32Async)(to, 64, action->value, 8, SIZE / 64, on.stream);
		break;
	default:
		result = ON(on, cuMemsetD8Async)(to, (unsigned char)action->value,
						 SIZE / (1 + action->value % 2), on.stream);
	}
	status(world, action, result);
}

static void run_set_now(struct world *world, const struct action *action)
{
	struct target on = {NULL, action->lane >= OWN};
	uint64_t to = world->buffer[action->to];

	if (action->form / 3 % 2)
		status(world, action,
		       NOW(on, cuMemsetD32_v2)(to, action->value * 65537u, SIZE / 8));
	else
		status(world, action,
		       NOW(on, cuMemsetD8_v2)(to, (unsigned char)action->value, SIZE));
}

static void run_peer(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuMemcpyPeerAsync)(world->buffer[action->to],
					 context_of(world, action)->handle,
					 world->buffer[action->from],
					 world->context[action->item].handle, SIZE, on.stream));
}

static void run_peer_now(struct world *world, const struct action *action)
{
	status(world, action,
	       cuMemcpyPeer(world->buffer[action->to], context_of(world, action)->handle,
			    world->buffer[action->from], world->context[action->item].handle,
			    SIZE));
}

/*
 * Reads the sum, adds, writes it back, in three actions under the program's lock. Whoever comes first, the sum is the same; where one thread's
 * actions come between another's, something is lost. Ordered by the legacy stream at the beginning of each, or at the end.
 */
static void run_add(struct world *world, const struct action *action)
{
	bool legacy_last = world->plan->program->flags & PROGRAM_LEGACY_LAST;
	struct context *context = context_of(world, action);
	struct target legacy = target_of(world, action, LEGACY), other = target(world, action);
	float factor = (float)(1 + action->value % 7);
	CUdeviceptr part = context->part[action->thread];
	uint32_t count = SUM;
	void *parameters[] = {&factor, &context->one, &part, &count};
	struct target first = legacy_last ? other : legacy, second = legacy_last ? legacy : other;

	pthread_mutex_lock(&world->mutex);
	status(world, action,
	       ON(first, cuMemcpyDtoDAsync_v2)(part, context->sum, SUM * 4, first.stream));
	status(world, action, launch(other, 9, context->kernel[KERNEL_saxpy], parameters));
	status(world, action,
	       ON(second, cuMemcpyDtoDAsync_v2)(context->sum, part, SUM * 4, second.stream));
	pthread_mutex_unlock(&world->mutex);
}

/* ---- the program's own order ---- */

static void run_record(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuEventRecord)(context_of(world, action)->event[action->item], on.stream));
}

static void run_wait(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuStreamWaitEvent)(on.stream,
					 world->context[action->from].event[action->item], 0));
}

static void run_synchronize(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action, ON(on, cuStreamSynchronize)(on.stream));
}

/* Host functions of the simulated driver run while somebody waits only. */
static void run_poll(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	CUresult result = CUDA_ERROR_NOT_READY;

	for (int i = 0; i < 100 && result == CUDA_ERROR_NOT_READY; i++)
		result = ON(on, cuStreamQuery)(on.stream);
	if (result == CUDA_ERROR_NOT_READY)
		result = ON(on, cuStreamSynchronize)(on.stream);
	status(world, action, result);
}

static void run_query(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action, ON(on, cuStreamQuery)(on.stream));
}

static void run_synchronize_event(struct world *world, const struct action *action)
{
	status(world, action, cuEventSynchronize(context_of(world, action)->event[action->item]));
}

static void run_query_event(struct world *world, const struct action *action)
{
	status(world, action, cuEventQuery(context_of(world, action)->event[action->item]));
}

static void run_synchronize_all(struct world *world, const struct action *action)
{
	status(world, action, cuCtxSynchronize());
}

static void run_write_value(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	CUdeviceptr word = (uintptr_t)&world->words[action->item];
	CUstreamBatchMemOpParams one = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
						       .address = word,
						       .value = 1}};

	if (action->form / 3 % 2)
		status(world, action, ON(on, cuStreamBatchMemOp_v2)(on.stream, 1, &one, 0));
	else
		status(world, action, ON(on, cuStreamWriteValue32_v2)(on.stream, word, 1, 0));
}

static void run_wait_value(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuStreamWaitValue32_v2)(on.stream, (uintptr_t)&world->words[action->item], 1,
					      CU_STREAM_WAIT_VALUE_GEQ));
}

static void run_gate(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	CUdeviceptr word = (uintptr_t)&world->words[action->item];
	void *parameters[] = {&word};

	if (action->form / 3 % 2)
		status(world, action,
		       launch(on, 9, context_of(world, action)->kernel[KERNEL_gate], parameters));
	else
		run_wait_value(world, action);
}

static void run_open(struct world *world, const struct action *action)
{
	__atomic_store_n(&world->words[action->item], 1, __ATOMIC_RELEASE);
}

/* ---- the host ---- */

static void CUDA_CB on_host(void *data)
{
	struct host_work *work = data;

	if (work->mutex)
		pthread_mutex_lock(work->mutex);
	for (unsigned int i = 0; i < SIZE; i += 8) {
		uint64_t to, from;

		memcpy(&to, work->to + i, 8);
		memcpy(&from, work->from + (i + 8) % SIZE, 8);
		to = (to ^ (from + work->value)) * 1099511628211u;
		memcpy(work->to + i, &to, 8);
	}
	if (work->mutex)
		pthread_mutex_unlock(work->mutex);
}

static void CUDA_CB on_callback(CUstream stream, CUresult result, void *data)
{
	struct host_work *work = data;

	work->wrong = stream != work->stream || result != CUDA_SUCCESS;
	on_host(data);
}

static struct host_work *host_work(struct world *world, const struct action *action)
{
	struct host_work *work = &world->host[action - world->plan->action];

	work->to = host(world, action->to);
	work->from = host(world, action->from);
	work->value = action->value;
	work->mutex = action->value % 3 ? NULL : &world->mutex;
	return work;
}

static void run_host(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuLaunchHostFunc)(on.stream, on_host, host_work(world, action)));
}

static void run_callback(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	struct host_work *work = host_work(world, action);

	work->stream = on.stream;
	status(world, action, ON(on, cuStreamAddCallback)(on.stream, on_callback, work, 0));
}

static void run_look(struct world *world, const struct action *action)
{
	saw(world, action, action->to);
}

static void run_touch(struct world *world, const struct action *action)
{
	saw(world, action, action->to);
	paint(host(world, action->to), action->value);
}

/* ---- captures ---- */

static void run_begin(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuStreamBeginCapture_v2)(on.stream, (CUstreamCaptureMode)action->item));
}

static void run_fork(struct world *world, const struct action *action)
{
	struct target on = target(world, action), other = target_of(world, action, action->item);
	CUevent *event = &context_of(world, action)->event[EVENTS - 2];

	status(world, action, ON(on, cuEventRecord)(event[0], on.stream));
	status(world, action, ON(other, cuStreamWaitEvent)(other.stream, event[0], 0));
	status(world, action, hash_on(world, action, other, action->to, action->to));
	status(world, action, hash_on(world, action, on, action->from, action->from));
	status(world, action, ON(other, cuEventRecord)(event[1], other.stream));
	status(world, action, ON(on, cuStreamWaitEvent)(on.stream, event[1], 0));
}

static void run_end(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUresult result = ON(on, cuStreamEndCapture)(on.stream, &graph);

	status(world, action, result);
	/* The plan relies on graphs that are there: other drivers may refuse other calls. */
	if ((result == CUDA_SUCCESS) != action->from)
		log_number(log_of(world, action), "not as planned", 1);
	world->exec[action->item] = NULL;
	if (result != CUDA_SUCCESS || world->execs == ALL_EXECS)
		return;
	status(world, action, cuGraphInstantiate(&exec, graph, 0));
	world->exec[action->item] = exec;
	world->graphs[world->execs] = graph;
	world->all_execs[world->execs++] = exec;
}

static void run_replay(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action, ON(on, cuGraphLaunch)(world->exec[action->item], on.stream));
}

/* ---- what comes and goes ---- */

static void run_take(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	CUdeviceptr *at = &world->buffer[action->to];

	status(world, action, ON(on, cuMemAllocAsync)(at, SIZE, on.stream));
	status(world, action,
	       ON(on, cuMemsetD8Async)(*at, (unsigned char)action->value, SIZE, on.stream));
}

static void run_give(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action, ON(on, cuMemFreeAsync)(world->buffer[action->to], on.stream));
}

static void run_renew(struct world *world, const struct action *action)
{
	CUdeviceptr *at = &world->buffer[action->to];
	struct target on = target(world, action);

	status(world, action, cuMemFree(*at));
	status(world, action, cuMemAlloc(at, SIZE));
	status(world, action,
	       ON(on, cuMemsetD8Async)(*at, (unsigned char)action->value, SIZE, on.stream));
}

static void run_pin(struct world *world, const struct action *action)
{
	void *at = host(world, action->to);

	status(world, action, cuMemFreeHost(at));
	status(world, action,
	       cuMemHostAlloc(&at, SIZE, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	world->buffer[action->to] = (uintptr_t)at;
	paint(at, action->value);
}

/* Behind the call nothing touches it. */
static void run_map(struct world *world, const struct action *action)
{
	void *at = host(world, action->to);

	status(world, action, cuMemHostUnregister(at));
	saw(world, action, action->to);
	paint(at, action->value);
	status(world, action,
	       cuMemHostRegister(at, 4096,
				 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
}

static void run_restart(struct world *world, const struct action *action)
{
	CUstream *stream = &context_of(world, action)->stream[action->lane];

	status(world, action, cuStreamDestroy(*stream));
	status(world, action,
	       cuStreamCreate(stream, action->lane >= FIRST_SIDE ? CU_STREAM_NON_BLOCKING
								 : CU_STREAM_DEFAULT));
}

/* ---- questions and mistakes ---- */

static void run_ask(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
	CUcontext context = NULL;
	unsigned int flags = 7;
	int priority = 7;

	status(world, action, cuStreamIsCapturing(on.stream, &capturing));
	status(world, action, cuStreamGetFlags(on.stream, &flags));
	status(world, action, cuStreamGetPriority(on.stream, &priority));
	status(world, action, cuStreamGetCtx(on.stream, &context));
	log_number(log_of(world, action), "answers",
		   flags + 16 * (unsigned int)(priority + 8) + 1024u * capturing +
			   (context == context_of(world, action)->handle));
}

static void run_wrong(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	struct context *context = context_of(world, action);
	CUevent foreign = world->context[!action->context].handle
				  ? world->context[!action->context].event[0]
				  : NULL;
	CUdeviceptr block = 0;
	CUresult result;

	switch (action->item) {
	case 0:
		result = ON(on, cuMemsetD8Async)(16, 1, SIZE, on.stream);
		break;
	case 1:
		result = ON(on, cuEventRecord)(foreign, on.stream);
		break;
	case 2:
		result = ON(on, cuStreamWaitEvent)(on.stream, NULL, 0);
		break;
	case 3:
		result = ON(on, cuLaunchKernel)(NULL, 1, 1, 1, 1, 1, 1, 0, on.stream, NULL, NULL);
		break;
	case 4:
		result = ON(on, cuMemcpyDtoDAsync_v2)(context->scratch, 16, SIZE, on.stream);
		break;
	case 5:
		result = ON(on, cuMemFreeAsync)(16, on.stream);
		break;
	case 6:
		result = ON(on, cuLaunchHostFunc)(on.stream, NULL, NULL);
		break;
	default:
		result = cuMemAlloc(&block, SIZE);
		if (result == CUDA_SUCCESS)
			result = cuMemFree(block);
	}
	status(world, action, result);
}

/* ---- a call that waits while another thread works on ---- */

#define FLOOD 1200 /* more than any queue is long */

enum { FLOOD_BLOCKING, FLOOD_LOAD, FLOOD_COPY, FLOOD_LEGACY };

static CUresult fill_queue(struct world *world, struct context *context, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < FLOOD && !result; i++) {
		result = cuMemsetD8Async(context->scratch, 1, 8, stream);
		__atomic_add_fetch(&world->flooded, 1, __ATOMIC_RELAXED);
	}
	return result ? result : cuStreamSynchronize(stream);
}

static CUresult launch_not_loaded(struct context *context, CUdeviceptr to)
{
	struct target on = {context->stream[FIRST_BLOCKING], false};
	void *parameters[] = {&context->one, &context->one, &to, &(uint32_t){SUM}};
	CUfunction kernel;

	/* The only one of which make_context() loads nothing. */
	MUST(cuModuleGetFunction(&kernel, context->module, "add"));
	return launch(on, 9, kernel, parameters);
}

/* Full queues are waited for: a call that waits with the program's lock held would be the program's own mistake. */
static void run_flood(struct world *world, const struct action *action)
{
	struct context *context = context_of(world, action);
	CUdeviceptr to = world->buffer[action->to];
	unsigned char bytes[SIZE];

	paint(bytes, action->value);
	status(world, action,
	       cuStreamWaitValue32(context->stream[FIRST_BLOCKING],
				   (uintptr_t)&world->words[action->item], 1,
				   CU_STREAM_WAIT_VALUE_GEQ));
	__atomic_store_n(&world->armed, true, __ATOMIC_RELEASE);
	switch (action->from) {
	case FLOOD_LOAD:
		status(world, action, launch_not_loaded(context, to));
		break;
	case FLOOD_COPY:
		status(world, action, cuMemcpyHtoD(to, bytes, SIZE));
		break;
	default:
		status(world, action,
		       fill_queue(world, context,
				  action->from == FLOOD_LEGACY ? NULL
							       : context->stream[FIRST_BLOCKING]));
	}
	__atomic_store_n(&world->flood_over, true, __ATOMIC_RELEASE);
}

/* Waits until the other thread's call does not come back any more. */
static void run_flood_open(struct world *world, const struct action *action)
{
	struct context *context = context_of(world, action);
	struct timespec moment = {.tv_nsec = 200000};
	unsigned int before, now = 0, lane = FIRST_BLOCKING + world->plan->program->blocking - 1u;

	while (!__atomic_load_n(&world->armed, __ATOMIC_ACQUIRE))
		nanosleep(&moment, NULL);
	do {
		before = now;
		nanosleep(&moment, NULL);
		now = __atomic_load_n(&world->flooded, __ATOMIC_RELAXED);
	} while (now != before && !__atomic_load_n(&world->flood_over, __ATOMIC_ACQUIRE));
	/* Not on a queue that may be full. */
	for (unsigned int i = 0; i < 3 && action->from != FLOOD_LEGACY; i++)
		status(world, action, cuMemsetD8Async(context->scratch + 64, 2, 8, NULL));
	if (lane != FIRST_BLOCKING)
		status(world, action,
		       cuMemsetD8Async(context->scratch + 64, 3, 8, context->stream[lane]));
	run_open(world, action);
}

void action_run(struct world *world, const struct action *action)
{
	static void (*const run[])(struct world *, const struct action *) = {
#define A(name) run_##name,
		EACH_ACTION(A)
#undef A
	};

	run[action->kind](world, action);
}
