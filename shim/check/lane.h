// SPDX-License-Identifier: MIT
/*
 * Check, lanes: which operation is ordered behind which, by vector clocks. A lane is a stream; its operations are numbered from 1. A clock says of
 * each lane up to which number everything is known to be before. All of it under check_lock(), but for meeting_of(), which needs it free, and
 * lane_give_up() and lane_has_given_up(), which may be called either way.
 *
 * Edges are taken generously, since one that is missed would be a race that is none: what one thread of the host knows complete all know; whatever
 * may have come to know of something (a host function, an event that others record) has come to know of all.
 */
#ifndef SLIPSTREAM_CHECK_LANE_H
#define SLIPSTREAM_CHECK_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "check/internal.h"

#define LANES_MAX 128

struct check_clock {
	uint32_t at[LANES_MAX];
	/*
	 * Something is before that nobody saw, and that may yet be submitted: a value in memory, another process, a node of a graph. What has this is
	 * not held against anything.
	 */
	bool is_unknown;
};

struct check_lane {
	const struct state_stream *stream; /* NULL: it is gone, the work is not */
	const struct state_context *context;
	uint64_t handle; /* as the program knows it; 0: legacy, per-thread */
	uint32_t kind;   /* enum stream_kind */
	uint32_t number; /* of its newest operation */
	struct check_clock clock;
};

/* Index of the call's lane, made if there is none; CHECK_NONE: no stream, or no room, and then all is given up (lane_give_up()). */
uint32_t lane_of(const struct call *call);
struct check_lane *lane_at(uint32_t index);

/*
 * The lane's next operation comes behind what legacy order puts before it; and behind what the host knows, which lane_is_done() says of each
 * operation.
 */
void lane_join(uint32_t index);
/* The same behind everything that was submitted so far. */
void lane_join_all(uint32_t index);
/* The lane has a new operation, behind all that its clock has; returns its number. */
uint32_t lane_submit(uint32_t index);
/* Is the operation `number` of lane `of` before the next one of lane `index`? */
bool lane_is_behind(uint32_t index, uint32_t of, uint32_t number);
/* Does the host know it complete? */
bool lane_is_done(uint32_t of, uint32_t number);
/* From now on it counts as before the lane's operations: it was told. */
void lane_settle(uint32_t index, uint32_t of, uint32_t number);

/* The host has seen the lane's operations end; of a legacy one also what it is behind. */
void lane_observed(uint32_t index);
/* The same up to what was before its newest operation. */
void lane_observed_before(uint32_t index);
void lane_observed_context(const struct state_context *context, bool legacy_only);
/* All that was submitted so far. */
void lane_observed_all(void);
enum lane_meeting {
	MEETING_NONE,
	MEETING_HEARD,   /* the host may have learned of the lane's operations so far */
	MEETING_UNKNOWN, /* what comes next on it is behind something that nobody saw */
	MEETING_HOST,    /* both */
};
void lane_meets(uint32_t index, enum lane_meeting meeting);
/* meeting.c: what the call's operation means. With no lock held: the driver may be asked. */
enum lane_meeting meeting_of(const struct call *call, const uint64_t *arguments);

/* Contexts have ended: all is complete, and no stream is known. */
void lane_forget_streams(void);

/* ---- event.c ---- */

void event_made(uint64_t handle);
void event_gone(uint64_t handle);
/* Stands for what the lane has; CHECK_NONE: for everything there is. */
void event_records(uint64_t handle, uint32_t lane);
/* Recorded by something that is not seen. */
void event_is_foreign(uint64_t handle);
void event_joins(uint64_t handle, uint32_t lane);
void event_observed(uint64_t handle);
void event_forget(void);

/* For event.c. */
void lane_clock_all(struct check_clock *ret_clock);
void lane_clock_join(struct check_clock *clock, const struct check_clock *other);
void lane_host_join(const struct check_clock *clock);

/* Nothing is held against anything from now on: an edge was missed. A constant text, told once. */
void lane_give_up(const char *why);
bool lane_has_given_up(void);

void lane_forget(void);

#endif
