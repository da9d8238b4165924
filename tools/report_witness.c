// SPDX-License-Identifier: MIT
/*
 * Report, what the kernel saw (report_witness.h). The object comes from a file of slipstream-witness or
 * from a trace: what is missing in it counts as 0, and what is of another type too.
 */
#include "report_witness.h"

#include <ctype.h>
#include <inttypes.h>

#include "memory.h"
#include "report_lines.h"
#include "report_sites.h"
#include "symbolize.h"
#include "text.h"
#include "witness_summary.h"

#define DEPTH_SHOWN    6
#define SITES_SHOWN    3
#define BUILD_ID_BYTES 64

/* ---- reading ---- */

static uint64_t number(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

static const char *words(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "unknown";
}

/* ---- symbols ---- */

struct place {
	const char *path;
	uint64_t offset;
	uint8_t build_id[BUILD_ID_BYTES];
	size_t build_id_length;
};

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct place place_of(const json_t *frame)
{
	const char *digits = json_string_value(json_object_get(frame, "build_id"));
	struct place place = {
		.path = json_string_value(json_object_get(frame, "module")),
		.offset = number(frame, "offset"),
	};

	while (digits && place.build_id_length < BUILD_ID_BYTES && digit(digits[0]) >= 0 &&
	       digit(digits[1]) >= 0) {
		place.build_id[place.build_id_length++] =
			(uint8_t)(digit(digits[0]) << 4 | digit(digits[1]));
		digits += 2;
	}
	return place;
}

static void set(json_t *object, const char *key, json_t *value)
{
	memory_check(json_object_set_new(object, key, memory_check(value)) ? NULL : object);
}

static json_t *string(const char *raw)
{
	_cleanup_free_ char *text = NULL;

	if (!raw)
		return json_null();
	text = text_printable(raw, true);
	return json_string(text);
}

static json_t *frame_json(const json_t *raw, const struct symbol_frame *symbol, bool inlined)
{
	json_t *item = memory_check(json_object());

	set(item, "function", string(symbol->function));
	set(item, "file", string(symbol->file));
	set(item, "line", symbol->line ? json_integer(symbol->line) : json_null());
	set(item, "module", string(json_string_value(json_object_get(raw, "module"))));
	set(item, "offset", json_integer((json_int_t)number(raw, "offset")));
	set(item, "inlined", json_boolean(inlined));
	return item;
}

static void add_frames(json_t *into, const json_t *raw, struct symbolizer *symbolizer)
{
	static const struct symbol_frame none = {0};
	struct place place = place_of(raw);
	const struct symbol_frames *symbols = NULL;
	size_t count = 0;

	/* Without an id any file of that name would do. */
	if (symbolizer && place.path && place.build_id_length && place.offset &&
	    !symbolizer_frame(symbolizer, place.path, place.build_id, place.build_id_length,
			      place.offset - 1, &symbols))
		count = symbols->count;
	for (size_t i = 0; i < count; i++)
		(void)json_array_append_new(into,
					    frame_json(raw, &symbols->frames[i], i + 1 < count));
	if (!count)
		(void)json_array_append_new(into, frame_json(raw, &none, false));
}

/* Every object below that has frames. */
static void each_stack(json_t *value, struct symbolizer *symbolizer,
		       void (*take)(json_t *owner, struct symbolizer *symbolizer))
{
	json_t *item;
	const char *key;
	size_t index;

	if (json_is_object(value)) {
		if (json_is_array(json_object_get(value, "frames")))
			take(value, symbolizer);
		json_object_foreach(value, key, item) if (strcmp(key, "frames") != 0)
			each_stack(item, symbolizer, take);
	} else if (json_is_array(value)) {
		json_array_foreach(value, index, item) each_stack(item, symbolizer, take);
	}
}

static void announce(json_t *owner, struct symbolizer *symbolizer)
{
	json_t *frame;
	size_t index;

	json_array_foreach(json_object_get(owner, "frames"), index, frame)
	{
		struct place place = place_of(frame);

		if (place.path && place.build_id_length && place.offset)
			(void)symbolizer_expect(symbolizer, place.path, place.build_id,
						place.build_id_length, place.offset - 1);
	}
}

static void resolve(json_t *owner, struct symbolizer *symbolizer)
{
	json_t *frames = memory_check(json_array()), *frame;
	size_t index;

	json_array_foreach(json_object_get(owner, "frames"), index, frame)
		add_frames(frames, frame, symbolizer);
	set(owner, "frames", frames);
}

/* Once; other sites of the report are announced first, so that each file is walked through once. */
static void symbolize(struct report *report)
{
	struct symbolizer *symbolizer;

	if (report->witness_has_symbols)
		return;
	report->witness_has_symbols = true;
	symbolizer = report_symbolizer(report);
	if (symbolizer)
		each_stack(report->witness, symbolizer, announce);
	each_stack(report->witness, symbolizer, resolve);
}

bool report_witness_has_calls(const struct report *report)
{
	return report->witness && number(report->witness, "entries");
}

static void add_reason(struct report *report, uint64_t count, const char *text)
{
	if (count)
		report_text_list_add(&report->reasons, memory_format("%" PRIu64 " call%s %s", count,
								     plural(count), text));
}

/* Why a clean verdict would not hold. */
static void find_reasons(struct report *report)
{
	const json_t *coverage = json_object_get(report->witness, "coverage");

	add_reason(report, number(coverage, "escaped"),
		   "escaped the library, as the kernel saw (WITNESS)");
	add_reason(report, number(json_object_get(report->witness, "lost"), "records"),
		   "counted by the kernel without a record: the ring was full");
}

void report_witness_set(struct report *report, json_t *witness)
{
	json_decref(report->witness);
	report->witness = NULL;
	if (json_is_object(witness) && json_is_array(json_object_get(witness, "functions"))) {
		report->witness = witness;
		find_reasons(report);
		return;
	}
	json_decref(witness);
	report_text_list_add(&report->problems,
			     memory_copy("what the witness left is not readable"));
}

/* ---- held against the records ---- */

/* What the preload library counted; -1: nothing is known of the function. */
static json_int_t recorded(const struct report *report, const json_t *function)
{
	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *known = report->functions.items[i];

		if (!strcmp(known->name, words(function, "function")))
			return known->calls > INT64_MAX ? INT64_MAX : (json_int_t)known->calls;
	}
	return -1;
}

