// SPDX-License-Identifier: MIT
/*
 * Internal: kinds of memory (enum memory_kind) as the rules and guard ask for them, each set under one name. What is in doubt (MEMORY_UNKNOWN) is in none
 * of them but check_may_be_host(). No state, any thread.
 */
#ifndef SLIPSTREAM_CHECK_MEMORY_KINDS_H
#define SLIPSTREAM_CHECK_MEMORY_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "emit/record.h"

/* The device's, in blocks with addresses. */
static inline bool check_is_device(uint32_t kind)
{
	return kind == MEMORY_DEVICE || kind == MEMORY_POOL;
}

/* The copy, or memset, has nothing of the host's at this end: an array has no address, a memset no source. */
static inline bool check_stays_inside(uint32_t kind)
{
	return check_is_device(kind) || kind == MEMORY_ARRAY || kind == MEMORY_NONE;
}

/* The host's, which does not move while the device copies. */
static inline bool check_is_pinned(uint32_t kind)
{
	return kind == MEMORY_PINNED || kind == MEMORY_REGISTERED;
}

/* Host and device reach it at the same time, by its address: each may look at what the other writes. */
static inline bool check_is_common(uint32_t kind)
{
	return check_is_pinned(kind) || kind == MEMORY_MANAGED;
}

/* The host reads and writes it by its address. */
static inline bool check_is_host(uint32_t kind)
{
	return check_is_common(kind) || kind == MEMORY_PAGEABLE;
}

/* The same, where to miss one would make a remark that is not true. */
static inline bool check_may_be_host(uint32_t kind)
{
	return check_is_host(kind) || kind == MEMORY_UNKNOWN;
}

#endif
