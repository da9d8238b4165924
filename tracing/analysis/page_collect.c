// SPDX-License-Identifier: MIT
/* Page, collection (page_collect.h). Called by page.c for each event. */
#include "tracing/analysis/page_collect.h"

#include "emit/record.h"
#include "memory.h"
#include "tracing/analysis/timeline_tracks.h"
#include "tracing/analysis/timeline_words.h"

#define FIRST_BIN_NS 1024
#define OTHER_TID    UINT32_MAX
/* What began longer before the first event is cut. */
#define EARLIER_MAX_NS INT64_C(3600000000000)
/* 146 years: no trace is longer, and sums of two such times fit. */
#define TIME_MAX_NS (INT64_MAX / 2)

void page_collection_begin(struct page_collection *collection)
{
	*collection = (struct page_collection){.bin_ns = FIRST_BIN_NS};
	collection->rows.data_size = sizeof(struct page_row);
	collection->waited.data_size = sizeof(struct page_waited);
	collection->threads.data_size = sizeof(struct page_thread);
	collection->streams.data_size = sizeof(struct page_stream);
	collection->implicit = (struct page_heap){.item_size = sizeof(struct page_wait),
						  .limit = PAGE_IMPLICIT_MAX};
	collection->explicit = (struct page_heap){.item_size = sizeof(struct page_wait),
						  .limit = PAGE_EXPLICIT_MAX};
	collection->operations = (struct page_heap){.item_size = sizeof(struct page_operation),
						    .limit = PAGE_OPERATIONS_MAX};
}

void page_collection_done(struct page_collection *collection)
{
	for (size_t i = 0; i < collection->streams.count; i++)
		free(((struct page_stream *)table_at(&collection->streams, i))->in_flight);
	table_done(&collection->rows);
	table_done(&collection->waited);
	table_done(&collection->threads);
	table_done(&collection->streams);
	free(collection->implicit.items);
	free(collection->explicit.items);
	free(collection->operations.items);
}

/* ---- the largest ---- */

/* Every item begins with its rank. */
static uint64_t rank_at(const struct page_heap *heap, size_t index)
{
	uint64_t rank;

	memcpy(&rank, heap->items + index * heap->item_size, sizeof(rank));
	return rank;
}

static void place(struct page_heap *heap, size_t index, const void *item)
{
	memcpy(heap->items + index * heap->item_size, item, heap->item_size);
}

static void move(struct page_heap *heap, size_t to, size_t from)
{
	place(heap, to, heap->items + from * heap->item_size);
}

static void add_at_end(struct page_heap *heap, const void *item, uint64_t rank)
{
	size_t at = heap->count++;

	for (; at && rank_at(heap, (at - 1) / 2) > rank; at = (at - 1) / 2)
		move(heap, at, (at - 1) / 2);
	place(heap, at, item);
}

static void replace_top(struct page_heap *heap, const void *item, uint64_t rank)
{
	size_t at = 0;

	for (size_t child = 1; child < heap->count; child = 2 * at + 1) {
		if (child + 1 < heap->count && rank_at(heap, child + 1) < rank_at(heap, child))
			child++;
		if (rank_at(heap, child) >= rank)
			break;
		move(heap, at, child);
		at = child;
	}
	place(heap, at, item);
}

static void heap_offer(struct page_heap *heap, const void *item, uint64_t rank)
{
	if (!heap->items)
		heap->items = memory_new(heap->limit * heap->item_size);
	if (heap->count < heap->limit) {
		add_at_end(heap, item, rank);
		return;
	}
	heap->left_out++;
	if (rank > rank_at(heap, 0))
		replace_top(heap, item, rank);
}

void page_heap_sort(struct page_heap *heap, int (*compare)(const void *left, const void *right))
{
	if (heap->count)
		qsort(heap->items, heap->count, heap->item_size, compare);
}

/* ---- bins of time ---- */

/* From the beginning; times of a damaged trace may be too far apart for 64 bits. */
static int64_t since(const struct page_collection *collection, int64_t ns)
{
	int64_t distance;

	if (ns <= collection->begin_ns)
		return 0;
	if (__builtin_sub_overflow(ns, collection->begin_ns, &distance) || distance > TIME_MAX_NS)
		return TIME_MAX_NS;
	return distance;
}

static void halve_bins(struct page_collection *collection)
{
	for (size_t i = 0; i < collection->threads.count; i++) {
		struct page_thread *thread = table_at(&collection->threads, i);

		for (size_t class = 0; class < 2; class ++) {
			uint64_t *bins = thread->bins[class];

			for (size_t bin = 0; bin < PAGE_BINS; bin++)
				bins[bin] =
					bin < PAGE_BINS / 2 ? bins[2 * bin] + bins[2 * bin + 1] : 0;
		}
	}
	collection->bin_ns *= 2;
}