/* Once everything is known. */
static void compare(struct report *report)
{
	json_t *function;
	size_t index;

	json_array_foreach(json_object_get(report->witness, "functions"), index, function)
	{
		json_int_t calls = recorded(report, function);

		set(function, "recorded", calls < 0 ? json_null() : json_integer(calls));
	}
}

/* ---- text ---- */

/* "spin 93 %, poll 7 %", largest first, of the sum of all; the caller frees. */
static char *how_words(const json_t *object)
{
	const json_t *how = json_object_get(object, "how");
	uint64_t ns[WITNESS_HOWS], all = 0;
	char *text = memory_copy("");

	for (int i = 0; i < WITNESS_HOWS; i++) {
		_cleanup_free_ char *key = memory_format("%s_ns", witness_how_names[i]);

		ns[i] = number(how, key);
		all += ns[i];
	}
	for (int rank = 0; rank < WITNESS_HOWS; rank++) {
		char share[TEXT_FIGURE], *longer;
		int most = 0;

		for (int i = 1; i < WITNESS_HOWS; i++)
			if (ns[i] > ns[most])
				most = i;
		if (!ns[most] || ns[most] * 1000 < all)
			break;
		longer = memory_format("%s%s%s %s", text, rank ? ", " : "", witness_how_names[most],
				       text_share(ns[most], all, share));
		free(text);
		text = longer;
		ns[most] = 0;
	}
	if (!*text) {
		free(text);
		text = memory_copy("not blocked");
	}
	return text;
}

static void add_stack(const struct lines *lines, const json_t *owner, const char *indent)
{
	const json_t *array = json_object_get(owner, "frames"), *item;
	struct report_frame *frames = memory_new(json_array_size(array) * sizeof(*frames));
	size_t index;

	json_array_foreach(array, index, item) frames[index] = (struct report_frame){
		.function = (char *)json_string_value(json_object_get(item, "function")),
		.file = (char *)json_string_value(json_object_get(item, "file")),
		.line = (uint32_t)number(item, "line"),
		.module = json_string_value(json_object_get(item, "module")),
		.offset = number(item, "offset"),
		.inlined = json_is_true(json_object_get(item, "inlined")),
	};
	lines_add_frames(lines, frames, json_array_size(array), indent,
			 lines->style->limit ? DEPTH_SHOWN : 0);
	free(frames);
}

