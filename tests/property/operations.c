// SPDX-License-Identifier: MIT
/*
 * What each operation of a program becomes: which stream, buffers and event its numbers mean at this place, and whether it may be done here
 * at all. Called by plan.c, which sees to the order.
 */
#include "plan.h"

#include <stddef.h>

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

static uint32_t device_buffers(unsigned int context)
{
	return ((1u << OF_CONTEXT) - 1) << context * OF_CONTEXT;
}

#define PINNED_BUFFERS   (((1u << (PINNED + REGISTERED)) - 1) << FIRST_PINNED)
#define PAGEABLE_BUFFERS (((1u << PAGEABLE) - 1) << FIRST_PAGEABLE)

/* One of them, mostly the first few; BUFFERS where there is none. */
static unsigned int pick(const struct planner *p, uint32_t among, unsigned int number)
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

static unsigned int some_context(const struct planner *p)
{
	return p->plan->program->contexts > 1 && p->operation->number[0] % 4 == 0;
}

static unsigned int lane_of(const struct planner *p, unsigned int number, unsigned int spread)
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

/* Legacy calls that will be refused end the capture: now and then is enough. */
static unsigned int some_lane(struct planner *p, unsigned int context)
{
	const uint16_t *number = p->operation->number;
	unsigned int lane = lane_of(p, number[1], number[2]);

	if (is_refused(p, context, lane) && number[2] % 5)
		lane = FIRST_BLOCKING + number[2] % p->plan->program->blocking;
	return lane;
}

static bool is_for_nodes(const struct planner *p, unsigned int context, unsigned int lane)
{
	/* What the legacy stream gets while it is refused ends the capture just the same. */
	return !is_captured(p, context, lane) && !is_refused(p, context, lane);
}

/* ---- work ---- */

static void plan_kernel(struct planner *p)
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
	if (!now && !is_for_nodes(p, context, lane) &&
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

static void plan_copy(struct planner *p)
{
	plan_copy_of(p, ACTION_copy, false);
}

static void plan_copy_now(struct planner *p)
{
	plan_copy_of(p, ACTION_copy_now, true);
}

static void plan_plane(struct planner *p)
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

static void plan_set(struct planner *p)
{
	plan_set_of(p, false);
}

static void plan_set_now(struct planner *p)
{
	plan_set_of(p, true);
}

static void plan_peer(struct planner *p)
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
static void plan_add(struct planner *p)
{
	unsigned int lane = lane_of(p, p->operation->number[1], p->operation->number[2]);

	if (p->capture.active)
		return;
	if (!lane_is_legacy_ordered(lane))
		lane = LEGACY;
	append(p, ACTION_add, p->operation->thread, some_context(p), lane);
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
	if (kind == ACTION_callback && !is_for_nodes(p, context, lane))
		return;
	action = place(p, kind, p->operation->thread,
		       (struct effect){context, lane, bit(from) | bit(to), bit(to)});
	if (action) {
		action->to = (uint8_t)to;
		action->from = (uint8_t)from;
	}
}

static void plan_host(struct planner *p)
{
	plan_host_of(p, ACTION_host);
}

static void plan_callback(struct planner *p)
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

static void plan_look(struct planner *p)
{
	plan_look_of(p, ACTION_look);
}

static void plan_touch(struct planner *p)
{
	plan_look_of(p, ACTION_touch);
}

/* ---- order that the program makes itself ---- */

static void plan_record(struct planner *p)
{
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     thread = p->operation->thread;

	if (!is_captured(p, context, lane))
		record_on(p, thread, context, lane, some_event(p, thread, p->operation->number[3]));
}

static void plan_wait(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     thread = p->operation->thread, event = some_event(p, thread, number[3]),
		     from = p->plan->program->contexts > 1 ? number[4] % 2 : 0;

	if (!is_captured(p, context, lane) && view_of(p, thread)->event[from][event].recorded)
		wait_on(p, thread, context, lane, from, event);
}

static void plan_synchronize(struct planner *p)
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

/* Queries have an answer only behind a gate, and behind a wait. */
static void plan_query(struct planner *p)
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
	if (!p->gate.closed && append(p, ACTION_synchronize, thread, context, lane))
		host_knows(p, thread, &work);
	append(p, ACTION_query, thread, context, lane);
}

static void plan_hand(struct planner *p)
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

static void plan_gate(struct planner *p)
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

static void plan_open(struct planner *p)
{
	if (p->gate.closed)
		gate_open(p, p->operation->thread);
}

/* ---- captures ---- */

