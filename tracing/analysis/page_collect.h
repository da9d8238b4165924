// SPDX-License-Identifier: MIT
/*
 * Page, collection: what the page keeps of a trace while it streams by. Sums are exact; of single waits and operations
 * the longest are kept. Memory is bounded by the constants below and by the number of definitions. One thread.
 *
 * All times are the analysis's ns.
 */
#ifndef SLIPSTREAM_TRACING_PAGE_COLLECT_H
#define SLIPSTREAM_TRACING_PAGE_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "tracing/analysis/consumer.h"
#include "tracing/analysis/table.h"

enum {
	PAGE_IMPLICIT_MAX = 12000, /* single waits drawn */
	PAGE_EXPLICIT_MAX = 6000,
	PAGE_OPERATIONS_MAX = 12000,
	PAGE_THREADS_MAX = 1024, /* rows of the timeline */
	PAGE_STREAMS_MAX = 1024,
	PAGE_BINS = 1024,     /* of time, for each thread */
	PAGE_IN_FLIGHT = 512, /* operations of one stream that wait for their end */
};

/* What the waits of one def_wait on one stream have together. */
struct page_row {
	uint32_t process, wait, stream;
	uint64_t count, blocked_ns, blocked_max, call_ns, bytes;
};

/* The same by what was waited for. */
struct page_waited {
	uint32_t process, wait, candidates;
	uint64_t count, blocked_ns;
};

struct page_thread {
	uint32_t process, tid, number; /* tid UINT32_MAX: those beyond PAGE_THREADS_MAX, together */
	uint64_t bins[2][PAGE_BINS];   /* ns in calls that waited: implicit and device, explicit */
};

struct page_operation {
	uint64_t rank; /* of the heap: its duration */
	int64_t begin_ns, end_ns;
	uint64_t number;
	uint32_t stream, process, operation, name;
};

struct page_stream {
	uint32_t process, row;            /* row: its place in the timeline */
	uint64_t number;                  /* as in struct timeline_stream */
	struct page_operation *in_flight; /* a ring of PAGE_IN_FLIGHT; NULL: level waits */
	uint32_t first, count;
};

struct page_wait {
	uint64_t rank; /* of the heap: blocked time */
	int64_t begin_ns;
	uint64_t call_ns, blocked_ns, bytes;
	uint32_t process, wait, thread, stream, candidates;
};

/* The largest by rank, the smallest of them on top. */
struct page_heap {
	char *items;
	size_t item_size, count, limit;
	uint64_t left_out;
};

struct page_collection {
	struct table rows, waited, threads, streams;
	struct page_heap implicit, explicit, operations;
	int64_t begin_ns, end_ns; /* of what is drawn; begin_ns also of the bins */
	int64_t bin_ns;
	uint64_t left_out_streams, waits;
	bool is_begun;
};

void page_collection_begin(struct page_collection *collection);
void page_collection_done(struct page_collection *collection);

void page_take_event(struct page_collection *collection, const struct model *model,
		     const struct analysis_event *event);

/*
 * At the end: the run began when its processes did, if the trace was on from then. A session that started late
 * has longer before it than in it, which is not drawn.
 */
void page_begin_with_processes(struct page_collection *collection, const struct model *model);

/* The row of a stream; NULL: beyond the cap. */
struct page_stream *page_stream_of(struct page_collection *collection, uint32_t process,
				   uint64_t number);

/* By time, for drawing. */
void page_heap_sort(struct page_heap *heap, int (*compare)(const void *left, const void *right));

#endif
