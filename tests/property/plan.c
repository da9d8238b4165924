// SPDX-License-Identifier: MIT
/*
 * Plans: which action comes behind which, and what is added where nothing says so. Called by main.c; operations.c calls back.
 *
 * The rules are those of the driver's documentation: a lane is in order; an operation on the legacy stream of a context comes behind all
 * earlier work of its blocking and per-thread streams, and in front of all later; an event recorded and waited for, a value written and waited
 * for, a wait of the host. Where two actions conflict (one writes what the other uses) and none of these orders them, one is added: mostly an
 * operation on the legacy stream between them, else an event, else a wait.
 */
#include "plan.h"

#include <string.h>

#define KEPT_FREE 8 /* actions that one operation may need at the end */

const char *const action_names[] = {
#define A(name) #name,
	EACH_ACTION(A)
#undef A
};

/* ---- sets ---- */

bool set_has(const struct set *set, unsigned int number)
{
	return set->bits[number / 64] >> number % 64 & 1;
}

static void set_add(struct set *set, unsigned int number)
{
	set->bits[number / 64] |= 1ull << number % 64;
}

bool set_is_empty(const struct set *set)
{
	for (unsigned int i = 0; i < ACTIONS / 64; i++)
		if (set->bits[i])
			return false;
	return true;
}

void set_join(struct set *to, const struct set *from)
{
	for (unsigned int i = 0; i < ACTIONS / 64; i++)
		to->bits[i] |= from->bits[i];
}

struct set set_less(const struct set *from, const struct set *less)
{
	struct set rest;

	for (unsigned int i = 0; i < ACTIONS / 64; i++)
		rest.bits[i] = from->bits[i] & ~less->bits[i];
	return rest;
}

static unsigned int set_last(const struct set *set)
{
	for (unsigned int i = ACTIONS / 64; i; i--)
		if (set->bits[i - 1])
			return i * 64 - 1 - (unsigned int)__builtin_clzll(set->bits[i - 1]);
	return 0;
}

/* ---- views ---- */

struct view *view_of(struct planner *p, unsigned int thread)
{
	return &p->view[p->beside ? thread : 0];
}

static void part(struct planner *p)
{
	for (unsigned int t = 1; t < THREADS; t++)
		p->view[t] = p->view[0];
}

/* They have joined: all that each knew, all know. */
static void meet(struct planner *p)
{
	struct view *all = &p->view[0];

	for (unsigned int t = 1; t < p->plan->program->threads; t++) {
		for (unsigned int c = 0; c < CONTEXTS; c++) {
			for (unsigned int i = 0; i < LANES; i++)
				set_join(&all->lane[c][i], &p->view[t].lane[c][i]);
			set_join(&all->gone[c], &p->view[t].gone[c]);
			all->event[c][2 * t] = p->view[t].event[c][2 * t];
			all->event[c][2 * t + 1] = p->view[t].event[c][2 * t + 1];
		}
		set_join(&all->host, &p->view[t].host);
	}
}

struct set lane_work(struct planner *p, unsigned int thread, unsigned int context,
		     unsigned int lane)
{
	struct view *view = view_of(p, thread);
	struct set work = view->lane[context][lane];

	if (lane == LEGACY) {
		for (unsigned int i = 0; i < LANES; i++)
			if (lane_is_legacy_ordered(i))
				set_join(&work, &view->lane[context][i]);
		set_join(&work, &view->gone[context]);
	}
	return work;
}

struct set lane_before(struct planner *p, unsigned int thread, unsigned int context,
		       unsigned int lane)
{
	struct view *view = view_of(p, thread);
	struct set before = lane_work(p, thread, context, lane);

	if (lane_is_legacy_ordered(lane))
		set_join(&before, &view->lane[context][LEGACY]);
	set_join(&before, &view->host);
	return before;
}

static struct set conflicts(const struct planner *p, uint32_t reads, uint32_t writes)
{
	struct set all = {{0}};

	for (unsigned int i = 0; i < BUFFERS; i++) {
		if ((reads | writes) & bit(i))
			set_join(&all, &p->writes[i]);
		if (writes & bit(i))
			set_join(&all, &p->reads[i]);
	}
	return all;
}

