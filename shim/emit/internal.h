// SPDX-License-Identifier: MIT
/*
 * Internal: what emit's own files share. The lock guards the record file and all insertions
 * (LOCK_EMIT); look-ups and live counters do without.
 */
#ifndef SLIPSTREAM_EMIT_INTERNAL_H
#define SLIPSTREAM_EMIT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: this thread is inside already (signal handler); nothing may be stored. */
bool emit_lock(void);
void emit_unlock(void);

/* emit_reserve() for who holds the lock; does not count what it drops. */
void *emit_take_locked(size_t size);
void emit_count_dropped(void);

/* Is a record file (or its stand-in) open? Acquire: pairs with the release in emit_open(). */
bool emit_is_open(void);

/* Counter blocks: start anew in a forked child; make the block of the thunks at open. */
void counters_clear(void);
/* Records of threads: the same. */
void busy_clear(void);

/* process.c: string ids, 0 where it cannot be told. */
uint32_t process_command(void); /* blanks between arguments, cut at 4 KiB */
uint32_t process_executable(void);
uint32_t process_settings(void); /* effective ones, as NAME=VALUE lines */

#endif