static void plan_begin(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context);

	if (lane == LEGACY)
		lane = p->plan->program->side && number[2] % 2 ? FIRST_SIDE : FIRST_BLOCKING;
	if (!may_wait(p) || p->beside ||
	    !append(p, ACTION_begin, p->operation->thread, context, lane))
		return;
	p->plan->action[p->plan->count - 1].item = (uint8_t)(number[3] % 3);
	p->capture.active = p->capture.valid = true;
	p->capture.blocks = lane_is_legacy_ordered(lane);
	p->capture.thread = p->operation->thread;
	p->capture.context = context;
	p->capture.lane = lane;
	p->capture.second = LANES;
	p->capture.mode = number[3] % 3;
	p->capture.left = 2 + number[4] % 6;
	p->capture.reads = p->capture.writes = 0;
}

/* Another stream is pulled into the capture, and works beside the first one. */
static void plan_fork(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = p->capture.context, other = lane_of(p, number[1], number[2]), to,
		     from;
	struct action *action;

	/* Of an invalid capture the other stream would be no part. */
	if (!p->capture.active || !p->capture.valid || p->capture.second != LANES ||
	    other == LEGACY || other == p->capture.lane || p->capture.lane >= OWN || other >= OWN)
		return;
	to = pick(p, device_buffers(context), number[3]);
	from = pick(p, device_buffers(context), number[4]);
	if (to == from || to == BUFFERS)
		return;
	action = place(p, ACTION_fork, p->operation->thread,
		       (struct effect){context, p->capture.lane, bit(to) | bit(from),
				       bit(to) | bit(from)});
	if (!action)
		return;
	action->to = (uint8_t)to;
	action->from = (uint8_t)from;
	action->item = (uint8_t)other;
	p->capture.second = other;
	p->capture.blocks |= lane_is_legacy_ordered(other);
}

void capture_close(struct planner *p)
{
	unsigned int slot = p->operation->number[4] % EXECS;
	struct action *action;

	p->closing = true;
	action = append(p, ACTION_end, p->capture.thread, p->capture.context, p->capture.lane);
	p->closing = false;
	p->capture.active = false;
	if (!action)
		return;
	action->item = (uint8_t)slot;
	action->from = p->capture.valid;
	p->exec[slot].there = p->capture.valid;
	p->exec[slot].context = p->capture.context;
	p->exec[slot].reads = p->capture.reads;
	p->exec[slot].writes = p->capture.writes;
}

static void plan_end(struct planner *p)
{
	if (p->capture.active)
		capture_close(p);
}

static void plan_replay(struct planner *p)
{
	unsigned int slot = p->operation->number[3] % EXECS, lane, context;
	struct action *action;

	context = p->exec[slot].context;
	lane = some_lane(p, context);
	if (!p->exec[slot].there || p->beside || !is_for_nodes(p, context, lane))
		return;
	action = place(p, ACTION_replay, p->operation->thread,
		       (struct effect){context, lane, p->exec[slot].reads, p->exec[slot].writes});
	if (action)
		action->item = (uint8_t)slot;
}

/* ---- memory and streams that come and go ---- */

static void forget_graphs_with(struct planner *p, unsigned int buffer)
{
	for (unsigned int i = 0; i < EXECS; i++)
		if ((p->exec[i].reads | p->exec[i].writes) & bit(buffer))
			p->exec[i].there = false;
}

static void plan_take(struct planner *p)
{
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     buffer = context * OF_CONTEXT + PLAIN + p->operation->number[3] % POOLED;
	struct action *action;

	if (p->live & bit(buffer) || p->capture.active || p->beside)
		return;
	p->reads[buffer] = p->writes[buffer] = (struct set){{0}};
	action = place(p, ACTION_take, p->operation->thread,
		       (struct effect){context, lane, 0, bit(buffer)});
	if (!action)
		return;
	action->to = (uint8_t)buffer;
	p->live |= bit(buffer);
}

static void plan_give(struct planner *p)
{
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     buffer = context * OF_CONTEXT + PLAIN + p->operation->number[3] % POOLED;
	struct action *action;

	if (!(p->live & bit(buffer)) || p->capture.active || p->beside)
		return;
	action = place(p, ACTION_give, p->operation->thread,
		       (struct effect){context, lane, 0, bit(buffer)});
	if (!action)
		return;
	action->to = (uint8_t)buffer;
	p->live &= ~bit(buffer);
	forget_graphs_with(p, buffer);
}

/* Freed while it may be in use, allocated again, and filled by the next action on a lane. */
static void plan_renew(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context), buffer;
	struct set reads, writes;
	struct action *action;

	buffer = pick(p, ((1u << PLAIN) - 1) << context * OF_CONTEXT, number[3]);
	if (buffer == BUFFERS || !may_wait(p))
		return;
	reads = p->reads[buffer];
	writes = p->writes[buffer];
	p->reads[buffer] = p->writes[buffer] = (struct set){{0}};
	action = place(p, ACTION_renew, p->operation->thread,
		       (struct effect){context, lane, 0, bit(buffer)});
	if (!action) {
		p->reads[buffer] = reads;
		p->writes[buffer] = writes;
		return;
	}
	action->to = (uint8_t)buffer;
	forget_graphs_with(p, buffer);
}