static void note_access(struct planner *p, unsigned int action, uint32_t reads, uint32_t writes)
{
	for (unsigned int i = 0; i < BUFFERS; i++) {
		if (writes & bit(i)) {
			memset(&p->reads[i], 0, sizeof(p->reads[i]));
			memset(&p->writes[i], 0, sizeof(p->writes[i]));
			set_add(&p->writes[i], action);
		} else if (reads & bit(i)) {
			set_add(&p->reads[i], action);
		}
	}
}

/* ---- what may be done ---- */

unsigned int drawn(struct planner *p, unsigned int bound)
{
	return (unsigned int)(next_random(&p->random) % bound);
}

bool may_wait(const struct planner *p)
{
	return !p->gate.closed && !p->capture.active;
}

bool is_captured(const struct planner *p, unsigned int context, unsigned int lane)
{
	return p->capture.active && p->capture.context == context &&
	       (p->capture.lane == lane || p->capture.second == lane);
}

bool is_refused(const struct planner *p, unsigned int context, unsigned int lane)
{
	return lane == LEGACY && p->capture.active && p->capture.blocks &&
	       p->capture.context == context;
}

unsigned int some_event(const struct planner *p, unsigned int thread, unsigned int number)
{
	return p->beside ? thread * 2 + number % 2 : number % (2 * p->plan->program->threads);
}

/* Of another thread's own stream only that thread can speak; beside each other nobody asks it to. */
static bool can_name(const struct planner *p, unsigned int *thread, unsigned int lane)
{
	if (lane < OWN || lane - OWN == *thread)
		return true;
	*thread = lane - OWN;
	return !p->beside;
}

/* ---- actions ---- */

struct action *append(struct planner *p, enum action_kind kind, unsigned int thread,
		      unsigned int context, unsigned int lane)
{
	struct plan *plan = p->plan;
	struct action *action = &plan->action[plan->count];

	if (plan->count >= ACTIONS - (p->closing ? 0 : KEPT_FREE))
		return NULL;
	*action = (struct action){
		.kind = (uint8_t)kind,
		.thread = (uint8_t)thread,
		.context = (uint8_t)context,
		.lane = (uint8_t)lane,
		.segment = plan->segments,
		.operation = (uint16_t)p->number,
		.form = (uint8_t)p->operation->number[5],
		.value = p->operation->number[4],
	};
	p->at[plan->count].context = (uint8_t)context;
	p->at[plan->count].lane = (uint8_t)lane;
	p->at[plan->count].life = p->life[context][lane];
	plan->count++;
	return action;
}

static unsigned int last(const struct planner *p)
{
	return p->plan->count - 1u;
}

/* The last action is on its lane. */
static void goes_there(struct planner *p, unsigned int thread, unsigned int context,
		       unsigned int lane)
{
	struct set before = lane_before(p, thread, context, lane);

	set_add(&before, last(p));
	view_of(p, thread)->lane[context][lane] = before;
}

void host_knows(struct planner *p, unsigned int thread, const struct set *done)
{
	set_join(&view_of(p, thread)->host, done);
}

void host_knows_last(struct planner *p, unsigned int thread, unsigned int context,
		     unsigned int lane)
{
	host_knows(p, thread, &view_of(p, thread)->lane[context][lane]);
}

void host_did(struct planner *p, unsigned int thread, uint32_t reads, uint32_t writes)
{
	set_add(&view_of(p, thread)->host, last(p));
	note_access(p, last(p), reads, writes);
}

void record_on(struct planner *p, unsigned int thread, unsigned int context, unsigned int lane,
	       unsigned int event)
{
	struct action *action = append(p, ACTION_record, thread, context, lane);
	struct planned_event *planned;

	if (!action)
		return;
	action->item = (uint8_t)event;
	if (is_refused(p, context, lane)) {
		p->capture.valid = false;
		return;
	}
	goes_there(p, thread, context, lane);
	planned = &view_of(p, thread)->event[context][event];
	planned->recorded = true;
	planned->clock = view_of(p, thread)->lane[context][lane];
}

