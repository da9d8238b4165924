/* SPDX-License-Identifier: MIT
 *
 * The two sides of a comparison within one process under the shim: each function by the driver's own address, and by the shim's wrapper. A
 * machine changes its pace from process to process by more than the shim costs; what is measured by turns has the same pace.
 *
 * Why that is sound in mode fix, where the shim relies on having seen all work. A call by the driver's own address comes past the shim:
 * it is not seen, so it raises no doubt and turns no rewrite off; and the shim counts nothing of it as unfinished. So what the raw side submits must
 * not matter to any rewrite, and what the wrapped side submits must not be waited for past the shim, or it stays unfinished to it:
 * - each side has streams of its own, and blocks that it allocates and frees itself; the work of one never touches the blocks of the other, so
 *   what the shim gives out again was never used by a call that it did not see.
 * - what both share (the legacy stream, ordinary memory of the host, device memory that is never freed) is idle when the turn changes:
 *   whose turn it is waits, by its own side, for all that it submitted, before the other begins.
 * - each side waits by its own calls (a wait past the shim before, to stop a clock, teaches the shim nothing and does no harm); no side destroys,
 *   captures, or asks about what is the other's.
 * Whether the rewrites were really on is read from the record afterwards (by_turns.py).
 *
 * One thread.
 */
#ifndef SLIPSTREAM_BENCH_SIDES_H
#define SLIPSTREAM_BENCH_SIDES_H

#include "gpu.h"

enum { RAW, WRAPPED, SIDES };

#define SIDES_NO_SHIM 77 /* the status to end with */

extern struct gpu side[SIDES];

/* Fills `side`. Returns 0, SIDES_NO_SHIM where both addresses are the same (told on stderr), or 1 without a driver. */
int sides_open(void);

/* The driver's own address of an exported function; ends the program if there is none. */
void *sides_raw_symbol(const char *name);

/*
 * The primary context of device 0, made current by the wrappers, and "spin" (tools/kernels/kernels.h), launched once by both sides. Ends
 * the program on errors.
 */
CUfunction sides_prepare(void);

/* Ends the program unless `result` is CUDA_SUCCESS. */
void sides_check(CUresult result, const char *what);

/* A kernel of so many ns. */
void sides_launch(int which, CUfunction spin, uint64_t ns, CUstream stream);

#endif