static void plan_block_of(struct planner *p, enum action_kind kind, uint32_t among)
{
	unsigned int buffer = pick(p, among, p->operation->number[3]);
	struct action *action;

	if (buffer == BUFFERS || !may_wait(p))
		return;
	action = append(p, kind, p->operation->thread, 0, LEGACY);
	if (!action)
		return;
	action->to = (uint8_t)buffer;
	host_did(p, p->operation->thread, 0, bit(buffer));
	forget_graphs_with(p, buffer);
}

static void plan_pin(struct planner *p)
{
	plan_block_of(p, ACTION_pin, ((1u << PINNED) - 1) << FIRST_PINNED);
}

static void plan_map(struct planner *p)
{
	plan_block_of(p, ACTION_map, bit(FIRST_REGISTERED));
}

static void plan_restart(struct planner *p)
{
	const struct program *program = p->plan->program;
	unsigned int context = some_context(p),
		     lane = lane_of(p, p->operation->number[1], p->operation->number[2]);
	struct view *view = view_of(p, p->operation->thread);

	if (lane == LEGACY || lane >= OWN)
		lane = FIRST_BLOCKING + p->operation->number[2] % program->blocking;
	if (p->beside || p->capture.active ||
	    !append(p, ACTION_restart, p->operation->thread, context, lane))
		return;
	if (lane_is_legacy_ordered(lane))
		set_join(&view->gone[context], &view->lane[context][lane]);
	view->lane[context][lane] = (struct set){{0}};
	p->life[context][lane]++;
}

/* ---- questions and mistakes ---- */

static void plan_ask(struct planner *p)
{
	append(p, ACTION_ask, p->operation->thread, some_context(p), LEGACY);
}

static void plan_wrong(struct planner *p)
{
	struct action *action;

	if (p->gate.closed && p->operation->number[3] % 8 == 7)
		return; /* it frees, and would wait */
	action = append(p, ACTION_wrong, p->operation->thread, some_context(p), LEGACY);
	if (!action)
		return;
	action->item = (uint8_t)(p->operation->number[3] % 8);
	/* While anything captures: what is refused for another reason, and an allocation, which is forbidden then. */
	if (p->capture.active && (action->item < 1 || action->item > 3)) {
		action->item = 7;
		if (p->capture.mode == 0 ||
		    (p->capture.mode == 1 && p->capture.thread == p->operation->thread))
			p->capture.valid = false;
	}
}

/*
 * A thread's call waits, behind a gate: its queue is full, or it launches what is not loaded yet, or it copies from pageable memory. Another
 * thread works on meanwhile, and opens the gate only then. What the call put on its stream in the end, the next action uses.
 */
static void plan_flood(struct planner *p)
{
	unsigned int thread = p->operation->thread, threads = p->plan->program->threads,
		     way = p->operation->number[3] % 4;
	unsigned int lane = way < 2 ? FIRST_BLOCKING : LEGACY,
		     used = way == 1 || way == 2 ? bit(thread) : 0;
	struct action *action;

	if (threads < 2 || p->words == WORDS)
		return;
	/* The default stream is rewritten from here on. */
	action = place(p, ACTION_set, thread, (struct effect){0, LEGACY, 0, 0});
	if (action)
		action->to = BUFFERS;
	action = place(p, ACTION_flood, thread, (struct effect){0, lane, 0, used});
	if (!action)
		return;
	action->item = (uint8_t)p->words;
	action->from = (uint8_t)way;
	action->to = (uint8_t)thread;
	if (used) {
		action = place(p, ACTION_hash, thread, (struct effect){0, LEGACY, used, used});
		if (action)
			action->to = action->from = (uint8_t)thread;
	}
	p->closing = true;
	action = append(p, ACTION_flood_open, (thread + 1) % threads, 0, LEGACY);
	p->closing = false;
	if (!action)
		return;
	action->item = (uint8_t)p->words++;
	action->from = (uint8_t)way;
}

static void plan_nothing(struct planner *p)
{
}

#define plan_parallel plan_nothing
#define plan_serial   plan_nothing

void operation_plan(struct planner *p)
{
	static void (*const plan[])(struct planner *) = {
#define OP(name) plan_##name,
		EACH_OPERATION(OP)
#undef OP
	};

	plan[p->operation->kind](p);
}
