// SPDX-License-Identifier: MIT
/*
 * Report of a trace (report_trace.h): rankings by place, for text and JSON. Both fold the same
 * cells under a key.
 */
#include "report_trace.h"

#include <inttypes.h>

#include "memory.h"
#include "report_lines.h"
#include "report_order.h"
#include "sum.h"
#include "text.h"

#define KINDS_SHOWN 3 /* rules under one place */

/* ---- folding ---- */

/* A place with what happened there. */
struct place {
	const struct report_cell *cell; /* says where; any of its cells */
	uint64_t count, blocked_ns, blocked_max;
	uint64_t implicit_ns, allowed_ns, explicit_ns;
};

static int order_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

#define RETURN_IF(order)                                                                           \
	do {                                                                                       \
		int order_ = (order);                                                              \
		if (order_)                                                                        \
			return order_;                                                             \
	} while (0)

/* By what `by` tells apart; 0: the same place. */
static int order_places(const struct report_cell *a, const struct report_cell *b, enum report_by by)
{
	if (by == REPORT_BY_RANK)
		RETURN_IF(order_numbers((uint32_t)a->rank, (uint32_t)b->rank));
	RETURN_IF(strcmp(a->host, b->host));
	if (by == REPORT_BY_HOST)
		return 0;
	if (by == REPORT_BY_GPU)
		return order_numbers((uint32_t)a->device, (uint32_t)b->device);
	RETURN_IF(order_numbers(a->process, b->process));
	if (by == REPORT_BY_THREAD)
		return order_numbers(a->thread, b->thread);
	if (by == REPORT_BY_STREAM) {
		RETURN_IF(order_numbers(a->stream, b->stream));
		return order_numbers(a->context, b->context);
	}
	return order_numbers((uint32_t)a->device, (uint32_t)b->device);
}

static int compare_places(const void *left, const void *right, void *by)
{
	const struct place *a = left, *b = right;

	return order_places(a->cell, b->cell, *(enum report_by *)by);
}

/*
 * Most blocked first; order_places() of all keys breaks ties, so that equal traces give equal
 * reports.
 */
static int rank_places(const void *left, const void *right, void *by)
{
	const struct place *a = left, *b = right;

	RETURN_IF(order_numbers(b->blocked_ns, a->blocked_ns));
	RETURN_IF(order_numbers(b->count, a->count));
	return order_places(a->cell, b->cell, *(enum report_by *)by);
}

static void fold_in(struct place *into, const struct place *from)
{
	sum_add(&into->count, from->count);
	sum_add(&into->blocked_ns, from->blocked_ns);
	sum_add(&into->implicit_ns, from->implicit_ns);
	sum_add(&into->allowed_ns, from->allowed_ns);
	sum_add(&into->explicit_ns, from->explicit_ns);
	if (from->blocked_max > into->blocked_max)
		into->blocked_max = from->blocked_max;
}

static struct place place_of(const struct report_cell *cell)
{
	struct place place = {
		.cell = cell,
		.count = cell->count,
		.blocked_ns = cell->blocked_ns,
		.blocked_max = cell->blocked_max,
	};

	if (cell->class == WAIT_EXPLICIT)
		place.explicit_ns = cell->blocked_ns;
	else if (cell->class == WAIT_IMPLICIT && cell->allowed)
		place.allowed_ns = cell->blocked_ns;
	else if (cell->class == WAIT_IMPLICIT)
		place.implicit_ns = cell->blocked_ns;
	return place;
}

static bool is_like(const struct report_cell *cell, const struct report_cell *part)
{
	return cell->class == part->class && cell->own_cost == part->own_cost &&
	       cell->allowed == part->allowed;
}

/* The cells that tell the places of the key apart. */
static const struct report_cell *cells_of(const struct report_trace *trace, enum report_by by,
					  size_t *ret_count)
{
	bool threads = by == REPORT_BY_THREAD;

	*ret_count = threads ? trace->thread_count : trace->stream_count;
	return threads ? trace->threads : trace->streams;
}