/* A call that began before what came first: bins move up by whole ones, so that none is split. */
static void begin_earlier(struct page_collection *collection, int64_t begin_ns)
{
	int64_t missing, bins;

	if (begin_ns >= collection->begin_ns ||
	    __builtin_sub_overflow(collection->begin_ns, begin_ns, &missing) ||
	    missing > EARLIER_MAX_NS)
		return;
	while (missing > collection->bin_ns * (PAGE_BINS / 2) ||
	       (since(collection, collection->end_ns) + missing) / collection->bin_ns >=
		       PAGE_BINS - 1)
		halve_bins(collection);
	bins = (missing + collection->bin_ns - 1) / collection->bin_ns;
	collection->begin_ns -= bins * collection->bin_ns;
	for (size_t i = 0; i < collection->threads.count; i++) {
		struct page_thread *thread = table_at(&collection->threads, i);

		for (size_t class = 0; class < 2; class ++)
			for (int64_t bin = PAGE_BINS - 1; bin >= 0; bin--)
				thread->bins[class][bin] =
					bin >= bins ? thread->bins[class][bin - bins] : 0;
	}
}

static void add_to_bins(struct page_collection *collection, struct page_thread *thread,
			size_t class, int64_t begin_ns, int64_t end_ns)
{
	int64_t begin = since(collection, begin_ns), end = since(collection, end_ns);

	if (end <= begin)
		return;
	while ((end - 1) / collection->bin_ns >= PAGE_BINS)
		halve_bins(collection);
	for (int64_t bin = begin / collection->bin_ns; begin < end; bin++) {
		int64_t limit = (bin + 1) * collection->bin_ns;

		limit = limit < end ? limit : end;
		thread->bins[class][bin] += (uint64_t)(limit - begin);
		begin = limit;
	}
}

/* ---- waits ---- */

static struct page_thread *thread_of(struct page_collection *collection,
				     const struct analysis_event *event)
{
	struct page_thread *thread =
		table_find(&collection->threads, event->process, event->thread);
	uint32_t tid = event->thread;
	bool is_new;

	if (thread)
		return thread;
	if (collection->threads.count >= PAGE_THREADS_MAX)
		tid = OTHER_TID;
	thread = table_add(&collection->threads, tid == OTHER_TID ? 0 : event->process, tid,
			   &is_new);
	if (is_new) {
		thread->process = event->process;
		thread->tid = tid;
		thread->number = (uint32_t)collection->threads.count - 1;
	}
	return thread;
}

struct page_stream *page_stream_of(struct page_collection *collection, uint32_t process,
				   uint64_t number)
{
	struct page_stream *stream = table_find(&collection->streams, process, number);
	bool is_new;

	if (stream)
		return stream;
	if (collection->streams.count >= PAGE_STREAMS_MAX) {
		collection->left_out_streams++;
		return NULL;
	}
	stream = table_add(&collection->streams, process, number, &is_new);
	stream->process = process;
	stream->number = number;
	stream->row = (uint32_t)collection->streams.count - 1;
	return stream;
}

static uint64_t pair(uint32_t high, uint32_t low)
{
	return (uint64_t)high << 32 | low;
}

static void take_sums(struct page_collection *collection, const struct analysis_event *event,
		      const struct trace_wait *wait)
{
	bool is_new;
	struct page_row *row = table_add(&collection->rows, pair(event->process, wait->wait),
					 wait->stream, &is_new);
	struct page_waited *waited;

	row->process = event->process;
	row->wait = wait->wait;
	row->stream = wait->stream;
	row->count++;
	row->blocked_ns += wait->blocked_ns;
	row->call_ns += wait->call_ns;
	row->bytes += wait->bytes;
	if (wait->blocked_ns > row->blocked_max)
		row->blocked_max = wait->blocked_ns;
	waited = table_add(&collection->waited, pair(event->process, wait->wait), wait->candidates,
			   &is_new);
	waited->process = event->process;
	waited->wait = wait->wait;
	waited->candidates = wait->candidates;
	waited->count++;
	waited->blocked_ns += wait->blocked_ns;
}

/* When a call of that duration began that was over at `end_ns`; hostile durations end at the least time. */
static int64_t begin_of(int64_t end_ns, uint64_t call_ns)
{
	int64_t begin_ns;

	if (call_ns > INT64_MAX || __builtin_sub_overflow(end_ns, (int64_t)call_ns, &begin_ns))
		return INT64_MIN;
	return begin_ns;
}