void wait_on(struct planner *p, unsigned int thread, unsigned int context, unsigned int lane,
	     unsigned int event_context, unsigned int event)
{
	struct action *action = append(p, ACTION_wait, thread, context, lane);

	if (!action)
		return;
	action->item = (uint8_t)event;
	action->from = (uint8_t)event_context;
	if (is_refused(p, context, lane)) {
		p->capture.valid = false;
		return;
	}
	goes_there(p, thread, context, lane);
	set_join(&view_of(p, thread)->lane[context][lane],
		 &view_of(p, thread)->event[event_context][event].clock);
}

/* Waits in one of the ways that there are. */
void wait_for_lane(struct planner *p, unsigned int thread, unsigned int context, unsigned int lane)
{
	struct set done = lane_work(p, thread, context, lane);
	unsigned int way = drawn(p, 8), event = some_event(p, thread, way);
	struct action *action;

	if (way == 0) {
		record_on(p, thread, context, lane, event);
		done = view_of(p, thread)->lane[context][lane];
		action = append(p, ACTION_synchronize_event, thread, context, lane);
		if (action)
			action->item = (uint8_t)event;
	} else {
		action = append(p, way == 1 ? ACTION_poll : ACTION_synchronize, thread, context,
				lane);
	}
	if (action)
		host_knows(p, thread, &done);
}

static void wait_for_all(struct planner *p, unsigned int thread, unsigned int context)
{
	struct view *view = view_of(p, thread);

	if (!append(p, ACTION_synchronize_all, thread, context, LEGACY))
		return;
	for (unsigned int i = 0; i < LANES; i++)
		host_knows(p, thread, &view->lane[context][i]);
	host_knows(p, thread, &view->gone[context]);
}

/* An operation on the legacy stream, of no other use than to be there. */
static bool bridge(struct planner *p, unsigned int thread, unsigned int context)
{
	struct action *action;

	if (is_refused(p, context, LEGACY))
		return false;
	if (drawn(p, 3) == 0) {
		record_on(p, thread, context, LEGACY, some_event(p, thread, drawn(p, 16)));
		return true;
	}
	action = append(p, ACTION_set, thread, context, LEGACY);
	if (action) {
		action->to = BUFFERS; /* scratch */
		goes_there(p, thread, context, LEGACY);
	}
	return action;
}

/* One more of the missing actions comes in front of the lane. */
static bool order_one(struct planner *p, unsigned int thread, const struct set *missing,
		      unsigned int context, unsigned int lane)
{
	unsigned int number = set_last(missing), from = p->at[number].context,
		     from_lane = p->at[number].lane, event, speaker = thread;
	bool alive = p->life[from][from_lane] == p->at[number].life,
	     ordered = lane_is_legacy_ordered(from_lane);

	if (ordered && from == context && lane != LEGACY && lane_is_legacy_ordered(lane) &&
	    (drawn(p, 4) || !alive) && bridge(p, thread, context))
		return true;
	if (may_wait(p) && drawn(p, 6) == 0) {
		if (alive && can_name(p, &speaker, from_lane) && drawn(p, 4))
			wait_for_lane(p, speaker, from, from_lane);
		else
			wait_for_all(p, thread, from);
		return true;
	}
	if ((!alive || !can_name(p, &speaker, from_lane)) && ordered) {
		from_lane = LEGACY;
		speaker = thread;
	} else if (!alive) {
		if (!may_wait(p))
			return false;
		wait_for_all(p, thread, from);
		return true;
	}
	if (is_captured(p, from, from_lane) || is_refused(p, from, from_lane))
		return false;
	event = some_event(p, p->beside ? thread : speaker, drawn(p, 16));
	record_on(p, speaker, from, from_lane, event);
	wait_on(p, thread, context, lane, from, event);
	return true;
}

struct action *place(struct planner *p, enum action_kind kind, unsigned int thread, struct effect e)
{
	struct set all, before, missing;
	struct action *action;

