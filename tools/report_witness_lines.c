// SPDX-License-Identifier: MIT
/*
 * Report, what the kernel saw, as text (report_witness.h). Everything may be missing in the object, and is nothing then.
 */
#include <ctype.h>
#include <inttypes.h>

#include "memory.h"
#include "report_lines.h"
#include "report_sites.h"
#include "report_witness_internal.h"
#include "text.h"
#include "witness_summary.h"

#define DEPTH_SHOWN 6
#define SITES_SHOWN 3

/* "spin 93 %, poll 7 %", largest first, of the sum of all; the caller frees. */
static char *how_words(const json_t *object)
{
	const json_t *how = json_object_get(object, "how");
	uint64_t ns[WITNESS_HOWS], all = 0;
	char *text = memory_copy("");

	for (int i = 0; i < WITNESS_HOWS; i++) {
		_cleanup_free_ char *key = memory_format("%s_ns", witness_how_names[i]);

		ns[i] = witness_number(how, key);
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
		.line = (uint32_t)witness_number(item, "line"),
		.module = json_string_value(json_object_get(item, "module")),
		.offset = witness_number(item, "offset"),
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
		uint64_t count = witness_number(streams, keys[i]);

		if (count)
			lines_add(lines, LINE_PLAIN, "      on: %s stream, %" PRIu64 " call%s",
				  names[i], count, plural(count));
	}
	json_array_foreach(copies, index, copy)
	{
		char bytes[TEXT_FIGURE];

		lines_add(lines, LINE_PLAIN, "      copies: %s, %" PRIu64 " call%s, %s",
			  witness_words(copy, "direction"), witness_number(copy, "calls"),
			  plural(witness_number(copy, "calls")),
			  text_bytes(witness_number(copy, "bytes"), bytes));
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
			  witness_number(site, "calls"), plural(witness_number(site, "calls")),
			  text_ns(witness_number(site, "blocked_ns"), blocked), how);
		add_stack(lines, site, "        ");
	}
	lines_add_more(lines, "      ", shown, count, "site");
}

static void add_function(const struct lines *lines, size_t rank, const json_t *function)
{
	_cleanup_free_ char *name = text_printable(witness_words(function, "function"), false);
	_cleanup_free_ char *how = how_words(function);
	char blocked[TEXT_FIGURE], longest[TEXT_FIGURE];

	lines_add(lines, LINE_STRONG, "  %3zu %9s %9s %8" PRIu64 "  %s", rank,
		  text_ns(witness_number(function, "blocked_ns"), blocked),
		  text_ns(witness_number(function, "blocked_max_ns"), longest),
		  witness_number(function, "calls"), name);
	lines_add(lines, LINE_PLAIN,
		  "      waited: %s (%" PRIu64 " sleep%s, %" PRIu64 " preemption%s)", how,
		  witness_number(function, "switches"),
		  plural(witness_number(function, "switches")),
		  witness_number(function, "preemptions"),
		  plural(witness_number(function, "preemptions")));
	add_streams(lines, function);
	add_sites(lines, function);
}

static void add_functions(const struct lines *lines, const json_t *witness)
{
	const json_t *functions = json_object_get(witness, "functions"), *function;
	size_t index, shown = 0, all = 0;

	json_array_foreach(functions, index, function) all += witness_number(function, "calls") > 0;
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
		if (!witness_number(function, "calls") ||
		    (lines->style->limit && shown == lines->style->limit))
			continue;
		add_function(lines, ++shown, function);
	}
	lines_add_more(lines, "  ", shown, all, "function");
}

