// SPDX-License-Identifier: MIT
/*
 * The driver calls of actions that order, wait, capture, and of what comes and goes: host functions, graphs, memory, streams. Called by actions.c.
 */
#include "actions.h"

#include <string.h>

PTSZ(cuMemsetD8Async);
PTSZ(cuEventRecord);
PTSZ(cuStreamWaitEvent);
PTSZ(cuStreamSynchronize);
PTSZ(cuStreamQuery);
PTSZ(cuLaunchHostFunc);
PTSZ(cuStreamAddCallback);
PTSZ(cuGraphLaunch);
PTSZ(cuMemAllocAsync);
PTSZ(cuMemFreeAsync);
PTSZ(cuStreamWaitValue32_v2);
PTSZ(cuStreamWriteValue32_v2);
PTSZ(cuStreamBatchMemOp_v2);
PTSZ(cuStreamBeginCapture_v2);
PTSZ(cuStreamEndCapture);

/* ---- the program's own order ---- */

void run_record(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuEventRecord)(context_of(world, action)->event[action->item], on.stream));
}

void run_wait(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuStreamWaitEvent)(on.stream,
					 world->context[action->from].event[action->item], 0));
}

void run_synchronize(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action, ON(on, cuStreamSynchronize)(on.stream));
}

/* Host functions of the simulated driver run while somebody waits only. */
void run_poll(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	CUresult result = CUDA_ERROR_NOT_READY;

	for (int i = 0; i < 100 && result == CUDA_ERROR_NOT_READY; i++)
		result = ON(on, cuStreamQuery)(on.stream);
	if (result == CUDA_ERROR_NOT_READY)
		result = ON(on, cuStreamSynchronize)(on.stream);
	status(world, action, result);
}

void run_query(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action, ON(on, cuStreamQuery)(on.stream));
}

void run_synchronize_event(struct world *world, const struct action *action)
{
	status(world, action, cuEventSynchronize(context_of(world, action)->event[action->item]));
}

void run_query_event(struct world *world, const struct action *action)
{
	status(world, action, cuEventQuery(context_of(world, action)->event[action->item]));
}

void run_synchronize_all(struct world *world, const struct action *action)
{
	pthread_mutex_lock(&world->capture_lock);
	status(world, action, cuCtxSynchronize());
	pthread_mutex_unlock(&world->capture_lock);
}

void run_write_value(struct world *world, const struct action *action)
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

void run_wait_value(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuStreamWaitValue32_v2)(on.stream, (uintptr_t)&world->words[action->item], 1,
					      CU_STREAM_WAIT_VALUE_GEQ));
}

void run_gate(struct world *world, const struct action *action)
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

void run_open(struct world *world, const struct action *action)
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

void run_host(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuLaunchHostFunc)(on.stream, on_host, host_work(world, action)));
}

void run_callback(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	struct host_work *work = host_work(world, action);

	work->stream = on.stream;
	status(world, action, ON(on, cuStreamAddCallback)(on.stream, on_callback, work, 0));
}

void run_look(struct world *world, const struct action *action)
{
	saw(world, action, action->to);
}

void run_touch(struct world *world, const struct action *action)
{
	saw(world, action, action->to);
	paint(host(world, action->to), action->value);
}

/* ---- captures ---- */

void run_begin(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuStreamBeginCapture_v2)(on.stream, (CUstreamCaptureMode)action->item));
}

void run_fork(struct world *world, const struct action *action)
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

void run_end(struct world *world, const struct action *action)
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

void run_replay(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action, ON(on, cuGraphLaunch)(world->exec[action->item], on.stream));
}

/* ---- what comes and goes ---- */

void run_take(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	CUdeviceptr *at = &world->buffer[action->to];

	status(world, action, ON(on, cuMemAllocAsync)(at, SIZE, on.stream));
	status(world, action,
	       ON(on, cuMemsetD8Async)(*at, (unsigned char)action->value, SIZE, on.stream));
}

void run_give(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action, ON(on, cuMemFreeAsync)(world->buffer[action->to], on.stream));
}

void run_renew(struct world *world, const struct action *action)
{
	CUdeviceptr *at = &world->buffer[action->to];
	struct target on = target(world, action);

	status(world, action, cuMemFree(*at));
	status(world, action, cuMemAlloc(at, SIZE));
	status(world, action,
	       ON(on, cuMemsetD8Async)(*at, (unsigned char)action->value, SIZE, on.stream));
}

void run_pin(struct world *world, const struct action *action)
{
	void *at = host(world, action->to);

	status(world, action, cuMemFreeHost(at));
	status(world, action,
	       cuMemHostAlloc(&at, SIZE, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	world->buffer[action->to] = (uintptr_t)at;
	paint(at, action->value);
}

/* Behind the call nothing touches it. */
void run_map(struct world *world, const struct action *action)
{
	void *at = host(world, action->to);

	status(world, action, cuMemHostUnregister(at));
	saw(world, action, action->to);
	paint(at, action->value);
	status(world, action,
	       cuMemHostRegister(at, 4096,
				 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
}

void run_restart(struct world *world, const struct action *action)
{
	CUstream *stream = &context_of(world, action)->stream[action->lane];

	status(world, action, cuStreamDestroy(*stream));
	status(world, action,
	       cuStreamCreate(stream, action->lane >= FIRST_SIDE ? CU_STREAM_NON_BLOCKING
								 : CU_STREAM_DEFAULT));
}

static void hash_there(struct world *world, const struct action *action, CUstream stream)
{
	status(world, action,
	       hash_on(world, action, (struct target){stream, false}, action->to, action->to));
}

/* Behind the lane, and the lane behind it: by events, or between two legacy operations by their order alone. It ends with its work pending. */
static void brief_stream(struct world *world, const struct action *action, bool blocking)
{
	struct target on = target(world, action);
	bool by_events = !blocking || action->lane != LEGACY;
	CUstream stream;
	CUevent event;

	MUST(cuStreamCreate(&stream, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	if (by_events) {
		status(world, action, ON(on, cuEventRecord)(event, on.stream));
		status(world, action, cuStreamWaitEvent(stream, event, 0));
	} else {
		hash_there(world, action, CU_STREAM_LEGACY);
	}
	hash_there(world, action, stream);
	if (by_events) {
		status(world, action, cuEventRecord(event, stream));
		status(world, action, ON(on, cuStreamWaitEvent)(on.stream, event, 0));
	} else {
		hash_there(world, action, CU_STREAM_LEGACY);
	}
	status(world, action, cuEventDestroy(event));
	status(world, action, cuStreamDestroy(stream));
}

/* In the relaxed mode, and on a stream that the legacy one has nothing to do with: other threads are to work on. */
static void brief_capture(struct world *world, const struct action *action)
{
	struct target on = target(world, action);
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;
	unsigned int place;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	pthread_mutex_lock(&world->capture_lock);
	status(world, action, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	hash_there(world, action, stream);
	MUST(cuStreamEndCapture(stream, &graph));
	pthread_mutex_unlock(&world->capture_lock);
	status(world, action, cuStreamDestroy(stream));
	MUST(cuGraphInstantiate(&exec, graph, 0));
	status(world, action, ON(on, cuGraphLaunch)(exec, on.stream));
	place = __atomic_fetch_add(&world->execs, 1, __ATOMIC_RELAXED);
	world->graphs[place] = graph;
	world->all_execs[place] = exec;
}

void run_brief(struct world *world, const struct action *action)
{
	if (action->item < 2)
		brief_stream(world, action, action->item);
	else
		brief_capture(world, action);
}