static void take_wait(struct page_collection *collection, const struct model *model,
		      const struct analysis_event *event)
{
	const struct trace_wait *wait = event->payload;
	struct page_thread *thread = thread_of(collection, event);
	bool is_explicit = wait_words(model, event->process, wait->wait).class == WAIT_EXPLICIT;
	struct page_wait kept = {
		.rank = wait->blocked_ns,
		.begin_ns = begin_of(event->ns, wait->call_ns),
		.call_ns = wait->call_ns,
		.blocked_ns = wait->blocked_ns,
		.bytes = wait->bytes,
		.process = event->process,
		.wait = wait->wait,
		.thread = thread->number,
		.stream = wait->stream,
		.candidates = wait->candidates,
	};

	collection->waits++;
	take_sums(collection, event, wait);
	begin_earlier(collection, kept.begin_ns);
	add_to_bins(collection, thread, is_explicit, kept.begin_ns, event->ns);
	if (kept.begin_ns < collection->begin_ns) { /* began before the trace did */
		kept.begin_ns = collection->begin_ns;
		kept.call_ns = (uint64_t)event->ns - (uint64_t)kept.begin_ns;
	}
	heap_offer(is_explicit ? &collection->explicit : &collection->implicit, &kept, kept.rank);
}

/* ---- operations ---- */

static void take_submit(struct page_collection *collection, const struct analysis_event *event)
{
	const struct trace_submit *submit = event->payload;
	struct page_stream *stream = page_stream_of(collection, event->process, submit->stream);
	struct page_operation *operation;

	if (!stream)
		return;
	if (!stream->in_flight)
		stream->in_flight = memory_new(PAGE_IN_FLIGHT * sizeof(stream->in_flight[0]));
	if (stream->count ==
	    PAGE_IN_FLIGHT) { /* the oldest goes: when it ended is not known anyway */
		stream->first = (stream->first + 1) % PAGE_IN_FLIGHT;
		stream->count--;
		collection->operations.left_out++;
	}
	operation = &stream->in_flight[(stream->first + stream->count++) % PAGE_IN_FLIGHT];
	*operation = (struct page_operation){
		.begin_ns = begin_of(event->ns, submit->call_ns),
		.number = submit->number,
		.stream = stream->row,
		.process = event->process,
		.operation = submit->operation,
		.name = submit->name,
	};
	if (operation->begin_ns < collection->begin_ns)
		operation->begin_ns = collection->begin_ns;
}

static void take_completed(struct page_collection *collection, const struct analysis_event *event)
{
	const struct trace_completed *completed = event->payload;
	struct page_stream *stream = page_stream_of(collection, event->process, completed->stream);

	while (stream && stream->count) {
		struct page_operation *operation = &stream->in_flight[stream->first];

		if (operation->number > completed->number)
			break;
		operation->end_ns =
			event->ns > operation->begin_ns ? event->ns : operation->begin_ns;
		operation->rank = (uint64_t)operation->end_ns - (uint64_t)operation->begin_ns;
		heap_offer(&collection->operations, operation, operation->rank);
		stream->first = (stream->first + 1) % PAGE_IN_FLIGHT;
		stream->count--;
	}
}

void page_begin_with_processes(struct page_collection *collection, const struct model *model)
{
	int64_t recorded_ns = since(collection, collection->end_ns);

	for (uint32_t i = 0; collection->is_begun && i < model_process_count(model); i++) {
		const struct trace_def_process *process = model_process_definition(model, i);
		int64_t start_ns;

		if (!process || process->start_ns > INT64_MAX ||
		    __builtin_add_overflow((int64_t)process->start_ns,
					   model_process(model, i)->clock_offset_ns, &start_ns))
			continue;
		if (start_ns < collection->begin_ns &&
		    start_ns > collection->begin_ns - recorded_ns)
			begin_earlier(collection, start_ns);
	}
}

void page_take_event(struct page_collection *collection, const struct model *model,
		     const struct analysis_event *event)
{
	if (!collection->is_begun) {
		collection->is_begun = true;
		collection->begin_ns = event->ns;
	}
	if (event->ns > collection->end_ns)
		collection->end_ns = event->ns;
	switch (event->id) {
	case TRACE_WAIT:
		take_wait(collection, model, event);
		break;
	case TRACE_SUBMIT:
		take_submit(collection, event);
		break;
	case TRACE_COMPLETED:
		take_completed(collection, event);
		break;
	default:
		break;
	}
}
