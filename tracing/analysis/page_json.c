// SPDX-License-Identifier: MIT
/*
 * Page, data (page_json.h): the tables, the timeline and the head of what the scripts read. What they refer to by number is made
 * on the way (page_numbers.c), so sites, streams, groups and texts come last.
 */
#include "tracing/analysis/page_json.h"

#include <inttypes.h>

#include "text.h"
#include "tracing/analysis/page_writer.h"
#include "tracing/analysis/timeline_words.h"

/* ---- the table ---- */

static int compare_rows(const void *left, const void *right)
{
	const struct page_row *a = *(const struct page_row *const *)left,
			      *b = *(const struct page_row *const *)right;

	if (a->blocked_ns != b->blocked_ns)
		return a->blocked_ns < b->blocked_ns ? 1 : -1;
	if (a->count != b->count)
		return a->count < b->count ? 1 : -1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->wait != b->wait)
		return a->wait < b->wait ? -1 : 1;
	return (a->stream > b->stream) - (a->stream < b->stream);
}

/* [group, process, row of the stream operand or -1, count, blocked, longest, in calls, bytes] */
static void add_rows(struct page_writer *writer, json_t *page, json_t *left_out)
{
	struct table *table = &writer->collection->rows;
	_cleanup_free_ const struct page_row **sorted =
		memory_new(table->count * sizeof(sorted[0]));
	uint64_t rest_count = 0, rest_blocked = 0;
	json_t *rows = page_array();

	for (size_t i = 0; i < table->count; i++)
		sorted[i] = table_at(table, i);
	qsort(sorted, table->count, sizeof(sorted[0]), compare_rows);
	for (size_t i = 0; i < table->count; i++) {
		const struct page_row *row = sorted[i];
		const struct page_stream *stream;
		json_t *item;

		if (i >= PAGE_ROWS_MAX) {
			rest_count += row->count;
			rest_blocked += row->blocked_ns;
			continue;
		}
		stream = row->stream ? page_stream_of(writer->collection, row->process, row->stream)
				     : NULL;
		item = PAGE_NUMBERS(page_group_number(writer, row->process, row->wait),
				    row->process);
		page_append(item, page_integer(stream ? (int64_t)stream->row : -1));
		page_append(item, timeline_number(row->count));
		page_append(item, timeline_number(row->blocked_ns));
		page_append(item, timeline_number(row->blocked_max));
		page_append(item, timeline_number(row->call_ns));
		page_append(item, timeline_number(row->bytes));
		page_append(rows, item);
	}
	timeline_set(page, "rows", rows);
	timeline_set(left_out, "row_waits", timeline_number(rest_count));
	timeline_set(left_out, "row_blocked_ns", timeline_number(rest_blocked));
}

/* [group, process, target, count, blocked] of the rows above */
static void add_waited(struct page_writer *writer, json_t *page)
{
	struct table *table = &writer->collection->waited;
	json_t *array = page_array();

	for (size_t i = 0; i < table->count && json_array_size(array) < PAGE_ROWS_MAX; i++) {
		const struct page_waited *waited = table_at(table, i);

		if (waited->candidates &&
		    table_find(&writer->group_numbers, waited->process, waited->wait))
			page_append(array, PAGE_NUMBERS(page_group_number(writer, waited->process,
									  waited->wait),
							waited->process,
							page_target_number(writer, waited->process,
									   waited->candidates),
							waited->count, waited->blocked_ns));
	}
	timeline_set(page, "waited", array);
}