/* The places of the key, ranked; `part` NULL: all calls. The caller frees. */
static struct place *places_by(const struct report_trace *trace, enum report_by by,
			       const struct report_cell *part, size_t *ret_count)
{
	size_t cell_count, count = 0, kept = 0;
	const struct report_cell *cells = cells_of(trace, by, &cell_count);
	struct place *places = memory_new(cell_count * sizeof(*places));

	for (size_t i = 0; i < cell_count; i++)
		if (!part || is_like(&cells[i], part))
			places[count++] = place_of(&cells[i]);
	qsort_r(places, count, sizeof(*places), compare_places, &by);
	for (size_t i = 0; i < count; i++)
		if (kept && !order_places(places[kept - 1].cell, places[i].cell, by))
			fold_in(&places[kept - 1], &places[i]);
		else
			places[kept++] = places[i];
	qsort_r(places, kept, sizeof(*places), rank_places, &by);
	*ret_count = kept;
	return places;
}

static int order_kinds(const void *left, const void *right)
{
	const struct report_cell *a = left, *b = right;

	RETURN_IF(strcmp(a->rule, b->rule));
	return strcmp(a->function, b->function);
}

/* Of an array of pointers: most blocked first. */
static int rank_kinds(const void *left, const void *right)
{
	const struct report_cell *a = *(const void *const *)left, *b = *(const void *const *)right;

	RETURN_IF(order_numbers(b->blocked_ns, a->blocked_ns));
	RETURN_IF(order_numbers(b->count, a->count));
	return order_kinds(a, b);
}

/* What is at one place, by rule and function: struct report_cell, ranked. The caller ends the list. */
static struct report_list kinds_at(const struct report_trace *trace, const struct place *place,
				   const struct report_cell *part, enum report_by by)
{
	struct report_list kinds = {0};
	size_t cell_count;
	const struct report_cell *cells = cells_of(trace, by, &cell_count);

	for (size_t i = 0; i < cell_count; i++) {
		struct report_cell key = cells[i], *kind;

		if (!is_like(&cells[i], part) || order_places(&cells[i], place->cell, by))
			continue;
		key.count = key.blocked_ns = 0;
		kind = report_list_find_or_add(&kinds, &key, sizeof(key), order_kinds);
		sum_add(&kind->count, cells[i].count);
		sum_add(&kind->blocked_ns, cells[i].blocked_ns);
	}
	report_list_sort(&kinds, rank_kinds);
	return kinds;
}

/* ---- text ---- */

char *report_trace_process(int32_t rank, const char *host, uint32_t pid)
{
	_cleanup_free_ char *shown = text_printable(host, false);
	_cleanup_free_ char *first =
		rank >= 0 ? memory_format("rank %" PRId32 ", ", rank) : memory_copy("");

	return memory_format("%s%s%sprocess %" PRIu32, first, shown, *shown ? ", " : "", pid);
}

static char *device_words(int32_t device)
{
	return device >= 0 ? memory_format("GPU %" PRId32, device) : memory_copy("unknown GPU");
}

static char *stream_words(const struct report_cell *cell)
{
	if (!cell->stream)
		return memory_copy("unknown stream");
	return memory_format("stream %" PRIu32 " (%s) of context %" PRIu64, cell->stream,
			     report_stream_kind(cell->stream_kind), cell->context);
}

static char *place_words(const struct report_cell *cell, enum report_by by)
{
	_cleanup_free_ char *process = report_trace_process(cell->rank, cell->host, cell->pid);
	_cleanup_free_ char *device = device_words(cell->device);
	_cleanup_free_ char *host =
		text_printable(*cell->host ? cell->host : "unknown host", false);
	_cleanup_free_ char *stream = stream_words(cell);

	switch (by) {
	case REPORT_BY_HOST:
		return memory_copy(host);
	case REPORT_BY_GPU:
		return memory_format("%s, %s", host, device);
	case REPORT_BY_THREAD:
		return memory_format("thread %" PRIu32 ", %s", cell->thread, process);
	case REPORT_BY_STREAM:
		return memory_format("%s, %s", stream, process);
	default:
		return memory_format("%s, %s", process, device);
	}
}

