// SPDX-License-Identifier: MIT
/*
 * What operations become that capture, that make memory and streams come and go, that ask, err, or use threads. Called by operations.c; plan.c sees
 * to the order.
 */
#include "operations.h"

/* ---- captures ---- */

void plan_begin(struct planner *p)
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
void plan_fork(struct planner *p)
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

void plan_end(struct planner *p)
{
	if (p->capture.active)
		capture_close(p);
}

void plan_replay(struct planner *p)
{
	unsigned int slot = p->operation->number[3] % EXECS, lane, context;
	struct action *action;

	context = p->exec[slot].context;
	lane = some_lane(p, context);
	if (!p->exec[slot].there || p->beside || !runs_now(p, context, lane))
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

void plan_take(struct planner *p)
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

void plan_give(struct planner *p)
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
void plan_renew(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context), buffer;
	struct set reads, writes;
	struct action *action;

	buffer = pick(p, ((1u << PLAIN) - 1) << context * OF_CONTEXT, number[3]);
	if (buffer == BUFFERS || !may_wait(p))
		return;
	/* A free waits for its own device only, and the other context may be another's. */
	if (p->plan->program->contexts > 1 && !host_behind(p, p->operation->thread, 0, bit(buffer)))
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

void plan_pin(struct planner *p)
{
	plan_block_of(p, ACTION_pin, ((1u << PINNED) - 1) << FIRST_PINNED);
}

void plan_map(struct planner *p)
{
	plan_block_of(p, ACTION_map, bit(FIRST_REGISTERED));
}

void plan_restart(struct planner *p)
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

/* A stream or a capture of the thread's own, which begins and ends in one action: for a lane it is one write. */
void plan_brief(struct planner *p)
{
	const uint16_t *number = p->operation->number;
	unsigned int context = some_context(p), lane = some_lane(p, context),
		     to = pick(p, device_buffers(context), number[3] / 4);
	struct action *action;

	if (to == BUFFERS || p->capture.active)
		return;
	action = place(p, ACTION_brief, p->operation->thread,
		       (struct effect){context, lane, bit(to), bit(to)});
	if (!action)
		return;
	action->to = (uint8_t)to;
	/* A graph that is made may wait for what is behind a gate. */
	action->item = (uint8_t)(number[3] % (may_wait(p) ? 4 : 2));
}

/* ---- questions and mistakes ---- */

void plan_ask(struct planner *p)
{
	append(p, ACTION_ask, p->operation->thread, some_context(p), LEGACY);
}

void plan_wrong(struct planner *p)
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
void plan_flood(struct planner *p)
{
	unsigned int thread = p->operation->thread, threads = p->plan->program->threads,
		     way = p->operation->number[3] % 4;
	unsigned int lane = way < 2 ? FIRST_BLOCKING : LEGACY,
		     used = way == 1 || way == 2 ? bit(thread) : 0;
	struct action *action;

	if (threads < 2 || p->words == WORDS)
		return;
	/* The default stream is rewritten from here on: both kinds of streams are used. */
	for (unsigned int i = 0; i < 3; i++) {
		action = place(p, ACTION_set, thread,
			       (struct effect){0, i ? LEGACY : FIRST_BLOCKING, 0, 0});
		if (action)
			action->to = BUFFERS;
	}
	action = place(p, ACTION_flood, thread, (struct effect){0, lane, 0, used});
	if (!action)
		return;
	action->item = (uint8_t)p->words;
	action->from = (uint8_t)way;
	action->to = (uint8_t)thread;
	if (used) {
		/* No kernel: its first launch would be slow, too. */
		action = place(p, ACTION_set, thread, (struct effect){0, LEGACY, 0, used});
		if (action)
			action->to = (uint8_t)thread;
	}
	p->closing = true;
	action = append(p, ACTION_flood_open, (thread + 1) % threads, 0, LEGACY);
	p->closing = false;
	if (!action)
		return;
	action->item = (uint8_t)p->words++;
	action->from = (uint8_t)way;
}

/* Marks of the program: plan.c looks at them. */
void plan_parallel(struct planner *p)
{
}

void plan_serial(struct planner *p)
{
}
