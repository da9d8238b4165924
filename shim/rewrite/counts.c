// SPDX-License-Identifier: MIT
/*
 * Counts: one record of what a rewrite did in this process (record_rewrite). Called by the hooks. Where the record file is full they are
 * kept in memory that nobody reads.
 */
#include "emit/emit.h"
#include "rewrite/internal.h"

static struct record_rewrite nowhere;

struct record_rewrite *counts = &nowhere;

void counts_start(void)
{
	struct record_rewrite *record = emit_reserve(sizeof(*record));

	if (!record)
		return;
	record->name = emit_string("pinned", 6);
	emit_publish(record, RECORD_REWRITE);
	__atomic_store_n(&counts, record, __ATOMIC_RELEASE);
	counts_bytes();
}

void counts_bytes(void)
{
	struct pool_bytes bytes;

	pool_bytes(POOL_PINNED, &bytes);
	__atomic_store_n(&counts->held_bytes, bytes.held, __ATOMIC_RELAXED);
	__atomic_store_n(&counts->peak_bytes, bytes.peak, __ATOMIC_RELAXED);
	__atomic_store_n(&counts->live_bytes, bytes.live, __ATOMIC_RELAXED);
	__atomic_store_n(&counts->limit_bytes, bytes.limit, __ATOMIC_RELAXED);
}
