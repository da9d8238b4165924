/* SPDX-License-Identifier: MIT */
/*
 * Flight: which threads are inside a call that submits work, and where the work may have reached the device before it has its number. Numbers are given behind the
 * driver's calls, since a record or a wait proves only what the driver had before it. But a program can see that a kernel has begun (it wrote a word that the host
 * reads) before its launch has returned in another thread, and free then what the kernel uses. So a free also asks what is in flight.
 *
 * Each thread that submits has counters in its launch_row (launch.h), found by a list of all rows:
 *
 *	begun, over		short launches of a row: counted before anything is looked at, and when they have their numbers
 *	entered, numbered	every other call that submits, in the same way; and short launches that are timed
 *
 * The store of `begun` or `entered` comes before the driver's own stores that start the work, so who sees what the work did sees it. `over` and `numbered` are
 * stored with release order behind the number, and pair with the acquire loads here: who finds a call over finds its number.
 *
 * Who writes, who reads:
 *	counters	their thread and its signal handlers; read by anyone who looks
 *	rows, used	set under LOCK_STATE, NULL again by its thread; read by anyone between look_begin() and look_end(), for which a thread waits
 *			that ends: rows lie in its TLS
 *	serials		under LOCK_STATE; read by anyone
 *	crowd		threads that have no row (more than FLIGHT_ROWS, or inside the lock), atomically; read by anyone
 *
 * The own thread does not count: it cannot free in the middle of its own call, but from a signal handler, where CUDA is not allowed.
 * Any thread; no lock is held on return.
 */
#ifndef SLIPSTREAM_STATE_FLIGHT_H
#define SLIPSTREAM_STATE_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

struct call;
struct launch_row;

#define FLIGHT_ROWS 4096

/* Around a call that submits: state_before() and state_after(). A CALL_LATE was counted by the short way. */
void flight_begins(struct call *call);
void flight_is_over(const struct call *call);

/* Is this thread's row on the list, if there is one? False: it cannot be now, and the thread takes the long way. */
bool flight_has_row(struct launch_row *row);

/* Only for a forked child: nobody else is there. */
void flight_clear(void);

#endif
