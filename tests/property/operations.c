// SPDX-License-Identifier: MIT
/*
 * What each operation of a program becomes: which stream, buffers and event its numbers mean at this place, and whether it may be done here
 * at all. Called by plan.c, which sees to the order.
 */
#include "operations.h"

/* ---- choices ---- */

static uint32_t own_buffers(const struct planner *p, unsigned int thread)
{
	uint32_t own = 0;

	if (!p->beside)
		return ~0u;
	for (unsigned int i = 0; i < BUFFERS; i++)
		if (i % p->plan->program->threads == thread)
			own |= bit(i);
	return own;
}

unsigned int pick(const struct planner *p, uint32_t among, unsigned int number)
{
	unsigned int count, wanted;

	among &= p->live & own_buffers(p, p->operation->thread);
	count = (unsigned int)__builtin_popcount(among);
	if (!count)
		return BUFFERS;
	wanted = number % 3 ? number / 3 % count : number / 3 % (count < 2 ? count : 2);
	while (wanted--)
		among &= among - 1;
	return (unsigned int)__builtin_ctz(among);
}

unsigned int lane_of(const struct planner *p, unsigned int number, unsigned int spread)
{
	const struct program *program = p->plan->program;

	number %= 100;
	if (number < 38)
		return LEGACY;
	if (number >= 92 && program->side)
		return FIRST_SIDE + spread % program->side;
	if (number >= 84)
		return OWN + p->operation->thread;
	return FIRST_BLOCKING + spread % program->blocking;
}

unsigned int some_lane(struct planner *p, unsigned int context)
{
	const uint16_t *number = p->operation->number;
	unsigned int lane = lane_of(p, number[1], number[2]);

	if (is_refused(p, context, lane) && number[2] % 5)
		lane = FIRST_BLOCKING + number[2] % p->plan->program->blocking;
	return lane;
}

bool runs_now(const struct planner *p, unsigned int context, unsigned int lane)
{
	return !is_captured(p, context, lane) && !is_refused(p, context, lane);
}

/* ---- work ---- */

void plan_kernel(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context), to, from;
	uint32_t all = device_buffers(context) | PINNED_BUFFERS;
	enum action_kind kind = number[3] % 8 < 4   ? ACTION_hash
				: number[3] % 8 < 5 ? ACTION_fill
				: number[3] % 8 < 7 ? ACTION_move
						    : ACTION_blend;
	struct action *action;
	struct effect effect;

	to = pick(p, number[4] % 5 ? device_buffers(context) : all, number[3] / 8);
	from = pick(p, number[4] % 3 ? device_buffers(context) : all, number[4] / 4);
	if (to == BUFFERS || from == BUFFERS)
		return;
	effect = (struct effect){context, lane, kind == ACTION_fill ? 0 : bit(from), bit(to)};
	if (kind == ACTION_hash || kind == ACTION_blend)
		effect.reads |= bit(to);
	action = place(p, kind, p->operation->thread, effect);
	if (action) {
		action->to = (uint8_t)to;
		action->from = (uint8_t)from;
	}
}

/*
 * A copy in any direction. Pageable memory is the host's: its bytes are taken at the call, or are there when it returns. A synchronous one is on
 * the legacy stream, or, by another name, on the thread's own.
 */
static void plan_copy_of(struct planner *p, enum action_kind kind, bool now)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), thread = p->operation->thread, lane, to, from;
	uint32_t device = device_buffers(context), host = PINNED_BUFFERS | PAGEABLE_BUFFERS;
	struct effect effect;
	struct action *action;
	struct set held;

	lane = now ? number[1] % 6 ? LEGACY : OWN + thread : some_lane(p, context);
	to = pick(p, number[3] % 3 == 0 ? host : device, number[3] / 3);
	from = pick(p, number[4] % 3 == 0 || number[3] % 3 == 0 ? device : host, number[4] / 3);
	if (to == BUFFERS || from == BUFFERS || to == from)
		return;
	if (now && !may_wait(p) && !(kind == ACTION_copy_now && is_refused(p, context, lane)))
		return;
	if (!now && !runs_now(p, context, lane) &&
	    (buffer_is_pageable(to) || buffer_is_pageable(from)))
		return;
	if (buffer_is_pageable(to) && !may_wait(p))
		return;
	if (buffer_is_pageable(from) && !host_behind(p, thread, bit(from), 0))
		return;
	if (buffer_is_pageable(to) && !host_behind(p, thread, 0, bit(to)))
		return;
	held = lane_work(p, thread, context, lane);
	effect = (struct effect){context, lane, bit(from), bit(to)};
	action = place(p, kind, thread, effect);
	if (!action)
		return;
	action->to = (uint8_t)to;
	action->from = (uint8_t)from;
	action->item = now;
	if (is_refused(p, context, lane) || is_captured(p, context, lane))
		return;
	if (buffer_is_pageable(to) || (now && (!buffer_is_device(to) || !buffer_is_device(from)))) {
		/* From pageable memory: what the stream held before is waited for, it itself is not. */
		if (buffer_is_pageable(from))
			host_knows(p, thread, &held);
		else
			host_knows_last(p, thread, context, lane);
	}
	if (buffer_is_pageable(from))
		p->reads[from].bits[(p->plan->count - 1u) / 64] &=
			~(1ull << (p->plan->count - 1u) % 64);
}

