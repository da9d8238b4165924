// SPDX-License-Identifier: MIT
/*
 * Memo: the records that a thread's last findings were added to. A program that finds the same again, at each launch say, need not look in the tables of
 * intern.h, which costs a hash and several cache lines for each candidate. memo_wait() and memo_waited_for()
 * return what intern.h would.
 *
 * A thread has a block of its own from its first finding on, and no signal handler of it comes here (entry.h, `hold`). Records stay where they are for
 * as long as intern_life() is what it was.
 */
#ifndef SLIPSTREAM_EMIT_MEMO_H
#define SLIPSTREAM_EMIT_MEMO_H

#include <stdint.h>

#include "emit/emit.h"

struct memo;

/* This thread's block, good for what intern.h returns now; NULL: there is no memory. */
struct memo *memo_own(void);

/* As intern_wait(); NULL: dropped. `memo`: may be NULL. */
struct record_wait *memo_wait(struct memo *memo, const struct emit_finding *finding,
			      uint32_t *ret_id);

/* `wait`: what memo_wait() has just returned. NULL: dropped. */
struct record_waited_for *memo_waited_for(struct memo *memo, uint32_t wait,
					  const struct emit_candidate *candidate);

/* This thread ends: another may have its block. */
void memo_give_back(void);

/* In a forked child: other threads' blocks are nobody's. The own one stays. */
void memo_clear(void);

#endif
