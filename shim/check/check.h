// SPDX-License-Identifier: MIT
/*
 * Check: rules about the order of calls (class order of rules.yaml), for `slipstream lint`. Off by default: SLIPSTREAM_CHECK=order, mode observe
 * only. Called by the generated wrappers; reads struct call, what state's public functions say, and the call's arguments; nothing but emit gets
 * to know what it finds (emit_remark()).
 *
 * While it is on no launch takes the short way, so each classified call of the program comes by here, from any thread. Every function keeps
 * errno, never calls the driver with a lock held, and never fails visibly.
 */
#ifndef SLIPSTREAM_CHECK_CHECK_H
#define SLIPSTREAM_CHECK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct call;

/* Written by check_start() and check_forked(); read by every call. */
extern bool check_on;

/* Behind config_load(), before the first call. */
void check_start(void);

/*
 * `arguments`: those of the driver function, in their order, each as one word; of a structure that is passed by value its address, of a number
 * with a fraction 0. Good during the call only.
 */
/* Behind state_before() and the row's `before` hooks; the driver is called next. */
void check_before(const struct call *call, const uint64_t *arguments);
/* Behind state_after(): what the call submitted has its number (call->submission), what it made is known to state. */
void check_after(const struct call *call, const uint64_t *arguments, CUresult result);

/* Among the exit handlers, by a thread that is inside no call, while there is still a record to write to. */
void check_ends(void);

/* In a forked child, which cannot use CUDA: forgets everything, locks included, and is off. */
void check_forked(void);

#endif