	if (is_captured(p, e.context, e.lane)) {
		action = append(p, kind, thread, e.context, e.lane);
		if (action && p->capture.valid) {
			p->capture.reads |= e.reads;
			p->capture.writes |= e.writes;
		}
		return action;
	}
	if (is_refused(p, e.context, e.lane)) {
		p->capture.valid = false;
		return append(p, kind, thread, e.context, e.lane);
	}
	all = conflicts(p, e.reads, e.writes);
	for (unsigned int tries = 0;; tries++) {
		before = lane_before(p, thread, e.context, e.lane);
		missing = set_less(&all, &before);
		if (set_is_empty(&missing))
			break;
		if (tries == 8 || p->plan->count >= ACTIONS - KEPT_FREE ||
		    !order_one(p, thread, &missing, e.context, e.lane))
			return NULL;
	}
	action = append(p, kind, thread, e.context, e.lane);
	if (action) {
		goes_there(p, thread, e.context, e.lane);
		note_access(p, last(p), e.reads, e.writes);
	}
	return action;
}

bool host_behind(struct planner *p, unsigned int thread, uint32_t reads, uint32_t writes)
{
	struct set all = conflicts(p, reads, writes);

	for (unsigned int tries = 0; tries < 8 && p->plan->count < ACTIONS - KEPT_FREE; tries++) {
		struct set missing = set_less(&all, &view_of(p, thread)->host);
		unsigned int number = set_last(&missing), context = p->at[number].context,
			     lane = p->at[number].lane, speaker = thread;

		if (set_is_empty(&missing))
			return true;
		if (!may_wait(p))
			return false;
		if (lane_is_legacy_ordered(lane) && drawn(p, 3))
			lane = LEGACY;
		if (p->life[context][lane] != p->at[number].life && lane != LEGACY)
			wait_for_all(p, thread, context);
		else if (drawn(p, 10) == 0 || !can_name(p, &speaker, lane))
			wait_for_all(p, thread, context);
		else
			wait_for_lane(p, p->beside ? thread : speaker, context, lane);
	}
	return false;
}

/* ---- the whole ---- */

static void begin_segment(struct planner *p, bool beside)
{
	if (p->beside)
		meet(p);
	p->beside = beside;
	p->plan->segments++;
	p->plan->beside[p->plan->segments] = beside;
	if (beside)
		part(p);
}

/* What a read on the legacy stream would not come behind must be waited for. */
static void finish(struct planner *p)
{
	p->plan->live = p->live;
	for (unsigned int i = 0; i < FIRST_PINNED; i++) {
		struct set all = conflicts(p, 0, bit(i)),
			   before = lane_before(p, 0, buffer_context(i), LEGACY),
			   missing = set_less(&all, &before);

		if (!set_is_empty(&missing))
			p->plan->unwaited |= bit(i);
	}
	for (unsigned int c = 0; c < CONTEXTS; c++)
		for (unsigned int i = 0; i < POOLED; i++)
			p->plan->pooled[c][i] = p->live & bit(c * OF_CONTEXT + PLAIN + i);
}

void plan_make(struct plan *plan, const struct program *program)
{
	static struct planner planner;
	struct planner *p = &planner;
	unsigned int i;

	memset(p, 0, sizeof(*p));
	memset(plan, 0, sizeof(*plan));
	plan->program = program;
	p->plan = plan;
	p->live = (uint32_t)((1ull << BUFFERS) - 1);
	for (unsigned int c = 0; c < CONTEXTS; c++)
		for (i = 0; i < OF_CONTEXT; i++)
			if (c >= program->contexts || i >= PLAIN)
				p->live &= ~bit(c * OF_CONTEXT + i);
	for (i = 0; i < program->count; i++) {
		const struct operation *operation = &program->operation[i];
		bool waits = operation->kind == OPERATION_parallel ||
			     operation->kind == OPERATION_serial ||
			     operation->kind == OPERATION_flood;

		p->operation = operation;
		p->number = i;
		p->random = operation->number[0] + 1000ull * operation->number[1] +
			    1000000ull * operation->number[2];
		if (p->capture.active && (waits || !p->capture.left--))
			capture_close(p);
		if (p->gate.closed && (waits || !p->gate.left--))
			gate_open(p, operation->thread);
		if (waits)
			begin_segment(p, operation->kind != OPERATION_serial);
		operation_plan(p);
		if (operation->kind == OPERATION_flood)
			begin_segment(p, false);
	}
	if (p->capture.active)
		capture_close(p);
	if (p->gate.closed)
		gate_open(p, 0);
	begin_segment(p, false);
	finish(p);
}
