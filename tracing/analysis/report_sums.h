// SPDX-License-Identifier: MIT
/*
 * Sums: what the report keeps of the `wait` events of a trace. Memory grows with different kinds
 * and places of waits, not with their number. Names are looked up at the end: definitions may come
 * later than the waits that need them.
 */
#ifndef SLIPSTREAM_TRACING_REPORT_SUMS_H
#define SLIPSTREAM_TRACING_REPORT_SUMS_H

#include "tracing/analysis/consumer.h"
#include "tracing/analysis/table.h"

struct sum {
	uint64_t count, blocked_ns, blocked_max, call_ns, bytes;
	int64_t first_ns, last_ns; /* analysis_event.ns */
	int64_t begin_ns;          /* of the first call */
};

/* Keys: (process, wait) and (stream, candidates), or (thread, stream). */
struct sums {
	struct table by_stream;                /* struct sum */
	struct table by_thread;                /* struct sum; candidates 0 */
	struct sum *last_stream, *last_thread; /* of these keys: most waits repeat the one before */
	uint64_t last_wait_key, last_stream_key, last_thread_key;
};

void sums_init(struct sums *sums);
void sums_done(struct sums *sums);
void sums_take(struct sums *sums, const struct analysis_event *event);

static inline uint32_t sum_process(const struct table_entry *entry)
{
	return (uint32_t)(entry->key >> 32);
}

static inline uint32_t sum_wait(const struct table_entry *entry)
{
	return (uint32_t)entry->key;
}

/* The stream, or the thread. */
static inline uint32_t sum_place(const struct table_entry *entry)
{
	return (uint32_t)(entry->key2 >> 32);
}

/* The candidates, or the stream. */
static inline uint32_t sum_detail(const struct table_entry *entry)
{
	return (uint32_t)entry->key2;
}

/* Saturating. */
void sum_merge(struct sum *into, const struct sum *from);

#endif
