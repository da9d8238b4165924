// SPDX-License-Identifier: MIT
/*
 * Counts: one record of what a rewrite did in this process (record_rewrite). Called by the hooks. Where the record file is full they are
 * kept in memory that nobody reads.
 */
#include "config.h"
#include "emit/emit.h"
#include "rewrite/events.h"
#include "rewrite/internal.h"

static struct record_rewrite nowhere;
static struct record_held held_nowhere;

struct record_held *counts_held = &held_nowhere;
struct record_rewrite *counts = &nowhere, *counts_frees = &nowhere, *counts_staging = &nowhere;

static void start(struct record_rewrite **record_of, enum config_fix rewrite)
{
	struct record_rewrite *record = emit_reserve(sizeof(*record));

	if (!record)
		return;
	record->name = events_name(rewrite);
	emit_publish(record, RECORD_REWRITE);
	/* Release: pairs with COUNT(), whose address depends on what it reads here. */
	__atomic_store_n(record_of, record, __ATOMIC_RELEASE);
}

static void start_held(void)
{
	struct record_held *record = emit_reserve(sizeof(*record));

	if (!record)
		return;
	emit_publish(record, RECORD_HELD);
	pool_show(record);
	counts_held = record;
}

void counts_start(void)
{
	start_held();
	start(&counts, CONFIG_FIX_PINNED);
	if (config.fix & CONFIG_FIX_FREES)
		start(&counts_frees, CONFIG_FIX_FREES);
	if (config.fix & CONFIG_FIX_STAGING)
		start(&counts_staging, CONFIG_FIX_STAGING);
	counts_bytes();
}

struct record_rewrite *counts_legacy(void)
{
	static struct record_rewrite *record = &nowhere;

	if (config.fix & CONFIG_FIX_STREAMS)
		start(&record, CONFIG_FIX_STREAMS);
	return record;
}

static void tell(struct record_rewrite *record, const struct pool_bytes *bytes)
{
	__atomic_store_n(&record->held_bytes, bytes->held, __ATOMIC_RELAXED);
	__atomic_store_n(&record->peak_bytes, bytes->peak, __ATOMIC_RELAXED);
	__atomic_store_n(&record->live_bytes, bytes->live, __ATOMIC_RELAXED);
	__atomic_store_n(&record->limit_bytes, bytes->limit, __ATOMIC_RELAXED);
}

static void tell_bytes(struct record_rewrite *record, enum pool_kind first, enum pool_kind last)
{
	struct pool_bytes sum = {0}, bytes;

	for (enum pool_kind kind = first; kind <= last; kind++) {
		pool_bytes(kind, &bytes);
		sum.held += bytes.held;
		sum.peak += bytes.peak; /* at most */
		sum.live += bytes.live;
		sum.limit += bytes.limit;
	}
	tell(record, &sum);
}

void counts_pinned_bytes(void)
{
	struct pool_bytes bytes;

	pool_bytes(POOL_PINNED, &bytes);
	tell(counts, &bytes);
}

void counts_device_bytes(void)
{
	if (counts_frees != &nowhere)
		tell_bytes(counts_frees, POOL_DEVICE, POOL_ARRAY);
}

void counts_bytes(void)
{
	counts_pinned_bytes();
	counts_device_bytes();
}