static void add_streams(const struct lines *lines, const json_t *function)
{
	static const char *const keys[] = {"legacy", "per_thread", "other"};
	static const char *const names[] = {"legacy", "per-thread", "other"};
	const json_t *streams = json_object_get(function, "streams"), *copy;
	const json_t *copies = json_object_get(function, "copies");
	size_t index;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		uint64_t count = number(streams, keys[i]);

		if (count)
			lines_add(lines, LINE_PLAIN, "      on: %s stream, %" PRIu64 " call%s",
				  names[i], count, plural(count));
	}
	json_array_foreach(copies, index, copy)
	{
		char bytes[TEXT_FIGURE];

		lines_add(lines, LINE_PLAIN, "      copies: %s, %" PRIu64 " call%s, %s",
			  words(copy, "direction"), number(copy, "calls"),
			  plural(number(copy, "calls")), text_bytes(number(copy, "bytes"), bytes));
	}
}

static void add_sites(const struct lines *lines, const json_t *function)
{
	const json_t *sites = json_object_get(function, "sites");
	size_t count = json_array_size(sites), shown = count;

	if (lines->style->limit && shown > SITES_SHOWN)
		shown = SITES_SHOWN;
	for (size_t i = 0; i < shown; i++) {
		const json_t *site = json_array_get(sites, i);
		_cleanup_free_ char *how = how_words(site);
		char blocked[TEXT_FIGURE];

		lines_add(lines, LINE_PLAIN, "      from: %" PRIu64 " call%s, %s: %s",
			  number(site, "calls"), plural(number(site, "calls")),
			  text_ns(number(site, "blocked_ns"), blocked), how);
		add_stack(lines, site, "        ");
	}
	lines_add_more(lines, "      ", shown, count, "site");
}

static void add_function(const struct lines *lines, size_t rank, const json_t *function)
{
	_cleanup_free_ char *name = text_printable(words(function, "function"), false);
	_cleanup_free_ char *how = how_words(function);
	char blocked[TEXT_FIGURE], longest[TEXT_FIGURE];

	lines_add(lines, LINE_STRONG, "  %3zu %9s %9s %8" PRIu64 "  %s", rank,
		  text_ns(number(function, "blocked_ns"), blocked),
		  text_ns(number(function, "blocked_max_ns"), longest), number(function, "calls"),
		  name);
	lines_add(lines, LINE_PLAIN,
		  "      waited: %s (%" PRIu64 " sleep%s, %" PRIu64 " preemption%s)", how,
		  number(function, "switches"), plural(number(function, "switches")),
		  number(function, "preemptions"), plural(number(function, "preemptions")));
	add_streams(lines, function);
	add_sites(lines, function);
}

static void add_functions(const struct lines *lines, const json_t *witness)
{
	const json_t *functions = json_object_get(witness, "functions"), *function;
	size_t index, shown = 0, all = 0;

	json_array_foreach(functions, index, function) all += number(function, "calls") > 0;
	lines_add(lines, LINE_PLAIN, "%s", "");
	lines_add(lines, LINE_HEADING, "HOW THE THREADS WAITED (what the kernel saw)");
	if (!all) {
		lines_add(lines, LINE_PLAIN, "  no watched call was seen");
		return;
	}
	lines_add(lines, LINE_PLAIN, "  %3s %9s %9s %8s  %s", "#", "blocked", "longest", "calls",
		  "function");
	json_array_foreach(functions, index, function)
	{
		if (!number(function, "calls") ||
		    (lines->style->limit && shown == lines->style->limit))
			continue;
		add_function(lines, ++shown, function);
	}
	lines_add_more(lines, "  ", shown, all, "function");
}

static void add_escaped(const struct lines *lines, const json_t *witness)
{
	const json_t *array = json_object_get(witness, "escaped"), *item;
	size_t index;

	json_array_foreach(array, index, item)
	{
		_cleanup_free_ char *name = text_printable(words(item, "function"), false);
		char blocked[TEXT_FIGURE];

		if (lines->style->limit && index == lines->style->limit)
			break;
		lines_add(lines, LINE_WARNING, "  escaped: %s, %" PRIu64 " call%s, %s", name,
			  number(item, "calls"), plural(number(item, "calls")),
			  text_ns(number(item, "blocked_ns"), blocked));
		add_stack(lines, item, "      ");
	}
	lines_add_more(lines, "  ", index, json_array_size(array), "line");
}