static void add_kinds(const struct lines *lines, const struct report_trace *trace,
		      const struct place *place, const struct report_cell *part, enum report_by by)
{
	struct report_list kinds = kinds_at(trace, place, part, by);
	size_t shown = lines->style->limit && kinds.count > KINDS_SHOWN ? KINDS_SHOWN : kinds.count;

	for (size_t i = 0; i < shown; i++) {
		const struct report_cell *kind = kinds.items[i];
		_cleanup_free_ char *rule = text_printable(kind->rule, false);
		_cleanup_free_ char *function = text_printable(kind->function, false);
		char blocked[TEXT_FIGURE];

		lines_add(lines, LINE_PLAIN, "      %s in %s: %" PRIu64 " call%s, %s", rule,
			  function, kind->count, plural(kind->count),
			  text_ns(kind->blocked_ns, blocked));
	}
	lines_add_more(lines, "      ", shown, kinds.count, "rule");
	report_list_done(&kinds);
}

void report_trace_add_section(const struct lines *lines, struct report *report,
			      const struct report_cell *part)
{
	const struct report_trace *trace = report->trace;
	enum report_by by = lines->style->by;
	_cleanup_free_ struct place *places = NULL;
	size_t count, shown;

	if (!trace)
		return;
	places = places_by(trace, by, part, &count);
	shown = lines->style->limit && count > lines->style->limit ? lines->style->limit : count;
	for (size_t i = 0; i < shown; i++) {
		_cleanup_free_ char *what = place_words(places[i].cell, by);
		char total[TEXT_FIGURE], share[TEXT_FIGURE], max[TEXT_FIGURE];

		if (part->class == WAIT_DEVICE)
			lines_add(lines, LINE_STRONG, "  %3zu %8" PRIu64 "  %s", i + 1,
				  places[i].count, what);
		else
			lines_add(lines, LINE_STRONG, "  %3zu %9s %8s %9s %8" PRIu64 "  %s", i + 1,
				  text_ns(places[i].blocked_ns, total),
				  text_share(places[i].blocked_ns, report->wall_ns, share),
				  text_ns(places[i].blocked_max, max), places[i].count, what);
		add_kinds(lines, trace, &places[i], part, by);
	}
	lines_add_more(lines, "  ", shown, count, "line");
}

void report_trace_add_ranks(const struct lines *lines, const struct report *report)
{
	const struct report_trace *trace = report->trace;
	_cleanup_free_ struct place *places = NULL;
	size_t count, shown;

	if (!trace || trace->process_count < 2)
		return;
	places = places_by(trace, REPORT_BY_RANK, NULL, &count);
	shown = lines->style->limit && count > lines->style->limit ? lines->style->limit : count;
	lines_add(lines, LINE_PLAIN, "%s", "");
	lines_add(lines, LINE_HEADING, "RANKS, HOSTS AND GPUS");
	lines_add(lines, LINE_PLAIN, "  %3s %9s %9s %8s  %s", "#", "implicit", "explicit", "calls",
		  "where");
	for (size_t i = 0; i < shown; i++) {
		_cleanup_free_ char *what = place_words(places[i].cell, REPORT_BY_RANK);
		char implicit[TEXT_FIGURE], explicit[TEXT_FIGURE];

		lines_add(lines, LINE_PLAIN, "  %3zu %9s %9s %8" PRIu64 "  %s", i + 1,
			  text_ns(places[i].implicit_ns, implicit),
			  text_ns(places[i].explicit_ns, explicit), places[i].count, what);
	}
	lines_add_more(lines, "  ", shown, count, "line");
}

void report_trace_add_extra(const struct lines *lines, const struct report *report)
{
	const struct report_trace *trace = report->trace;

	if (!trace)
		return;
	if (trace->extra.key && trace->extra.text) {
		lines_add(lines, LINE_PLAIN, "%s", "");
		trace->extra.text(trace->extra.context, lines->out, lines->style->limit);
	}
	if (trace->selection) {
		_cleanup_free_ char *selection = text_printable(trace->selection, false);

		lines_add(lines, LINE_PLAIN, "%s", "");
		lines_add(lines, LINE_WARNING, "Only a part of the trace is shown: %s", selection);
	}
}

/* ---- reasons ---- */

