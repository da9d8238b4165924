// SPDX-License-Identifier: MIT
/*
 * Page, data (page_json.h). Definitions are numbered as they are first referred to, so that only what the page shows
 * is in it. Texts that many entries share are in one array, `texts`.
 */
#include "tracing/analysis/page_json.h"

#include <inttypes.h>

#include "emit/record.h"
#include "memory.h"
#include "report.h"
#include "text.h"
#include "tracing/analysis/timeline_words.h"
#include "tracing/analysis/timeline_write.h"

struct writer {
	struct page_collection *collection;
	struct sites *sites;
	const struct model *model;
	json_t *groups, *texts, *targets;
	struct table group_numbers;  /* uint32_t, by (process, wait) */
	struct table text_numbers;   /* uint32_t, by (process, string id) and operation */
	struct table target_numbers; /* uint32_t, by process and candidates */
	json_t *text_index,
		*group_index; /* the same text, the same group of another process: its number */
};

static json_t *new_array(void)
{
	return memory_check(json_array());
}

static void append(json_t *array, json_t *value)
{
	memory_check(json_array_append_new(array, value) ? NULL : array);
}

static json_t *signed_number(int64_t value)
{
	return memory_check(json_integer(value));
}

static json_t *boolean(bool value)
{
	return memory_check(json_boolean(value));
}

/* `count` whole numbers in one array. */
static json_t *numbers(const uint64_t *values, size_t count)
{
	json_t *array = new_array();

	for (size_t i = 0; i < count; i++)
		append(array, timeline_number(values[i]));
	return array;
}