static void add_savings(struct page_writer *writer, json_t *page, const struct page_saving *savings,
			size_t count)
{
	json_t *array = page_array();

	for (size_t i = 0; savings && i < count; i++) {
		const struct trace_def_rule *rule = model_find(writer->model, savings[i].process,
							       TRACE_DEF_RULE, savings[i].rule);
		const char *slug =
			rule ? model_string(writer->model, savings[i].process, rule->slug) : NULL;
		const struct site *site = sites_find(writer->sites, writer->model,
						     savings[i].process, savings[i].site);
		json_t *item = page_array();

		page_append(item, page_integer(savings[i].process));
		page_append(item,
			    page_integer(page_text_number(writer, slug ? slug : "not defined")));
		page_append(item, page_integer(site              ? (int64_t)site->number
					       : savings[i].site ? -2
								 : -1));
		page_append(item, page_integer(savings[i].low_ns));
		page_append(item, page_integer(savings[i].high_ns));
		page_append(item, page_integer(savings[i].middle_ns));
		page_append(array, item);
	}
	timeline_set(page, "savings", savings ? array : memory_check(json_null()));
	if (!savings)
		json_decref(array);
}

/* ---- the timeline ---- */

static int compare_waits(const void *left, const void *right)
{
	const struct page_wait *a = left, *b = right;

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	if (a->call_ns != b->call_ns)
		return a->call_ns > b->call_ns ? -1 : 1;
	return (a->thread > b->thread) - (a->thread < b->thread);
}

/* [begin, in call, blocked, bytes, group, row of the thread, row of the stream or -1, target or -1] */
static void add_heap(struct page_writer *writer, json_t *array, struct page_heap *heap)
{
	page_heap_sort(heap, compare_waits);
	for (size_t i = 0; i < heap->count; i++) {
		const struct page_wait *wait = &((const struct page_wait *)heap->items)[i];
		const struct page_stream *stream =
			wait->stream
				? page_stream_of(writer->collection, wait->process, wait->stream)
				: NULL;
		json_t *item = PAGE_NUMBERS(page_since_begin(writer, wait->begin_ns), wait->call_ns,
					    wait->blocked_ns, wait->bytes,
					    page_group_number(writer, wait->process, wait->wait),
					    wait->thread);

		page_append(item, page_integer(stream ? (int64_t)stream->row : -1));
		page_append(item, page_integer(wait->candidates ? (int64_t)page_target_number(
									  writer, wait->process,
									  wait->candidates)
								: -1));
		page_append(array, item);
	}
}

