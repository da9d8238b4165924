/* SPDX-License-Identifier: MIT */
/*
 * Internal: what operations.c (work and order) and operations_life.c (captures, what comes and goes, oddities) share: which stream and buffer the
 * numbers of an operation mean. Each operation has a function plan_NAME().
 */
#ifndef PROPERTY_OPERATIONS_H
#define PROPERTY_OPERATIONS_H

#include "plan.h"

#define PINNED_BUFFERS   (((1u << (PINNED + REGISTERED)) - 1) << FIRST_PINNED)
#define PAGEABLE_BUFFERS (((1u << PAGEABLE) - 1) << FIRST_PAGEABLE)

static inline uint32_t device_buffers(unsigned int context)
{
	return ((1u << OF_CONTEXT) - 1) << context * OF_CONTEXT;
}

static inline unsigned int some_context(const struct planner *p)
{
	return p->plan->program->contexts > 1 && p->operation->number[0] % 4 == 0;
}

/* One of these buffers that there are, mostly one of the first two; BUFFERS where there is none. */
unsigned int pick(const struct planner *p, uint32_t among, unsigned int number);
unsigned int lane_of(const struct planner *p, unsigned int number, unsigned int spread);
/* The operation's. Legacy calls that will be refused end the capture: now and then is enough. */
unsigned int some_lane(struct planner *p, unsigned int context);
/* Neither captured nor refused. */
bool runs_now(const struct planner *p, unsigned int context, unsigned int lane);

#define OP(name) void plan_##name(struct planner *p);
EACH_OPERATION(OP)
#undef OP

#endif
