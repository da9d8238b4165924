/* SPDX-License-Identifier: MIT */
/*
 * Internal: what plan.c (order) shares with operations.c (what each operation becomes).
 *
 * Order is kept in sets of actions. The clock of a lane holds all that is done before its next action, that of the host all that it knows
 * done. Beside each other, each thread has a view of its own, since which of the others' actions come first nobody knows.
 */
#ifndef PROPERTY_PLAN_H
#define PROPERTY_PLAN_H

#include "program.h"

struct set {
	uint64_t bits[ACTIONS / 64];
};

struct planned_event {
	bool recorded;
	struct set clock;
};

struct view {
	struct set lane[CONTEXTS][LANES];
	struct set gone[CONTEXTS]; /* what destroyed blocking streams had */
	struct set host;
	struct planned_event event[CONTEXTS][EVENTS];
};

struct planner {
	struct plan *plan;
	const struct operation *operation;
	unsigned int number; /* of the operation */
	bool beside;
	bool closing;              /* what was begun is ended: there is room for that */
	struct view view[THREADS]; /* the first one is everybody's where nothing runs beside */
	struct set reads[BUFFERS], writes[BUFFERS];
	uint32_t live;
	struct {
		bool there;
		unsigned int context;
		uint32_t reads, writes;
	} exec[EXECS];
	struct {
		bool active, valid, blocks; /* blocks: legacy calls of its context are refused */
		unsigned int thread, context, lane, second, mode, left;
		uint32_t reads, writes;
	} capture;
	struct {
		bool closed;
		unsigned int action, left, word;
	} gate;
	unsigned int words;
	bool added[CONTEXTS]; /* `add` has put work on lanes that their clocks do not show */
	/* Of each action, where it went; alive[] tells whether that lane is the same still. */
	struct {
		uint8_t context, lane, life;
	} at[ACTIONS];
	uint8_t life[CONTEXTS][LANES];
	uint64_t random; /* for what the operation's own numbers do not say */
};

/* What one action does. */
struct effect {
	unsigned int context, lane;
	uint32_t reads, writes;
};

static inline uint32_t bit(unsigned int buffer)
{
	return 1u << buffer;
}

struct view *view_of(struct planner *p, unsigned int thread);
bool set_has(const struct set *set, unsigned int number);
bool set_is_empty(const struct set *set);
void set_join(struct set *to, const struct set *from);
struct set set_less(const struct set *from, const struct set *less);

/* What is done before the next action of a lane. */
struct set lane_before(struct planner *p, unsigned int thread, unsigned int context,
		       unsigned int lane);
/* What a wait for a lane, or a query of it, is about. */
struct set lane_work(struct planner *p, unsigned int thread, unsigned int context,
		     unsigned int lane);

/* NULL where the plan is full. */
struct action *append(struct planner *p, enum action_kind kind, unsigned int thread,
		      unsigned int context, unsigned int lane);
/*
 * Appends an action on a lane, behind what orders it. NULL: left out, since it cannot be ordered, or the plan is full. Into a capture it goes
 * as a node; to the legacy stream while that is refused it goes without effect.
 */
struct action *place(struct planner *p, enum action_kind kind, unsigned int thread,
		     struct effect effect);
/* The host of `thread` comes behind all that conflicts with what it is about to do. False: it cannot. */
bool host_behind(struct planner *p, unsigned int thread, uint32_t reads, uint32_t writes);
/* The host did this, in the last action. */
void host_did(struct planner *p, unsigned int thread, uint32_t reads, uint32_t writes);
/* The last action was waited for, and with it what was before it. */
void host_knows(struct planner *p, unsigned int thread, const struct set *done);
void host_knows_last(struct planner *p, unsigned int thread, unsigned int context,
		     unsigned int lane);

bool may_wait(const struct planner *p);
bool is_captured(const struct planner *p, unsigned int context, unsigned int lane);
bool is_refused(const struct planner *p, unsigned int context, unsigned int lane);
unsigned int drawn(struct planner *p, unsigned int bound);
void wait_for_lane(struct planner *p, unsigned int thread, unsigned int context, unsigned int lane);
void record_on(struct planner *p, unsigned int thread, unsigned int context, unsigned int lane,
	       unsigned int event);
void wait_on(struct planner *p, unsigned int thread, unsigned int context, unsigned int lane,
	     unsigned int event_context, unsigned int event);
unsigned int some_event(const struct planner *p, unsigned int thread, unsigned int drawn);

/* operations.c */
void operation_plan(struct planner *p);
void capture_close(struct planner *p);
void gate_open(struct planner *p, unsigned int thread);

#endif
