// SPDX-License-Identifier: MIT
/*
 * The driver calls of questions and mistakes, whose statuses are all that there is, and of a call that waits while another thread works on.
 * Called by actions.c.
 */
#include "actions.h"

#include <time.h>

PTSZ(cuLaunchKernel);
PTSZ(cuMemcpyDtoDAsync_v2);
PTSZ(cuMemsetD8Async);
PTSZ(cuEventRecord);
PTSZ(cuStreamWaitEvent);
PTSZ(cuLaunchHostFunc);
PTSZ(cuMemFreeAsync);

/* ---- questions and mistakes ---- */

void run_ask(struct world *world, const struct action *action)
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

void run_wrong(struct world *world, const struct action *action)
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

#define FLOOD 1400 /* more than any queue is long */

enum { FLOOD_BLOCKING, FLOOD_LOAD, FLOOD_COPY, FLOOD_LEGACY };

/* Some on the legacy stream between, so that something has to be put into a queue that is full. */
static CUresult fill_queue(struct world *world, struct context *context, CUstream stream,
			   unsigned int between)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < FLOOD && !result; i++) {
		result = cuMemsetD8Async(context->scratch, 1, 8,
					 between && i % between == 0 ? NULL : stream);
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
void run_flood(struct world *world, const struct action *action)
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
							       : context->stream[FIRST_BLOCKING],
				  action->value % 2 ? 5 + action->value % 7 : 0));
	}
	__atomic_store_n(&world->flood_over, true, __ATOMIC_RELEASE);
}

/* Waits until the other thread's call does not come back any more. */
void run_flood_open(struct world *world, const struct action *action)
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