#define NUMBERS(...)                                                                               \
	numbers((const uint64_t[]){__VA_ARGS__},                                                   \
		sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t since_begin(const struct writer *writer, int64_t ns)
{
	return ns > writer->collection->begin_ns ? (uint64_t)(ns - writer->collection->begin_ns)
						 : 0;
}

/* ---- what is referred to by number ---- */

/* The number of a text in `texts`. */
static uint32_t text_number(struct writer *writer, const char *raw)
{
	json_t *text = timeline_text(raw), *known;
	uint32_t number = (uint32_t)json_array_size(writer->texts);

	known = json_object_get(writer->text_index, json_string_value(text));
	if (known) {
		json_decref(text);
		return (uint32_t)json_integer_value(known);
	}
	timeline_set(writer->text_index, json_string_value(text), signed_number(number));
	append(writer->texts, text);
	return number;
}

static uint32_t operation_number(struct writer *writer, uint32_t process, uint32_t operation,
				 uint32_t name)
{
	bool is_new;
	uint32_t *number = table_add(&writer->text_numbers, (uint64_t)process << 32 | name,
				     operation, &is_new);

	if (is_new)
		*number = text_number(writer,
				      operation_words(writer->model, process, operation, name));
	return *number;
}

static json_t *group_json(struct writer *writer, uint32_t process, uint32_t wait)
{
	struct wait_words words = wait_words(writer->model, process, wait);
	struct site *site =
		words.wait ? sites_find(writer->sites, writer->model, process, words.wait->site)
			   : NULL;
	json_t *group = memory_check(json_object());

	timeline_set(group, "rule", timeline_text(words.slug ? words.slug : "not defined"));
	timeline_set(group, "function",
		     timeline_text(words.function ? words.function : "not known"));
	timeline_set(group, "cause", timeline_text(words.cause));
	timeline_set(group, "class",
		     timeline_text(words.class ? report_class(words.class) : "unknown"));
	timeline_set(group, "own_cost",
		     boolean(words.rule && words.rule->flags & RECORD_RULE_OWN_COST));
	timeline_set(group, "site",
		     site && site->number < PAGE_SITES_MAX ? signed_number(site->number)
							   : memory_check(json_null()));
	timeline_set(group, "region", timeline_text(words.region));
	timeline_set(group, "allowed", boolean(words.wait && words.wait->allowed));
	if (words.wait) {
		timeline_set(group, "from",
			     timeline_text(report_memory_kind(words.wait->source_kind)));
		timeline_set(group, "to",
			     timeline_text(report_memory_kind(words.wait->destination_kind)));
		timeline_set(group, "basis",
			     timeline_text(report_idle_basis(words.wait->idle_basis)));
	}
	return group;
}

/* Equal groups of several processes are one: they are told apart by what the page shows of them. */
static uint32_t group_number(struct writer *writer, uint32_t process, uint32_t wait)
{
	bool is_new;
	uint32_t *number = table_add(&writer->group_numbers, process, wait, &is_new);
	_cleanup_free_ char *key = NULL;
	json_t *group, *known;

	if (!is_new)
		return *number;
	group = group_json(writer, process, wait);
	key = memory_check(json_dumps(group, JSON_COMPACT | JSON_SORT_KEYS));
	known = json_object_get(writer->group_index, key);
	if (known) {
		*number = (uint32_t)json_integer_value(known);
		json_decref(group);
		return *number;
	}
	*number = (uint32_t)json_array_size(writer->groups);
	timeline_set(writer->group_index, key, signed_number(*number));
	append(writer->groups, group);
	return *number;
}

/* What a wait waited for: [[row of the stream or -1, text, certain], ...]. */
static uint32_t target_number(struct writer *writer, uint32_t process, uint32_t candidates)
{
	bool is_new;
	uint32_t *number = table_add(&writer->target_numbers, process, candidates, &is_new);
	const struct trace_def_candidate *members[CANDIDATES_MAX];
	size_t count;
	json_t *target;

	if (!is_new)
		return *number;
	*number = (uint32_t)json_array_size(writer->targets);
	target = new_array();
	count = wait_candidates(writer->model, process, candidates, members);
	for (size_t i = 0; i < count; i++) {
		const struct page_stream *stream =
			page_stream_of(writer->collection, process,
				       candidate_stream(writer->model, process, members[i]));
		json_t *member = new_array();

		append(member, signed_number(stream ? (int64_t)stream->row : -1));
		append(member, signed_number(operation_number(
				       writer, process, members[i]->operation, members[i]->name)));
		append(member, signed_number(members[i]->certain ? 1 : 0));
		append(target, member);
	}
	append(writer->targets, target);
	return *number;
}

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
static void add_rows(struct writer *writer, json_t *page, json_t *left_out)
{
	struct table *table = &writer->collection->rows;
	_cleanup_free_ const struct page_row **sorted =
		memory_new(table->count * sizeof(sorted[0]));
	uint64_t rest_count = 0, rest_blocked = 0;
	json_t *rows = new_array();

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
		item = NUMBERS(group_number(writer, row->process, row->wait), row->process);
		append(item, signed_number(stream ? (int64_t)stream->row : -1));
		append(item, timeline_number(row->count));
		append(item, timeline_number(row->blocked_ns));
		append(item, timeline_number(row->blocked_max));
		append(item, timeline_number(row->call_ns));
		append(item, timeline_number(row->bytes));
		append(rows, item);
	}
	timeline_set(page, "rows", rows);
	timeline_set(left_out, "row_waits", timeline_number(rest_count));
	timeline_set(left_out, "row_blocked_ns", timeline_number(rest_blocked));
}

/* [group, process, target, count, blocked] of the rows above */
static void add_waited(struct writer *writer, json_t *page)
{
	struct table *table = &writer->collection->waited;
	json_t *array = new_array();

	for (size_t i = 0; i < table->count && json_array_size(array) < PAGE_ROWS_MAX; i++) {
		const struct page_waited *waited = table_at(table, i);

		if (waited->candidates &&
		    table_find(&writer->group_numbers, waited->process, waited->wait))
			append(array,
			       NUMBERS(group_number(writer, waited->process, waited->wait),
				       waited->process,
				       target_number(writer, waited->process, waited->candidates),
				       waited->count, waited->blocked_ns));
	}
	timeline_set(page, "waited", array);
}