void plan_copy(struct planner *p)
{
	plan_copy_of(p, ACTION_copy, false);
}

void plan_copy_now(struct planner *p)
{
	plan_copy_of(p, ACTION_copy_now, true);
}

void plan_plane(struct planner *p)
{
	plan_copy_of(p, ACTION_plane, p->operation->number[2] % 2);
}

static void plan_set_of(struct planner *p, bool now)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), thread = p->operation->thread;
	unsigned int to = pick(p, device_buffers(context), number[3]),
		     lane = now ? number[1] % 6 ? LEGACY : OWN + thread : some_lane(p, context);
	struct action *action;

	if (to == BUFFERS || (now && p->capture.active))
		return;
	action = place(p, now ? ACTION_set_now : ACTION_set, thread,
		       (struct effect){context, lane, 0, bit(to)});
	if (action)
		action->to = (uint8_t)to;
}

void plan_set(struct planner *p)
{
	plan_set_of(p, false);
}

void plan_set_now(struct planner *p)
{
	plan_set_of(p, true);
}

void plan_peer(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int thread = p->operation->thread, context = number[3] % 2, other = !context, to,
		     from;
	bool now = number[2] % 2;
	unsigned int lane = now ? LEGACY : some_lane(p, context);
	struct set clock, missing, *here = &view_of(p, thread)->lane[context][LEGACY], old = *here;
	struct action *action;

	if (p->plan->program->contexts < 2 || p->capture.active || (now && !may_wait(p)))
		return;
	to = pick(p, device_buffers(context), number[3] / 2);
	from = pick(p, device_buffers(other), number[4]);
	if (to == BUFFERS || from == BUFFERS)
		return;
	if (!now) {
		action = place(p, ACTION_peer, thread,
			       (struct effect){context, lane, bit(from), bit(to)});
	} else {
		/* It joins the legacy streams of both contexts. */
		clock = lane_before(p, thread, other, LEGACY);
		missing = p->writes[from];
		missing = set_less(&missing, &clock);
		if (!set_is_empty(&missing))
			return;
		set_join(here, &clock);
		action = place(p, ACTION_peer_now, thread,
			       (struct effect){context, LEGACY, bit(from), bit(to)});
		if (action)
			set_join(&view_of(p, thread)->lane[other][LEGACY], here);
		else
			*here = old;
	}
	if (action) {
		action->to = (uint8_t)to;
		action->from = (uint8_t)from;
		action->item = (uint8_t)other;
	}
}

/* Several actions under a lock of the program, of which each thread's come in an order that nobody knows, and all orders give the same sum. */
void plan_add(struct planner *p)
{
	unsigned int lane = lane_of(p, p->operation->number[1], p->operation->number[2]),
		     context = some_context(p), thread = p->operation->thread;

	if (p->capture.active)
		return;
	if (!lane_is_legacy_ordered(lane))
		lane = LEGACY;
	/* Its buffers are no others', so it needs no order; but what is done of it nobody can say without a wait. */
	if (append(p, ACTION_add, thread, context, lane))
		p->added[context] = true;
}

/* ---- host functions, and what the host does itself ---- */

static void plan_host_of(struct planner *p, enum action_kind kind)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     to = pick(p, PINNED_BUFFERS | PAGEABLE_BUFFERS, number[3]),
		     from = pick(p, PINNED_BUFFERS | PAGEABLE_BUFFERS, number[4]);
	struct action *action;

	if (to == BUFFERS || from == BUFFERS)
		return;
	if (kind == ACTION_callback && !runs_now(p, context, lane))
		return;
	action = place(p, kind, p->operation->thread,
		       (struct effect){context, lane, bit(from) | bit(to), bit(to)});
	if (action) {
		action->to = (uint8_t)to;
		action->from = (uint8_t)from;
	}
}

void plan_host(struct planner *p)
{
	plan_host_of(p, ACTION_host);
}

void plan_callback(struct planner *p)
{
	plan_host_of(p, ACTION_callback);
}

static void plan_look_of(struct planner *p, enum action_kind kind)
{
	unsigned int thread = p->operation->thread,
		     buffer = pick(p, PINNED_BUFFERS | PAGEABLE_BUFFERS, p->operation->number[3]);
	bool writes = kind == ACTION_touch;
	struct action *action;

	if (buffer == BUFFERS || !host_behind(p, thread, bit(buffer), writes ? bit(buffer) : 0))
		return;
	action = append(p, kind, thread, 0, LEGACY);
	if (action) {
		action->to = (uint8_t)buffer;
		host_did(p, thread, bit(buffer), writes ? bit(buffer) : 0);
	}
}

void plan_look(struct planner *p)
{
	plan_look_of(p, ACTION_look);
}

void plan_touch(struct planner *p)
{
	plan_look_of(p, ACTION_touch);
}

