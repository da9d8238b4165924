// SPDX-License-Identifier: MIT
/*
 * The driver calls of actions that put work on streams, and the way to all others. Called by execute.c. What each call returns goes to the
 * thread's log, and so does what the host reads.
 */
#include "actions.h"

#include <string.h>

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
PTSZ(cuMemcpyPeerAsync);
PTDS(cuMemcpy);
PTDS(cuMemcpyHtoD_v2);
PTDS(cuMemcpyDtoH_v2);
PTDS(cuMemcpyDtoD_v2);
PTDS(cuMemcpy2D_v2);
PTDS(cuMemsetD8_v2);
PTDS(cuMemsetD32_v2);

/* ---- kernels ---- */

CUresult launch(struct target target, unsigned int form, CUfunction kernel, void **parameters)
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

CUresult hash_on(struct world *world, const struct action *action, struct target target,
		 unsigned int to, unsigned int from)
{
	uint64_t state = world->buffer[to] + 8 * (action->value % 8), data = world->buffer[from];
	uint32_t count = 64 + 64 * (action->value % 4), salt = action->value;
	void *parameters[] = {&state, &data, &count, &salt};

	return launch(target, action->form, context_of(world, action)->kernel[KERNEL_hash],
		      parameters);
}

void run_hash(struct world *world, const struct action *action)
{
	status(world, action,
	       hash_on(world, action, target(world, action), action->to, action->from));
}

void run_fill(struct world *world, const struct action *action)
{
	uint64_t to = world->buffer[action->to];
	uint32_t value = action->value * 0x01010101u, count = SIZE / 4;
	void *parameters[] = {&to, &value, &count};

	status(world, action,
	       launch(target(world, action), action->form,
		      context_of(world, action)->kernel[KERNEL_fill], parameters));
}

void run_move(struct world *world, const struct action *action)
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
void run_blend(struct world *world, const struct action *action)
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

static void finish_copy(struct world *world, const struct action *action, CUresult result)
{
	status(world, action, result);
	if (result == CUDA_SUCCESS && buffer_is_pageable(action->to))
		saw(world, action, action->to);
	else if (result == CUDA_SUCCESS && action->item && !buffer_is_device(action->to))
		saw(world, action, action->to);
}

void run_copy(struct world *world, const struct action *action)
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

void run_copy_now(struct world *world, const struct action *action)
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

void run_plane(struct world *world, const struct action *action)
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

void run_set(struct world *world, const struct action *action)
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

void run_set_now(struct world *world, const struct action *action)
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

void run_peer(struct world *world, const struct action *action)
{
	struct target on = target(world, action);

	status(world, action,
	       ON(on, cuMemcpyPeerAsync)(world->buffer[action->to],
					 context_of(world, action)->handle,
					 world->buffer[action->from],
					 world->context[action->item].handle, SIZE, on.stream));
}

void run_peer_now(struct world *world, const struct action *action)
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
void run_add(struct world *world, const struct action *action)
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

void action_run(struct world *world, const struct action *action)
{
	static void (*const run[])(struct world *, const struct action *) = {
#define A(name) run_##name,
		EACH_ACTION(A)
#undef A
	};

	run[action->kind](world, action);
}