static void add_savings(struct writer *writer, json_t *page, const struct page_saving *savings,
			size_t count)
{
	json_t *array = new_array();

	for (size_t i = 0; savings && i < count; i++) {
		const struct trace_def_rule *rule = model_find(writer->model, savings[i].process,
							       TRACE_DEF_RULE, savings[i].rule);
		const char *slug =
			rule ? model_string(writer->model, savings[i].process, rule->slug) : NULL;
		const struct site *site = sites_find(writer->sites, writer->model,
						     savings[i].process, savings[i].site);
		json_t *item = new_array();

		append(item, signed_number(savings[i].process));
		append(item, signed_number(text_number(writer, slug ? slug : "not defined")));
		append(item, signed_number(site              ? (int64_t)site->number
					   : savings[i].site ? -2
							     : -1));
		append(item, signed_number(savings[i].low_ns));
		append(item, signed_number(savings[i].high_ns));
		append(array, item);
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
static void add_heap(struct writer *writer, json_t *array, struct page_heap *heap)
{
	page_heap_sort(heap, compare_waits);
	for (size_t i = 0; i < heap->count; i++) {
		const struct page_wait *wait = &((const struct page_wait *)heap->items)[i];
		const struct page_stream *stream =
			wait->stream
				? page_stream_of(writer->collection, wait->process, wait->stream)
				: NULL;
		json_t *item = NUMBERS(
			since_begin(writer, wait->begin_ns), wait->call_ns, wait->blocked_ns,
			wait->bytes, group_number(writer, wait->process, wait->wait), wait->thread);

		append(item, signed_number(stream ? (int64_t)stream->row : -1));
		append(item, signed_number(wait->candidates
						   ? (int64_t)target_number(writer, wait->process,
									    wait->candidates)
						   : -1));
		append(array, item);
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
static void add_operations(struct writer *writer, json_t *page)
{
	struct page_heap *heap = &writer->collection->operations;
	json_t *array = new_array();

	page_heap_sort(heap, compare_operations);
	for (size_t i = 0; i < heap->count; i++) {
		const struct page_operation *operation =
			&((const struct page_operation *)heap->items)[i];

		append(array, NUMBERS(operation->stream, since_begin(writer, operation->begin_ns),
				      since_begin(writer, operation->end_ns),
				      operation_number(writer, operation->process,
						       operation->operation, operation->name)));
	}
	timeline_set(page, "operations", array);
}

/* [process, kernel thread id or -1, bins of implicit waits, of explicit ones], as [bin, ns, ...] */
static void add_threads(struct writer *writer, json_t *page)
{
	json_t *threads = new_array();

	for (size_t i = 0; i < writer->collection->threads.count; i++) {
		const struct page_thread *thread = table_at(&writer->collection->threads, i);
		json_t *item = new_array();

		append(item, signed_number(thread->process));
		append(item, signed_number(thread->tid == UINT32_MAX ? -1 : (int64_t)thread->tid));
		for (size_t class = 0; class < 2; class ++) {
			json_t *bins = new_array();

			for (uint64_t bin = 0; bin < PAGE_BINS; bin++)
				if (thread->bins[class][bin]) {
					append(bins, timeline_number(bin));
					append(bins, timeline_number(thread->bins[class][bin]));
				}
			append(item, bins);
		}
		append(threads, item);
	}
	timeline_set(page, "threads", threads);
}

/* [process, words, short words]. After all that may add streams. */
static void add_streams(struct writer *writer, json_t *page)
{
	json_t *streams = new_array();

	for (size_t i = 0; i < writer->collection->streams.count; i++) {
		const struct page_stream *stream = table_at(&writer->collection->streams, i);
		_cleanup_free_ char *words =
			stream_words(writer->model, stream->process, stream->number);
		_cleanup_free_ char *short_words =
			stream_short_words(writer->model, stream->process, stream->number);
		json_t *item = new_array();

		append(item, signed_number(stream->process));
		append(item, timeline_text(words));
		append(item, timeline_text(short_words));
		append(streams, item);
	}
	timeline_set(page, "streams", streams);
}

/* ---- the rest ---- */

static json_t *process_json(const struct writer *writer, uint32_t number)
{
	const struct model_process *process = model_process(writer->model, number);
	const struct trace_def_process *definition =
		model_process_definition(writer->model, number);
	_cleanup_free_ char *name = process_name(writer->model, number);
	_cleanup_free_ char *words = process_words(writer->model, number);
	json_t *item = memory_check(json_object());

	timeline_set(item, "name", timeline_text(name));
	timeline_set(item, "words", timeline_text(words));
	timeline_set(item, "pid", signed_number(process->pid));
	timeline_set(item, "rank", signed_number(process->rank));
	timeline_set(item, "host", timeline_text(process->host));
	timeline_set(item, "ended", boolean(process->ended));
	if (definition) {
		timeline_set(
			item, "command",
			timeline_text(model_string(writer->model, number, definition->command)));
		timeline_set(item, "driver", signed_number(definition->driver_version));
	}
	return item;
}

static json_t *frame_json(const struct site_frame *frame)
{
	json_t *item = memory_check(json_object());

	timeline_set(item, "function", timeline_text(frame->function));
	timeline_set(item, "file", timeline_text(frame->file));
	timeline_set(item, "line", signed_number(frame->line));
	timeline_set(item, "module", timeline_text(frame->module));
	timeline_set(item, "offset", memory_check(json_sprintf("0x%" PRIx64, frame->offset)));
	timeline_set(item, "inlined", boolean(frame->inlined));
	return item;
}

static json_t *site_json(const struct site *site)
{
	json_t *item = memory_check(json_object()), *native = new_array(), *python = new_array();

	for (size_t i = 0; i < site->frame_count && i < PAGE_FRAMES_MAX; i++)
		append(native, frame_json(&site->frames[i]));
	for (size_t i = 0; i < site->python_count && i < PAGE_FRAMES_MAX; i++) {
		json_t *frame = memory_check(json_object());

		timeline_set(frame, "function", timeline_text(site->python[i].function));
		timeline_set(frame, "file", timeline_text(site->python[i].file));
		timeline_set(frame, "line", signed_number(site->python[i].line));
		append(python, frame);
	}
	timeline_set(item, "id", memory_check(json_sprintf("%016" PRIx64, site->hash)));
	timeline_set(item, "label", timeline_text(site->label));
	timeline_set(item, "python", python);
	timeline_set(item, "frames", native);
	return item;
}

/* All are found first: files with many of them are then opened once. */
static void add_sites(struct writer *writer, json_t *page, json_t *left_out)
{
	size_t count = sites_count(writer->sites);
	json_t *sites = new_array();

	for (size_t i = 0; i < count && i < PAGE_SITES_MAX; i++) {
		struct site *site = sites_at(writer->sites, i);

		sites_symbolize(writer->sites, writer->model, site, true);
		append(sites, site_json(site));
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
static uint64_t run_length(const struct writer *writer)
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

static void add_head(const struct writer *writer, json_t *page, const struct analysis_end *end)
{
	json_t *processes = new_array();

	for (uint32_t i = 0; i < model_process_count(writer->model); i++)
		append(processes, process_json(writer, i));
	timeline_set(page, "version", signed_number(1));
	timeline_set(page, "producer", timeline_text("slipstream " SLIPSTREAM_VERSION));
	timeline_set(page, "length_ns",
		     timeline_number(since_begin(writer, writer->collection->end_ns)));
	timeline_set(page, "run_ns", timeline_number(run_length(writer)));
	timeline_set(page, "bin_ns", signed_number(writer->collection->bin_ns));
	timeline_set(page, "events", timeline_number(end->events));
	timeline_set(page, "discarded", timeline_number(end->discarded));
	timeline_set(page, "waits_all", timeline_number(writer->collection->waits));
	timeline_set(page, "reasons", page_reasons(writer->model, end));
	timeline_set(page, "processes", processes);
}

json_t *page_json(struct page_collection *collection, struct sites *sites,
		  const struct model *model, const struct analysis_end *end,
		  const struct page_saving *savings, size_t saving_count)
{
	struct writer writer = {
		.collection = collection,
		.sites = sites,
		.model = model,
		.groups = new_array(),
		.texts = new_array(),
		.targets = new_array(),
		.text_index = memory_check(json_object()),
		.group_index = memory_check(json_object()),
	};
	json_t *page = memory_check(json_object()), *left_out = memory_check(json_object()),
	       *waits = new_array();

	writer.group_numbers.data_size = sizeof(uint32_t);
	writer.text_numbers.data_size = sizeof(uint32_t);
	writer.target_numbers.data_size = sizeof(uint32_t);
	page_begin_with_processes(collection, model);
	add_head(&writer, page, end);
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
