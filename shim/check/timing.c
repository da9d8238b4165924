// SPDX-License-Identifier: MIT
/*
 * Check, S06: an event that keeps time is waited for, or asked for, and no time is ever taken from it. The remark is made with the first wait, and taken
 * back with the first cuEventElapsedTime: so what the record says is right whenever the process ends.
 *
 * events	under check_lock()
 */
#include "check/internal.h"

#include <string.h>

#include "check/kinds.h"

#define EVENTS_MAX 1024

struct timed {
	uint64_t handle;
	struct check_side made;
	struct record_remark *remark; /* NULL: not waited for yet */
};

static struct timed events[EVENTS_MAX];
static uint32_t count;

static struct timed *find(uint64_t handle)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (events[i].handle == handle)
			return &events[i];
	return NULL;
}

static void drop(struct timed *event)
{
	if (event)
		*event = events[check_hint_add(&count, -1)];
}

static void add(const struct call *call, uint64_t handle)
{
	struct timed made = {.handle = handle, .made = check_side_take(call)};
	bool fits;

	if (!check_lock())
		return;
	drop(find(handle));
	fits = count < EVENTS_MAX;
	if (fits) {
		events[count] = made;
		(void)check_hint_add(&count, 1);
	}
	check_unlock();
	if (!fits)
		check_lost("events with timing: too many");
}

/* Its use for order: the first one is the other side. */
static void orders(const struct call *call, uint64_t handle)
{
	struct record_remark *remark;
	struct check_side side, made;
	struct timed *event;
	bool first;

	if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !check_lock())
		return;
	event = find(handle);
	first = event && !event->remark;
	if (first)
		made = event->made;
	check_unlock();
	if (!first)
		return;
	side = check_side_take(call);
	remark = check_remark_open(&made, RULE_TIMING_EVENT_FOR_ORDER, &side);
	if (!check_lock())
		return;
	event = find(handle);
	if (event && !event->remark) {
		event->remark = remark;
		check_remark_count(remark, 1);
	}
	check_unlock();
}

/* Its time was taken: nothing is said of it any more. */
static void times(uint64_t handle)
{
	struct timed *event;

	if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !check_lock())
		return;
	event = find(handle);
	if (event && event->remark)
		check_remark_count(event->remark, -1);
	drop(event);
	check_unlock();
}

/* What was said of it stays. */
static void destroyed(uint64_t handle)
{
	if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !check_lock())
		return;
	drop(find(handle));
	check_unlock();
}

static void before(const struct call *call, const uint64_t *arguments)
{
	if (check_destroys_event(call))
		destroyed(arguments[0]);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	switch (call->function) {
	case FUNCTION_cuEventCreate:
		if (result == CUDA_SUCCESS && !(arguments[1] & CU_EVENT_DISABLE_TIMING))
			add(call, (uint64_t) * (const uintptr_t *)arguments[0]);
		break;
	case FUNCTION_cuEventElapsedTime:
	case FUNCTION_cuEventElapsedTime_v2:
		times(arguments[1]);
		times(arguments[2]);
		break;
	case FUNCTION_cuStreamWaitEvent:
	case FUNCTION_cuStreamWaitEvent_ptsz:
	case FUNCTION_cuEventSynchronize:
	case FUNCTION_cuEventQuery:
		orders(call, call->subject);
		break;
	default:
		break;
	}
}

static void forget(void)
{
	memset(events, 0, sizeof(events));
	count = 0;
}

const struct check_rule check_timing_rule = {.before = before, .after = after, .forget = forget};