/* Lines of calls that no wrapper saw. */
static void add_unseen(const struct lines *lines, const json_t *witness, const char *key,
		       const char *what)
{
	const json_t *array = json_object_get(witness, key), *item;
	size_t index;

	json_array_foreach(array, index, item)
	{
		_cleanup_free_ char *name = text_printable(witness_words(item, "function"), false);
		char blocked[TEXT_FIGURE];

		if (lines->style->limit && index == lines->style->limit)
			break;
		lines_add(lines, LINE_WARNING, "  %s: %s, %" PRIu64 " call%s, %s", what, name,
			  witness_number(item, "calls"), plural(witness_number(item, "calls")),
			  text_ns(witness_number(item, "blocked_ns"), blocked));
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
		_cleanup_free_ char *name = text_printable(witness_words(item, "function"), false);
		_cleanup_free_ char *claim = text_printable(witness_words(item, "claim"), false);
		char blocked[TEXT_FIGURE], longest[TEXT_FIGURE];

		if (lines->style->limit && index == lines->style->limit)
			break;
		lines_add(lines, LINE_WARNING,
			  "  contradicted: %s, answered without a wait (%s) as the library says, "
			  "%" PRIu64 " call%s blocked %s, longest %s",
			  name, claim, witness_number(item, "calls"),
			  plural(witness_number(item, "calls")),
			  text_ns(witness_number(item, "blocked_ns"), blocked),
			  text_ns(witness_number(item, "blocked_max_ns"), longest));
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
		_cleanup_free_ char *name =
			text_printable(witness_words(function, "function"), false);
		uint64_t wrapper = witness_number(function, "wrapper");

		if (wrapper > witness_number(function, "recorded"))
			lines_add(lines, LINE_WARNING,
				  "  contradicted: %s, %" PRIu64 " call%s counted by the library, "
				  "%" PRIu64 " through its wrapper",
				  name, witness_number(function, "recorded"),
				  plural(witness_number(function, "recorded")), wrapper);
	}
}

static void add_coverage(const struct lines *lines, const json_t *witness)
{
	const json_t *coverage = json_object_get(witness, "coverage");
	double proven = json_real_value(json_object_get(coverage, "proven"));
	uint64_t calls = witness_number(coverage, "calls");

	if (!calls)
		return;
	lines_add(lines, LINE_PLAIN,
		  "  coverage: %.*f %% proven: %" PRIu64 " of %" PRIu64
		  " calls came through a wrapper, %" PRIu64 " escaped, %" PRIu64 " unknown",
		  proven < 0.999 ? 1
		  : proven < 1   ? 3
				 : 0,
		  proven < 1 && proven > 0.99999 ? 99.999 : proven * 100,
		  witness_number(coverage, "wrapper"), calls, witness_number(coverage, "escaped"),
		  witness_number(coverage, "unknown"));
	lines_add(lines, LINE_PLAIN,
		  "  apart from these: %" PRIu64 " of the library's own, %" PRIu64
		  " inside the driver",
		  witness_number(coverage, "shim_own"), witness_number(coverage, "inside_library"));
	if (witness_number(coverage, "without_shim"))
		lines_add(lines, LINE_WARNING,
			  "  not covered: %" PRIu64 " call%s of processes without the library",
			  witness_number(coverage, "without_shim"),
			  plural(witness_number(coverage, "without_shim")));
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
		{"processes", "processes that are not watched, there was no room"},
		{"process_records", "news of processes, the ring was full; looked up then"},
		{"mappings", "news of mappings: libraries and callers may be missing"},
		{"libraries", "driver libraries that are not watched"},
		{"functions", "functions that the kernel refused to probe"},
		{"claims", "files of the library whose claims were not heard"},
		{"runs", "looks of the kernel that it left out itself"},
	};
	const json_t *lost = json_object_get(witness, "lost");
	char least[TEXT_FIGURE];

	lines_add(lines, LINE_PLAIN, "  watched calls: %" PRIu64 " in %" PRIu64 " process%s%s%s",
		  witness_number(witness, "entries"), witness_number(witness, "processes"),
		  witness_number(witness, "processes") == 1 ? "" : "es",
		  witness_number(witness, "least_ns") ? ", in detail those of at least " : "",
		  witness_number(witness, "least_ns")
			  ? text_ns(witness_number(witness, "least_ns"), least)
			  : "");
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		if (witness_number(lost, losses[i].key))
			lines_add(lines, LINE_WARNING, "  lost: %s: %" PRIu64, losses[i].words,
				  witness_number(lost, losses[i].key));
	if (witness_number(lost, "switches"))
		lines_add(
			lines, LINE_PLAIN,
			"  switches of threads that the scheduler did not tell, put right by their "
			"own clock: %" PRIu64,
			witness_number(lost, "switches"));
}

void lines_add_witness(const struct lines *lines, struct report *report)
{
	if (!report->witness)
		return;
	report_witness_prepare(report);
	add_functions(lines, report->witness);
	lines_add(lines, LINE_PLAIN, "%s", "");
	lines_add(lines, LINE_HEADING, "WITNESS");
	add_loss(lines, report->witness);
	add_coverage(lines, report->witness);
	add_unseen(lines, report->witness, "escaped", "escaped");
	add_unseen(lines, report->witness, "unpreloaded", "without the library");
	add_contradicted(lines, report->witness);
	/* Traces of a watch alone have no records to compare with. */
	if (!report->trace)
		add_differences(lines, report->witness);
}