/* ---- order that the program makes itself ---- */

void plan_record(struct planner *p)
{
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     thread = p->operation->thread;

	if (!is_captured(p, context, lane))
		record_on(p, thread, context, lane, some_event(p, thread, p->operation->number[3]));
}

void plan_wait(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     thread = p->operation->thread, event = some_event(p, thread, number[3]),
		     from = p->plan->program->contexts > 1 ? number[4] % 2 : 0;

	if (!is_captured(p, context, lane) && view_of(p, thread)->event[from][event].recorded)
		wait_on(p, thread, context, lane, from, event);
}

void plan_synchronize(struct planner *p)
{
	unsigned int context = some_context(p), lane = some_lane(p, context);

	if (p->gate.closed || is_captured(p, context, lane))
		return;
	if (p->capture.active) {
		/* Waits for other streams are allowed; one for the legacy stream is refused. */
		if (!lane_is_legacy_ordered(lane))
			return;
		if (is_refused(p, context, lane))
			p->capture.valid = false;
		append(p, ACTION_synchronize, p->operation->thread, context, lane);
		return;
	}
	wait_for_lane(p, p->operation->thread, context, lane);
}

/* A lane with work that the host knows done, so that a query has one answer without a wait before; LANES where there is none. */
static unsigned int known_lane(struct planner *p, unsigned int context, unsigned int spread)
{
	unsigned int thread = p->operation->thread;

	for (unsigned int i = 0; i < LANES && !p->added[context]; i++) {
		unsigned int lane = (i + spread) % LANES;
		struct set work = lane_work(p, thread, context, lane), missing;

		missing = set_less(&work, &view_of(p, thread)->host);
		if (lane < OWN && !set_is_empty(&work) && set_is_empty(&missing))
			return lane;
	}
	return LANES;
}

/* Queries have an answer only behind a gate, and behind a wait. */
void plan_query(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     thread = p->operation->thread, event = some_event(p, thread, number[3]);
	struct view *view = view_of(p, thread);
	struct set work = lane_work(p, thread, context, lane);
	struct action *action;

	if (p->beside || p->capture.active)
		return;
	if (number[4] % 3 == 0 && view->event[context][event].recorded) {
		if (!p->gate.closed)
			action = append(p, ACTION_synchronize_event, thread, context, lane);
		else if (set_has(&view->event[context][event].clock, p->gate.action))
			action = NULL;
		else
			return;
		if (action) {
			action->item = (uint8_t)event;
			host_knows(p, thread, &view->event[context][event].clock);
		}
		action = append(p, ACTION_query_event, thread, context, lane);
		if (action)
			action->item = (uint8_t)event;
		return;
	}
	if (p->gate.closed && !set_has(&work, p->gate.action))
		return;
	if (!p->gate.closed && number[4] % 3 == 1) {
		lane = known_lane(p, context, number[2]);
		if (lane < LANES)
			append(p, ACTION_query, thread, context, lane);
		return;
	}
	if (!p->gate.closed && append(p, ACTION_synchronize, thread, context, lane))
		host_knows(p, thread, &work);
	append(p, ACTION_query, thread, context, lane);
}

void plan_hand(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     thread = p->operation->thread, other = lane_of(p, number[3], number[4]);
	struct action *action;
	struct set clock;

	if (p->capture.active || p->words == WORDS)
		return;
	action = place(p, ACTION_write_value, thread, (struct effect){context, lane, 0, 0});
	if (!action)
		return;
	action->item = (uint8_t)p->words;
	clock = view_of(p, thread)->lane[context][lane];
	action = place(p, ACTION_wait_value, thread, (struct effect){context, other, 0, 0});
	if (action) {
		action->item = (uint8_t)p->words;
		set_join(&view_of(p, thread)->lane[context][other], &clock);
	}
	p->words++;
}

void plan_gate(struct planner *p)
{
	unsigned int context = some_context(p), lane = some_lane(p, context);
	struct action *action;

	if (!may_wait(p) || p->beside || p->words == WORDS)
		return;
	action = place(p, ACTION_gate, p->operation->thread, (struct effect){context, lane, 0, 0});
	if (!action)
		return;
	action->item = (uint8_t)p->words;
	p->gate.closed = true;
	p->gate.action = p->plan->count - 1u;
	p->gate.word = p->words++;
	p->gate.left = 2 + p->operation->number[3] % 6;
}

void gate_open(struct planner *p, unsigned int thread)
{
	struct action *action;

	p->closing = true;
	action = append(p, ACTION_open, thread, 0, LEGACY);
	p->closing = false;
	if (action)
		action->item = (uint8_t)p->gate.word;
	p->gate.closed = false;
}

void plan_open(struct planner *p)
{
	if (p->gate.closed)
		gate_open(p, p->operation->thread);
}

void operation_plan(struct planner *p)
{
	static void (*const plan[])(struct planner *) = {
#define OP(name) plan_##name,
		EACH_OPERATION(OP)
#undef OP
	};

	plan[p->operation->kind](p);
}