void report_trace_find_reasons(struct report *report)
{
	const struct report_trace *trace = report->trace;

	if (trace->discarded)
		report_text_list_add(&report->reasons,
				     memory_format("%" PRIu64 " event%s lost by the tracer",
						   trace->discarded,
						   trace->discarded == 1 ? " was" : "s were"));
	if (trace->discarded_packets)
		report_text_list_add(&report->reasons,
				     memory_format("%" PRIu64
						   " packet%s of events %s lost by the tracer",
						   trace->discarded_packets,
						   trace->discarded_packets == 1 ? "" : "s",
						   trace->discarded_packets == 1 ? "was" : "were"));
	if (trace->interrupted)
		report_text_list_add(&report->reasons,
				     memory_format("the analysis was stopped after %" PRIu64
						   " events: what follows is not in this report",
						   trace->events));
	if (trace->broken)
		report_text_list_add(
			&report->reasons,
			memory_format("the trace could be read in part only: %s", trace->broken));
}

void report_trace_free(struct report_trace *trace)
{
	if (!trace)
		return;
	free(trace->streams);
	free(trace->threads);
	free(trace->broken);
	free(trace->selection);
	free(trace);
}

/* ---- JSON ---- */

static void set(json_t *object, const char *key, json_t *value)
{
	memory_check(json_object_set_new(object, key, memory_check(value)) ? NULL : object);
}

static json_t *integer(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *string(const char *raw)
{
	_cleanup_free_ char *text = raw && *raw ? text_printable(raw, true) : NULL;

	return text ? json_string(text) : json_null();
}

/* -1 is not known. */
static json_t *number_or_null(int64_t value)
{
	return value < 0 ? json_null() : json_integer(value);
}

static json_t *place_json(const struct place *place, enum report_by by)
{
	const struct report_cell *cell = place->cell;
	json_t *item = memory_check(json_object());

	set(item, "host", string(cell->host));
	set(item, "rank", number_or_null(cell->rank));
	set(item, "pid", integer(cell->pid));
	if (by == REPORT_BY_THREAD) {
		set(item, "thread", integer(cell->thread));
	} else {
		set(item, "device", number_or_null(cell->device));
	}
	if (by == REPORT_BY_STREAM) {
		set(item, "stream", integer(cell->stream));
		set(item, "stream_kind", json_string(report_stream_kind(cell->stream_kind)));
		set(item, "context", integer(cell->context));
	}
	set(item, "count", integer(place->count));
	set(item, "blocked_ns", integer(place->blocked_ns));
	set(item, "blocked_max_ns", integer(place->blocked_max));
	set(item, "implicit_blocked_ns", integer(place->implicit_ns));
	set(item, "allowed_blocked_ns", integer(place->allowed_ns));
	set(item, "explicit_blocked_ns", integer(place->explicit_ns));
	return item;
}

static json_t *places_json(const struct report_trace *trace, enum report_by by)
{
	json_t *array = memory_check(json_array());
	_cleanup_free_ struct place *places = NULL;
	size_t count;

	places = places_by(trace, by, NULL, &count);
	for (size_t i = 0; i < count; i++)
		memory_check(json_array_append_new(array, place_json(&places[i], by)) ? NULL
										      : array);
	return array;
}

static json_t *about_json(const struct report_trace *trace)
{
	json_t *about = memory_check(json_object());

	set(about, "events", integer(trace->events));
	set(about, "duration_ns", integer((uint64_t)trace->duration_ns));
	set(about, "discarded_events", integer(trace->discarded));
	set(about, "discarded_packets", integer(trace->discarded_packets));
	set(about, "interrupted", json_boolean(trace->interrupted));
	set(about, "broken", string(trace->broken));
	set(about, "selection", string(trace->selection));
	return about;
}

void report_trace_json(const struct report *report, json_t *object)
{
	const struct report_trace *trace = report->trace;

	if (!trace)
		return;
	set(object, "trace", about_json(trace));
	set(object, "threads", places_json(trace, REPORT_BY_THREAD));
	set(object, "streams", places_json(trace, REPORT_BY_STREAM));
	set(object, "ranks", places_json(trace, REPORT_BY_RANK));
	if (trace->extra.key && trace->extra.json)
		set(object, trace->extra.key, trace->extra.json(trace->extra.context));
}