static void add_contradicted(const struct lines *lines, const json_t *witness)
{
	const json_t *array = json_object_get(witness, "contradicted"), *item;
	size_t index;

	json_array_foreach(array, index, item)
	{
		_cleanup_free_ char *name = text_printable(words(item, "function"), false);
		_cleanup_free_ char *claim = text_printable(words(item, "claim"), false);
		char blocked[TEXT_FIGURE], longest[TEXT_FIGURE];

		if (lines->style->limit && index == lines->style->limit)
			break;
		lines_add(lines, LINE_WARNING,
			  "  contradicted: %s, answered without a wait (%s) as the library says, "
			  "%" PRIu64 " call%s blocked %s, longest %s",
			  name, claim, number(item, "calls"), plural(number(item, "calls")),
			  text_ns(number(item, "blocked_ns"), blocked),
			  text_ns(number(item, "blocked_max_ns"), longest));
		add_stack(lines, item, "      ");
	}
	lines_add_more(lines, "  ", index, json_array_size(array), "line");
}

/*
 * Calls through a wrapper that it did not count. Fewer than counted are no contradiction: calls of mode fix
 * need not reach the driver.
 */
static void add_differences(const struct lines *lines, const json_t *witness)
{
	const json_t *function;
	size_t index;

	json_array_foreach(json_object_get(witness, "functions"), index, function)
	{
		_cleanup_free_ char *name = text_printable(words(function, "function"), false);
		uint64_t wrapper = number(function, "wrapper");

		if (wrapper > number(function, "recorded"))
			lines_add(lines, LINE_WARNING,
				  "  contradicted: %s, %" PRIu64 " call%s counted by the library, "
				  "%" PRIu64 " through its wrapper",
				  name, number(function, "recorded"),
				  plural(number(function, "recorded")), wrapper);
	}
}

static void add_coverage(const struct lines *lines, const json_t *witness)
{
	const json_t *coverage = json_object_get(witness, "coverage");
	double proven = json_real_value(json_object_get(coverage, "proven"));
	uint64_t calls = number(coverage, "calls");

	if (!calls)
		return;
	lines_add(lines, LINE_PLAIN,
		  "  coverage: %.*f %% proven: %" PRIu64 " of %" PRIu64
		  " calls came through a wrapper, %" PRIu64 " escaped, %" PRIu64 " unknown",
		  proven < 0.999 ? 1
		  : proven < 1   ? 3
				 : 0,
		  proven < 1 && proven > 0.99999 ? 99.999 : proven * 100,
		  number(coverage, "wrapper"), calls, number(coverage, "escaped"),
		  number(coverage, "unknown"));
	lines_add(lines, LINE_PLAIN,
		  "  apart from these: %" PRIu64 " of the library's own, %" PRIu64
		  " inside the driver",
		  number(coverage, "shim_own"), number(coverage, "inside_library"));
}

static void add_loss(const struct lines *lines, const json_t *witness)
{
	static const struct {
		const char *key, *words;
	} losses[] = {
		{"records", "counted without record, the ring was full"},
		{"calls", "only counted, there was no room"},
		{"deep", "only counted, too many inside each other"},
		{"left", "left without return (longjmp, exception)"},
		{"late", "begun before the watch, not counted"},
		{"callers", "whose they are is not known, there was no room"},
	};
	const json_t *lost = json_object_get(witness, "lost");
	char least[TEXT_FIGURE];

	lines_add(lines, LINE_PLAIN, "  watched calls: %" PRIu64 " in %" PRIu64 " process%s%s%s",
		  number(witness, "entries"), number(witness, "processes"),
		  number(witness, "processes") == 1 ? "" : "es",
		  number(witness, "least_ns") ? ", in detail those of at least " : "",
		  number(witness, "least_ns") ? text_ns(number(witness, "least_ns"), least) : "");
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		if (number(lost, losses[i].key))
			lines_add(lines, LINE_WARNING, "  lost: %s: %" PRIu64, losses[i].words,
				  number(lost, losses[i].key));
}

void lines_add_witness(const struct lines *lines, struct report *report)
{
	if (!report->witness)
		return;
	symbolize(report);
	compare(report);
	add_functions(lines, report->witness);
	lines_add(lines, LINE_PLAIN, "%s", "");
	lines_add(lines, LINE_HEADING, "WITNESS");
	add_loss(lines, report->witness);
	add_coverage(lines, report->witness);
	add_escaped(lines, report->witness);
	add_contradicted(lines, report->witness);
	/* Traces of a watch alone have no records to compare with. */
	if (!report->trace)
		add_differences(lines, report->witness);
}

void report_witness_json(struct report *report, json_t *object)
{
	if (!report->witness)
		return;
	symbolize(report);
	compare(report);
	memory_check(json_object_set(object, "witness", report->witness) ? NULL : object);
}
