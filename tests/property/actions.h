/* SPDX-License-Identifier: MIT */
/*
 * Internal: what actions.c (work on streams), actions_order.c (order, captures, memory) and actions_odd.c (questions, mistakes, calls that wait) share.
 * Each action has a function run_NAME(), which is called in the action's thread and context.
 */
#ifndef PROPERTY_ACTIONS_H
#define PROPERTY_ACTIONS_H

#include "run.h"

/* Streams by both kinds of names: of the plain ones 0 means the legacy stream, of the others the thread's own. */
#define PTSZ(name) extern __typeof__(name) name##_ptsz
#define PTDS(name) extern __typeof__(name) name##_ptds

struct target {
	CUstream stream;
	bool own; /* through the names whose 0 is the thread's own stream */
};

#define ON(target, name)  ((target).own ? name##_ptsz : name)
#define NOW(target, name) ((target).own ? name##_ptds : name)

static inline struct context *context_of(struct world *world, const struct action *action)
{
	return &world->context[action->context];
}

static inline struct target target_of(struct world *world, const struct action *action,
				      unsigned int lane)
{
	unsigned int form = action->form % 3;

	if (lane == LEGACY)
		return (struct target){form ? CU_STREAM_LEGACY : NULL, form == 2};
	if (lane >= OWN)
		return (struct target){form == 1 ? NULL : CU_STREAM_PER_THREAD, form != 0};
	return (struct target){context_of(world, action)->stream[lane], form == 1};
}

static inline struct target target(struct world *world, const struct action *action)
{
	return target_of(world, action, action->lane);
}

static inline struct log *log_of(struct world *world, const struct action *action)
{
	return &world->log[action->thread];
}

static inline void status(struct world *world, const struct action *action, CUresult result)
{
	log_number(log_of(world, action), action_names[action->kind], result);
}

static inline void saw(struct world *world, const struct action *action, unsigned int buffer)
{
	log_number(log_of(world, action), "saw", bytes_digest((void *)world->buffer[buffer], SIZE));
}

static inline void *host(struct world *world, unsigned int buffer)
{
	return (void *)world->buffer[buffer];
}

CUresult launch(struct target target, unsigned int form, CUfunction kernel, void **parameters);
CUresult hash_on(struct world *world, const struct action *action, struct target target,
		 unsigned int to, unsigned int from);

#define A(name) void run_##name(struct world *world, const struct action *action);
EACH_ACTION(A)
#undef A

#endif
