/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * System calls by the way a thread waits in them or in a loop around them, by their numbers on x86-64 (headers of Debian 12 lack some of them).
 * Read by watch.bpf.c, how_of(), for a sleep, and by tools/witness_summary.c, loop_of(), for a loop.
 */
#ifndef SLIPSTREAM_BPF_WATCH_SYSTEM_CALLS_H
#define SLIPSTREAM_BPF_WATCH_SYSTEM_CALLS_H

/* futex, futex_waitv, futex_wake, futex_wait, futex_requeue */
#define WATCH_FUTEX_CALLS(call) call(202) call(449) call(454) call(455) call(456)
/* poll, select, epoll_wait, pselect6, ppoll, epoll_pwait, epoll_pwait2 */
#define WATCH_POLL_CALLS(call) call(7) call(23) call(232) call(270) call(271) call(281) call(441)
/* ioctl */
#define WATCH_IOCTL_CALLS(call) call(16)
/* sched_yield */
#define WATCH_YIELD_CALLS(call) call(24)

/* For a switch. */
#define WATCH_CALL_CASE(number) case number:

#endif
