// SPDX-License-Identifier: MIT
/*
 * Report, what the kernel saw (report_witness.h): symbols, reasons, and what the library counted beside it; report_witness_lines.c has the
 * text. The object comes from a file of slipstream-witness or
 * from a trace: what is missing in it counts as 0, and what is of another type too.
 */
#include "report_witness_internal.h"

#include <ctype.h>
#include <inttypes.h>

#include "memory.h"
#include "report_lines.h"
#include "report_sites.h"
#include "symbolize.h"
#include "text.h"
#include "witness_summary.h"

#define BUILD_ID_BYTES 64

/* ---- reading ---- */

uint64_t witness_number(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

const char *witness_words(const json_t *object, const char *key)
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
		.offset = witness_number(frame, "offset"),
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
	set(item, "offset", json_integer((json_int_t)witness_number(raw, "offset")));
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
	return report->witness && witness_number(report->witness, "entries");
}

static void add_reason(struct report *report, uint64_t count, const char *one, const char *several,
		       const char *text)
{
	if (count)
		report_text_list_add(&report->reasons,
				     memory_format("%" PRIu64 " %s %s", count,
						   count == 1 ? one : several, text));
}

/*
 * What was lost, where a wait or an escape may hide in it. Not among them: calls begun before the watch (its edge, not a hole in it), claims
 * (they say nothing of waits), and switches, which were put right.
 */
static void find_losses(struct report *report)
{
	static const struct {
		const char *key, *one, *several, *text;
	} losses[] = {
		{"records", "call", "calls",
		 "counted by the kernel without a record: the ring was full"},
		{"calls", "call", "calls",
		 "counted by the kernel without a record: there was no room"},
		{"deep", "call", "calls",
		 "counted by the kernel without a record: too many inside each other"},
		{"left", "call", "calls",
		 "counted by the kernel without a record: left without return"},
		{"callers", "call", "calls",
		 "counted by the kernel, and nobody knows whose: there was no room"},
		{"processes", "process", "processes", "not watched: there was no room"},
		{"process_records", "piece", "pieces",
		 "of news of processes lost by the kernel, and looked up late"},
		{"mappings", "piece", "pieces",
		 "of news of mappings lost by the kernel: libraries and callers may be missing"},
		{"libraries", "driver library", "driver libraries",
		 "not watched by the kernel (see what the witness said)"},
		{"functions", "function", "functions",
		 "of the driver not watched: the kernel refused to probe them"},
		{"runs", "look", "looks", "of the witness left out by the kernel"},
	};
	const json_t *lost = json_object_get(report->witness, "lost");

	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		add_reason(report, witness_number(lost, losses[i].key), losses[i].one,
			   losses[i].several, losses[i].text);
}

/* Why a clean verdict would not hold. */
static void find_reasons(struct report *report)
{
	const json_t *coverage = json_object_get(report->witness, "coverage");

	add_reason(report, witness_number(coverage, "escaped"), "call", "calls",
		   "escaped the library, as the kernel saw (WITNESS)");
	/* A trace has their waits. */
	if (!report->trace && json_array_size(json_object_get(report->witness, "unpreloaded")))
		add_reason(report, witness_number(coverage, "without_shim"), "call", "calls",
			   "of processes without the library, as the kernel saw (WITNESS)");
	find_losses(report);
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

		if (!strcmp(known->name, witness_words(function, "function")))
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

void report_witness_prepare(struct report *report)
{
	symbolize(report);
	compare(report);
}

void report_witness_json(struct report *report, json_t *object)
{
	if (!report->witness)
		return;
	report_witness_prepare(report);
	memory_check(json_object_set(object, "witness", report->witness) ? NULL : object);
}