static int compare_operations(const void *left, const void *right)
{
	const struct page_operation *a = left, *b = right;

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

/* [row of the stream, begin, known complete, text] */
static void add_operations(struct page_writer *writer, json_t *page)
{
	struct page_heap *heap = &writer->collection->operations;
	json_t *array = page_array();

	page_heap_sort(heap, compare_operations);
	for (size_t i = 0; i < heap->count; i++) {
		const struct page_operation *operation =
			&((const struct page_operation *)heap->items)[i];

		page_append(array, PAGE_NUMBERS(operation->stream,
						page_since_begin(writer, operation->begin_ns),
						page_since_begin(writer, operation->end_ns),
						page_operation_number(writer, operation->process,
								      operation->operation,
								      operation->name)));
	}
	timeline_set(page, "operations", array);
}

/* [process, kernel thread id or -1, bins of implicit waits, of explicit ones], as [bin, ns, ...] */
static void add_threads(struct page_writer *writer, json_t *page)
{
	json_t *threads = page_array();

	for (size_t i = 0; i < writer->collection->threads.count; i++) {
		const struct page_thread *thread = table_at(&writer->collection->threads, i);
		json_t *item = page_array();

		page_append(item, page_integer(thread->process));
		page_append(item,
			    page_integer(thread->tid == UINT32_MAX ? -1 : (int64_t)thread->tid));
		for (size_t class = 0; class < 2; class ++) {
			json_t *bins = page_array();

			for (uint64_t bin = 0; bin < PAGE_BINS; bin++)
				if (thread->bins[class][bin]) {
					page_append(bins, timeline_number(bin));
					page_append(bins,
						    timeline_number(thread->bins[class][bin]));
				}
			page_append(item, bins);
		}
		page_append(threads, item);
	}
	timeline_set(page, "threads", threads);
}

/* [process, words, short words]. After all that may add streams. */
static void add_streams(struct page_writer *writer, json_t *page)
{
	json_t *streams = page_array();

	for (size_t i = 0; i < writer->collection->streams.count; i++) {
		const struct page_stream *stream = table_at(&writer->collection->streams, i);
		_cleanup_free_ char *words =
			stream_words(writer->model, stream->process, stream->number);
		_cleanup_free_ char *short_words =
			stream_short_words(writer->model, stream->process, stream->number);
		json_t *item = page_array();

		page_append(item, page_integer(stream->process));
		page_append(item, timeline_text(words));
		page_append(item, timeline_text(short_words));
		page_append(streams, item);
	}
	timeline_set(page, "streams", streams);
}

/* ---- the rest ---- */

static json_t *process_json(const struct page_writer *writer, uint32_t number)
{
	const struct model_process *process = model_process(writer->model, number);
	const struct trace_def_process *definition =
		model_process_definition(writer->model, number);
	_cleanup_free_ char *name = process_name(writer->model, number);
	_cleanup_free_ char *words = process_words(writer->model, number);
	json_t *item = memory_check(json_object());

	timeline_set(item, "name", timeline_text(name));
	timeline_set(item, "words", timeline_text(words));
	timeline_set(item, "pid", page_integer(process->pid));
	timeline_set(item, "rank", page_integer(process->rank));
	timeline_set(item, "host", timeline_text(process->host));
	timeline_set(item, "ended", page_boolean(process->ended));
	if (definition) {
		timeline_set(
			item, "command",
			timeline_text(model_string(writer->model, number, definition->command)));
		timeline_set(item, "driver", page_integer(definition->driver_version));
	}
	return item;
}

static json_t *frame_json(const struct site_frame *frame)
{
	json_t *item = memory_check(json_object());

	timeline_set(item, "function", timeline_text(frame->function));
	timeline_set(item, "file", timeline_text(frame->file));
	timeline_set(item, "line", page_integer(frame->line));
	timeline_set(item, "module", timeline_text(frame->module));
	timeline_set(item, "offset", memory_check(json_sprintf("0x%" PRIx64, frame->offset)));
	timeline_set(item, "inlined", page_boolean(frame->inlined));
	return item;
}

static json_t *site_json(const struct site *site)
{
	json_t *item = memory_check(json_object()), *native = page_array(), *python = page_array();

	for (size_t i = 0; i < site->frame_count && i < PAGE_FRAMES_MAX; i++)
		page_append(native, frame_json(&site->frames[i]));
	for (size_t i = 0; i < site->python_count && i < PAGE_FRAMES_MAX; i++) {
		json_t *frame = memory_check(json_object());

		timeline_set(frame, "function", timeline_text(site->python[i].function));
		timeline_set(frame, "file", timeline_text(site->python[i].file));
		timeline_set(frame, "line", page_integer(site->python[i].line));
		page_append(python, frame);
	}
	timeline_set(item, "id", memory_check(json_sprintf("%016" PRIx64, site->hash)));
	timeline_set(item, "label", timeline_text(site->label));
	timeline_set(item, "python", python);
	timeline_set(item, "frames", native);
	return item;
}

/* All are found first: files with many of them are then opened once. */
static void add_sites(struct page_writer *writer, json_t *page, json_t *left_out)
{
	size_t count = sites_count(writer->sites);
	json_t *sites = page_array();

	for (size_t i = 0; i < count && i < PAGE_SITES_MAX; i++) {
		struct site *site = sites_at(writer->sites, i);

		sites_symbolize(writer->sites, writer->model, site, true);
		page_append(sites, site_json(site));
	}
	timeline_set(page, "sites", sites);
	timeline_set(left_out, "sites",
		     timeline_number(count > PAGE_SITES_MAX ? count - PAGE_SITES_MAX : 0));
}

/* A time of the process's clock in that of the trace; `otherwise` if it cannot be. */
static int64_t trace_time(const struct model_process *process, uint64_t ns, int64_t otherwise)
{
	int64_t time;

	if (ns > INT64_MAX || __builtin_add_overflow((int64_t)ns, process->clock_offset_ns, &time))
		return otherwise;
	return time;
}

/* From the start of the first process to the end of the last one, traced or not; what is not known: as traced. */
static uint64_t run_length(const struct page_writer *writer)
{
	const struct page_collection *collection = writer->collection;
	int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;

	for (uint32_t i = 0; i < model_process_count(writer->model); i++) {
		const struct model_process *process = model_process(writer->model, i);
		const struct trace_def_process *definition =
			model_process_definition(writer->model, i);
		int64_t start = collection->begin_ns, end = collection->end_ns;

		if (definition)
			start = trace_time(process, definition->start_ns, start);
		if (process->ended)
			end = trace_time(process, process->end.end_ns, end);
		begin_ns = start < begin_ns ? start : begin_ns;
		end_ns = end > end_ns ? end : end_ns;
	}
	return end_ns > begin_ns ? (uint64_t)end_ns - (uint64_t)begin_ns : 0;
}

static void add_head(const struct page_writer *writer, json_t *page, const struct analysis_end *end,
		     const struct report *report)
{
	json_t *processes = page_array();

	for (uint32_t i = 0; i < model_process_count(writer->model); i++)
		page_append(processes, process_json(writer, i));
	timeline_set(page, "version", page_integer(1));
	timeline_set(page, "producer", timeline_text("slipstream " SLIPSTREAM_VERSION));
	timeline_set(page, "length_ns",
		     timeline_number(page_since_begin(writer, writer->collection->end_ns)));
	timeline_set(page, "run_ns", timeline_number(run_length(writer)));
	timeline_set(page, "bin_ns", page_integer(writer->collection->bin_ns));
	timeline_set(page, "events", timeline_number(end->events));
	timeline_set(page, "discarded", timeline_number(end->discarded));
	timeline_set(page, "waits_all", timeline_number(writer->collection->waits));
	timeline_set(page, "reasons", page_reasons(report));
	timeline_set(page, "processes", processes);
}

json_t *page_json(struct page_collection *collection, struct sites *sites,
		  const struct model *model, const struct analysis_end *end,
		  const struct report *report, const struct page_saving *savings,
		  size_t saving_count)
{
	struct page_writer writer = {
		.collection = collection,
		.sites = sites,
		.model = model,
		.groups = page_array(),
		.texts = page_array(),
		.targets = page_array(),
		.text_index = memory_check(json_object()),
		.group_index = memory_check(json_object()),
	};
	json_t *page = memory_check(json_object()), *left_out = memory_check(json_object()),
	       *waits = page_array();

	writer.group_numbers.data_size = sizeof(uint32_t);
	writer.text_numbers.data_size = sizeof(uint32_t);
	writer.target_numbers.data_size = sizeof(uint32_t);
	page_begin_with_processes(collection, model);
	add_head(&writer, page, end, report);
	add_rows(&writer, page, left_out);
	add_waited(&writer, page);
	add_heap(&writer, waits, &collection->implicit);
	add_heap(&writer, waits, &collection->explicit);
	timeline_set(page, "waits", waits);
	add_operations(&writer, page);
	add_savings(&writer, page, savings, saving_count);
	add_threads(&writer, page);
	add_streams(&writer, page);
	add_sites(&writer, page, left_out);
	timeline_set(page, "groups", writer.groups);
	timeline_set(page, "texts", writer.texts);
	timeline_set(page, "targets", writer.targets);
	timeline_set(left_out, "implicit", timeline_number(collection->implicit.left_out));
	timeline_set(left_out, "explicit", timeline_number(collection->explicit.left_out));
	timeline_set(left_out, "operations", timeline_number(collection->operations.left_out));
	timeline_set(left_out, "streams", timeline_number(collection->left_out_streams));
	timeline_set(page, "left_out", left_out);
	json_decref(writer.text_index);
	json_decref(writer.group_index);
	table_done(&writer.group_numbers);
	table_done(&writer.text_numbers);
	table_done(&writer.target_numbers);
	return page;
}
