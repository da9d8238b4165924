// SPDX-License-Identifier: MIT
/*
 * Idle: what a call costs by itself, with nothing to wait for. Three sources, the best that is
 * known wins: the table of `slipstream calibrate`, the least this run has seen, the catalogue's
 * default.
 */
#ifndef SLIPSTREAM_SYNC_IDLE_H
#define SLIPSTREAM_SYNC_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "emit/record.h"

struct call;

/* One table key: function, memory kinds, size class (the least n with bytes <= 2^n). */
uint32_t idle_key(const struct call *call);
uint32_t idle_key_of(uint16_t function, uint8_t source_kind, uint8_t destination_kind,
		     uint8_t size_class);

/* Cost in ns and where it comes from; IDLE_NONE and 0: nothing is known. */
uint64_t idle_cost(const struct call *call, uint32_t key, enum idle_basis *ret_basis);

/* The least this run has seen; false: nothing. */
bool idle_minimum(uint32_t key, uint64_t *ret_cost);

/*
 * Is it worth a conversion, for idle_sample()? Not if this thread has sampled as few ticks of the key. If so it counts as sampled, in its own
 * cache line.
 */
bool idle_is_news(uint32_t key, uint64_t ticks);

/*
 * Ticks within which a call of this key is no finding, as this thread was told by idle_set_bound(); 0: not known, or what the run has seen of any call is less than it was
 * then. From its own cache line, that of idle_is_news().
 */
uint64_t idle_bound(uint32_t key);
/* `seen`: idle_lowered() from before the cost was asked for that the bound follows from. If another thread has lowered one since, there is no bound. */
void idle_set_bound(uint32_t key, uint64_t ticks, uint32_t seen);
uint32_t idle_lowered(void);

/* A call that had nothing to wait for took this long. */
void idle_sample(uint32_t key, uint64_t duration_ns);

/* From the calibration table. False: no room. */
bool idle_calibrate(uint32_t key, uint64_t idle_ns);

void idle_clear(void);

#endif
