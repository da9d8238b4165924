// SPDX-License-Identifier: MIT
/* Internal: what the files of the guard room need of each other (guard.h). */
#ifndef SLIPSTREAM_GUARD_INTERNAL_H
#define SLIPSTREAM_GUARD_INTERNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "check/internal.h"
#include "guard/hooks.h"

struct state_stream;

/* ---- pages ---- */

#define GUARD_PAGE UINT64_C(4096)

/* Where the page of this address begins. */
static inline uint64_t guard_page_of(uint64_t address)
{
	return address & ~(GUARD_PAGE - 1);
}

/* Where the last page of bytes that end here ends. */
static inline uint64_t guard_page_end(uint64_t end)
{
	return guard_page_of(end + GUARD_PAGE - 1);
}

/* ---- copies ---- */

/* "known complete with this operation of this stream" */
struct guard_mark {
	const struct state_stream *stream;
	uint64_t number;
};

#define GUARD_MARKS 8

/* A copy under way, and the host's bytes that it uses. */
struct guard {
	uint64_t begin, end;       /* bytes */
	uint64_t pages, pages_end; /* of them, those that are protected; edges may be left out */
	uint64_t block;            /* address of the allocation or registration that they lie in */
	bool is_destination; /* the device writes: nobody may touch; else it reads: nobody may write */
	bool is_mixed;       /* its end may be known by legacy order, which is not followed */
	uint8_t marks;
	struct guard_mark mark[GUARD_MARKS]; /* the copy itself comes first */
	struct check_side side;
};

/* An access that came too early, taken out of the table under the lock, told without it. */
struct guard_find {
	bool is_destination;
	bool is_write, is_free;
	uint64_t bytes;
	struct check_side side;
};
#define GUARD_FINDS 8
struct guard_finds {
	uint32_t count;
	struct guard_find find[GUARD_FINDS];
};

/* ---- table.c ---- */

/* Guards: under the lock, which blocks all of this thread's signals. False: this thread is inside already. */
struct guard_held {
	uint64_t signals;
};
bool guard_lock(struct guard_held *ret_held);
void guard_unlock(const struct guard_held *held);

/* How many there are. Without the lock: a hint, exact for what this thread did. */
extern uint32_t guard_count;
struct guard *guard_at(uint32_t index);
/* Under the lock. False: too many, or the pages cannot be protected; nothing has happened. */
bool guard_add(const struct guard *guard);
/* Under the lock: its pages are what other guards make of them; the last takes its index. */
void guard_end(uint32_t index);
/* The same, where the pages are gone already. */
void guard_drop(uint32_t index);
/* Under the lock: everything. */
void guard_end_all(void);
/* Under the lock: pages that an access beside a guard opened are protected again. */
void guard_close_opened(void);
/* Without the lock: has guard_close_opened() anything to do? */
bool guard_is_open_anywhere(void);
/* Under the lock: this page is as the program left it until the next guard_close_opened(). */
void guard_open_page(uint64_t page);
/* Under the lock. Is the page one that is protected by a guard now? */
bool guard_has_page(uint64_t page);
/* Under the lock: does any guard protect one of these pages? And: protects them anew, as they are to be now. */
bool guard_has_pages(uint64_t begin, uint64_t end);
void guard_apply(uint64_t begin, uint64_t end);
/* Under the lock: what the mappings said of these addresses holds no more. */
void guard_forget_plain(uint64_t begin, uint64_t end);
/* Is it between the first and the last page that ever was? Without the lock. */
bool guard_was_near(uint64_t begin, uint64_t end);
/* Counts up with each change of pages' protection, behind it. Written under the lock (release), read without (acquire). */
extern uint64_t guard_openings;

/* Pages that are the kernel's for the duration of a call: not protected meanwhile; or all pages. By any thread, without the lock. */
uint32_t guard_span_take_all(void);
uint32_t guard_span_take(uint64_t begin, uint64_t end);
void guard_span_give(uint32_t slot);

void guard_table_forget(void);

/* ---- calls.c ---- */

extern bool guard_on;
/* This thread is inside the driver: what it touches is the driver's business. */
bool guard_in_driver(void);
/* Nothing is guarded any more, for good. A constant text. */
void guard_give_up(const char *why);
bool guard_has_given_up(void);
/* What is guarded now is so no more: the host may know of any copy. Without the lock. */
void guard_let_go(void);

/* ---- copies.c ---- */

/* A copy was submitted: it is guarded, or a note says why not. Without the lock. */
void guard_copied(const struct call *call);

/* ---- heard.c: without the lock ---- */

/* Before a call: what its events stand for. */
void guard_asks(const struct call *call, const uint64_t *arguments);
/* Behind the same one, if it succeeded: the host knows what that has told it. */
void guard_heard(const struct call *call, const uint64_t *arguments);
/* Behind one that put an operation on a stream, which is not captured. */
void guard_submitted(const struct call *call, const uint64_t *arguments);

/* ---- finds.c ---- */

/* An access to these bytes: whatever is too early is in `finds`, and its guards have ended. Under the lock. True: there was any guard with such bytes. */
bool guard_accessed(uint64_t begin, uint64_t end, bool is_write, bool is_free,
		    struct guard_finds *finds);
/* Without the lock. `here`: the accesses' own side. */
void guard_tell(const struct guard_finds *finds, const struct check_side *here);
/* The same for an access that no call of the driver made, at this site. */
void guard_tell_access(const struct guard_finds *finds, uint32_t site);

/* ---- edges.c: with the lock ---- */

/* Can the host know that the guard's copy has finished, if it knows that `number` of `stream` has? */
bool guard_is_covered(const struct guard *guard, const struct state_stream *stream,
		      uint64_t number);
/* The host has seen `number` of `stream` finish. */
void guard_wait_over(const struct state_stream *stream, uint64_t number);
/* Operation `by` goes on behind operation `of`. NULL: behind anything. */
void guard_goes_on(const struct guard_mark *by, const struct guard_mark *of);
/* When `by` runs, the host may hear of it, and of all that came before it, unseen. */
void guard_may_tell(const struct guard_mark *by);
/* An operation was put on a legacy stream. */
void guard_mixes(void);
/* What state knows complete is guarded no more. */
void guard_sweep(void);

/* ---- fault.c ---- */

/* NULL: libslipstream-guard.so is not there, or another version. */
struct guard_link *guard_find_link(void);
/* False: the handler cannot be installed. */
bool guard_catch(struct guard_link *link);
extern const struct guard_hooks guard_hooks;
int guard_action(const struct sigaction *action, struct sigaction *ret_before);

/* ---- operand.c ---- */

/* Bytes that the instruction may touch from the address that faulted on, where that is more than what programs do to an object of their own: 0, not
 * known to be more. */
unsigned int guard_wide_read(const uint8_t *instruction, unsigned int length);

#endif
