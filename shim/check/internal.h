// SPDX-License-Identifier: MIT
/*
 * Internal: what the rules of this room share. A rule, or a group of them, is one file with an entry in the table of check.c: a function for
 * before and one for after the driver's call, one for the exit handlers, and one that forgets everything; any may be NULL.
 *
 * How to write one:
 *	- A file in this folder and in its meson.build, `extern` below, an entry in the table of check.c; its name in class order of rules.yaml, a row of
 *	  lint.yaml that takes its remarks. A program that fails, with its fixed twin, in tests/check/programs, named in tests/check/meson.build and, for
 *	  the page of the rules, in tools/lint/meson.build; a line of tests/check/mutate for the rule and for each way in which it keeps quiet.
 *	- What it remembers lies in tables of its own with a fixed size, guarded by check_lock() or by an own atomic. What does not fit is
 *	  given up, with check_lost(), and makes no remark: a remark that is not true is worse than one that is missing.
 *	- The place of a call that may be the other side later is taken when it is made (check_side_take()), with no lock held.
 *	- check_remark() is called with no lock held.
 */
#ifndef SLIPSTREAM_CHECK_INTERNAL_H
#define SLIPSTREAM_CHECK_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "call.h"
#include "catalogue/catalogue.h"
#include "check/check.h"

struct check_rule {
	void (*before)(const struct call *call, const uint64_t *arguments);
	void (*after)(const struct call *call, const uint64_t *arguments, CUresult result);
	/* The exit handlers run. Calls may still come. */
	void (*ends)(void);
	void (*forget)(void); /* in a forked child, and between tests */
};

/* Another room's, behind the room's own; before check_start(), one at most. Has `before`, `after` and `forget`; `ends` is not called. */
void check_add(const struct check_rule *rule);

/* One side of a remark: a call that was made earlier. */
struct check_side {
	uint32_t function; /* RECORD_NO_FUNCTION: there is none */
	uint32_t site;     /* 0: none could be taken */
	uint32_t stream;   /* number, 0 none */
};

/* ---- check.c ---- */

/* One lock for all of the room (LOCK_CHECK). False: this thread is inside already (a signal handler): do without. */
bool check_lock(void);
void check_unlock(void);
/* A number of the calling thread, from 1, that no other thread of this process ever had. */
uint64_t check_thread(void);

/*
 * Some counts of what a table has are looked at without the lock, by each call: is there anything to do at all? That is a hint. It is exact for what this
 * thread did; who misses what another thread does at the same time comes before it. So it needs no order, but must be one access: such a count is
 * read by a relaxed atomic load, and under the lock written by this (or, where it is no uint32_t, by a relaxed atomic store). Only forget() may write it
 * plainly, since nobody else is there. Returns the new count.
 */
static inline uint32_t check_hint_add(uint32_t *hint, int32_t change)
{
	uint32_t count = *hint + (uint32_t)change;

	__atomic_store_n(hint, count, __ATOMIC_RELAXED);
	return count;
}

/* ---- remark.c ---- */

/* The place of this call. With no lock held. */
struct check_side check_side_take(const struct call *call);
/* This call breaks `rule` (enum rule_number, of class order), together with `other`; NULL: alone. With no lock held. */
void check_remark(const struct call *call, uint32_t rule, const struct check_side *other);
/* The same, where the place of this call was taken before. */
void check_remark_at(const struct check_side *side, uint64_t bytes, uint32_t rule,
		     const struct check_side *other);
/*
 * A remark that later calls can take back: it is there, with no call of it yet (NULL: it could not be written), and its calls are counted apart, up
 * or down. With none it is no remark to anybody. Counting needs no lock, and takes none; NULL: nothing happens.
 */
struct record_remark *check_remark_open(const struct check_side *side, uint32_t rule,
					const struct check_side *other);
void check_remark_count(struct record_remark *remark, int64_t calls);
/* A bound's number in such words. */
#define CHECK_TEXT_OF(number) #number
#define CHECK_TEXT(bound)     CHECK_TEXT_OF(bound)
/* A NOTE_CHECK: what was not followed, in words that do not vary; counts up. */
void check_lost(const char *what);

/* ---- capture.c: captures that go on, of streams that are known ---- */

struct check_capture {
	const struct state_stream *stream;
	uint64_t handle; /* as given */
	uint64_t thread; /* check_thread() of who began it */
	uint32_t mode;   /* CUstreamCaptureMode */
	uint32_t kind;   /* enum stream_kind of the stream */
	struct check_side begun;
};

/* Under check_lock(): the index-th; NULL: no more. */
const struct check_capture *check_capture_at(uint32_t index);

/* ---- the rules ---- */

extern const struct check_rule check_blocking_rule;
extern const struct check_rule check_capture_rule;
extern const struct check_rule check_context_rule;
extern const struct check_rule check_copy_wait_rule;
extern const struct check_rule check_host_order_rule;
extern const struct check_rule check_polling_rule;
extern const struct check_rule check_pool_rule;
extern const struct check_rule check_refused_rule;
extern const struct check_rule check_stuck_rule;
extern const struct check_rule check_timing_rule;
extern const struct check_rule check_waiter_rule;
extern const struct check_rule check_follow_rule;
extern const struct check_rule check_shared_rule;

#endif
