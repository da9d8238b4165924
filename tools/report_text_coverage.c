// SPDX-License-Identifier: MIT
/*
 * Report, text of the last sections: coverage (what was seen, what may have been missed) and the
 * processes. Called by report_write_text().
 */
#include <inttypes.h>

#include "coverage.h"
#include "memory.h"
#include "report_lines.h"
#include "report_trace.h"
#include "text.h"

static void add_unwrapped(const struct lines *lines, const struct report *report)
{
	size_t exported = 0, wrapped = 0, shown = 0, called = 0;

	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *function = report->functions.items[i];

		exported += function->in_driver;
		wrapped += function->in_driver && function->wrapped;
		called += !function->wrapped && function->calls;
	}
	lines_add(lines, LINE_PLAIN,
		  "  calls: %s%" PRIu64 "%s, of which %" PRIu64 " on functions without wrapper",
		  report_trace_has_counts(report) ? "" : "at least ", report->calls,
		  report_trace_is_part(report) ? " since the start of each process" : "",
		  report->unwrapped);
	if (exported)
		lines_add(lines, LINE_PLAIN, "  driver: %zu exported functions, %zu wrapped",
			  exported, wrapped);
	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *function = report->functions.items[i];
		_cleanup_free_ char *name = NULL;

		if (function->wrapped || !function->calls)
			continue;
		if (lines->style->limit && shown == lines->style->limit)
			break;
		name = text_printable(function->name, false);
		lines_add(lines, LINE_PLAIN, "  counted only: %s, %" PRIu64 " call%s", name,
			  function->calls, plural(function->calls));
		shown++;
	}
	lines_add_more(lines, "  ", shown, called, "function");
}

static const char *note_words(uint32_t code)
{
	static const char *const words[] = {
		[NOTE_UNWRAPPED_HANDED_OUT] = "handed out without wrapper",
		[NOTE_EXPORT_TABLE] = "export table",
		[NOTE_SECOND_DRIVER] = "second driver library",
		[NOTE_PASS_THROUGH] = "passed unclassified",
		[NOTE_LOST] = "lost",
		[NOTE_PYTHON] = "Python frames",
		[NOTE_ERROR] = "own failure",
		[NOTE_CONFIG] = "bad setting",
		[NOTE_MISSING_SYMBOL] = "called but not in this driver",
		[NOTE_UNTIMED] = "duration not known",
		[NOTE_REWRITE] = "left to the driver",
		[NOTE_SIZES] = "sizes from which on copies are staged",
		[NOTE_CHECK] = "not followed by SLIPSTREAM_CHECK",
	};

	return code < ARRAY_SIZE(words) && words[code] ? words[code] : "note";
}

static void add_note(const struct lines *lines, const struct report_note *note)
{
	const char *table =
		note->code == NOTE_EXPORT_TABLE ? coverage_table_name(note->text) : NULL;
	_cleanup_free_ char *text = text_printable(note->text, false);

	lines_add(lines, LINE_PLAIN, "  %s: %s%s%s%s (%" PRIu64 "x)", note_words(note->code), text,
		  table ? " (" : "", table ? table : "", table ? ")" : "", note->count);
}

#define NAMES_SHOWN 4

/*
 * A CUDA runtime asks for dozens of graphics functions at its start: one line for all of those that
 * nobody called.
 */
static void add_idle_handouts(const struct lines *lines, const struct report *report)
{
	_cleanup_free_ char *names = memory_copy("");
	size_t count = 0;

	for (size_t i = 0; i < report->notes.count; i++) {
		const struct report_function *function =
			coverage_counted_handout(report, report->notes.items[i]);
		_cleanup_free_ char *name = NULL;
		char *longer;

		if (!function || function->calls)
			continue; /* the called ones are listed already, with their counts */
		if (++count > NAMES_SHOWN)
			continue;
		name = text_printable(function->name, false);
		longer = memory_format("%s%s%s", names, count > 1 ? ", " : "", name);
		free(names);
		names = longer;
	}
	if (count)
		lines_add(lines, LINE_PLAIN,
			  "  %zu function%s without wrapper handed out, none called: %s%s", count,
			  plural(count), names, count > NAMES_SHOWN ? ", ..." : "");
}

static void add_notes(const struct lines *lines, const struct report *report)
{
	size_t limit = lines->style->limit, shown = 0, all = 0;

	for (size_t i = 0; i < report->notes.count; i++) {
		const struct report_note *note = report->notes.items[i];

		if (limit && coverage_counted_handout(report, note))
			continue;
		all++;
		if (limit && shown == limit)
			continue;
		add_note(lines, note);
		shown++;
	}
	lines_add_more(lines, "  ", shown, all, "note");
	if (limit)
		add_idle_handouts(lines, report);
}

/* One line: what is known to be the reason, or the likely ones. */
static void add_nothing_seen(const struct lines *lines, const struct report *report)
{
	if (report->calls || report->syncs.count || report->witness)
		return;
	if (report->blind.count) {
		_cleanup_free_ char *text = text_printable(report->blind.items[0], false);

		lines_add(lines, LINE_PLAIN, "  likely: %s", text);
		return;
	}
	lines_add(lines, LINE_PLAIN,
		  "  likely: it uses no CUDA, found no libcuda.so.1, or reaches it by a way that "
		  "cannot "
		  "be seen (RTLD_DEEPBIND, dlmopen, a child with a cleared environment)");
}

void lines_add_coverage(const struct lines *lines, const struct report *report)
{
	lines_add(lines, LINE_PLAIN, "%s", "");
	lines_add(lines, LINE_HEADING, "COVERAGE");
	add_unwrapped(lines, report);
	add_nothing_seen(lines, report);
	report_trace_add_parts(lines, report);
	add_notes(lines, report);
	for (size_t i = 0; i < report->reasons.count; i++) {
		_cleanup_free_ char *text = text_printable(report->reasons.items[i], false);

		lines_add(lines, LINE_WARNING, "  inconclusive: %s", text);
	}
}

static bool has_hosts(const struct report *report)
{
	for (size_t i = 1; i < report->file_count; i++) {
		const char *first = report->files[0]->host, *host = report->files[i]->host;

		if (first && host && strcmp(first, host))
			return true;
	}
	return false;
}

char *lines_process(const struct report *report, const char *host, uint32_t pid, const char *prefix)
{
	_cleanup_free_ char *name = NULL;

	if (!has_hosts(report))
		return memory_format("%s%" PRIu32, prefix, pid);
	name = text_printable(host && *host ? host : "an unknown host", false);
	return memory_format("%s%" PRIu32 " of %s", prefix, pid, name);
}

static bool has_start(const struct record_file *file)
{
	return !file->span.is_known || file->span.is_start_known;
}

void lines_add_processes(const struct lines *lines, const struct report *report)
{
	size_t shown = report->process_count;

	if (report->process_count < 2)
		return;
	if (lines->style->limit && shown > lines->style->limit)
		shown = lines->style->limit;
	lines_add(lines, LINE_PLAIN, "%s", "");
	lines_add(lines, LINE_HEADING, "PROCESSES");
	for (size_t i = 0; i < shown; i++) {
		const struct report_process *process = &report->processes[i];
		const struct record_header *header = process->file->header;
		const char *raw = record_string_text(process->file, header->command);
		_cleanup_free_ char *command = text_printable(raw ? raw : "?", false);
		_cleanup_free_ char *who =
			lines_process(report, process->file->host, header->pid, "");
		char wall[TEXT_FIGURE], blocked[TEXT_FIGURE];

		lines_add(lines, LINE_PLAIN, "  %s %s%s, %s%s, %" PRIu64 " call%s, blocked %s: %s",
			  who, process->state, header->forked ? " (forked)" : "",
			  has_start(process->file) &&
					  (process->end_known || process->end_ns > header->start_ns)
				  ? text_ns(process->end_ns - header->start_ns, wall)
				  : "unknown time",
			  process->end_known || !has_start(process->file) ? "" : " at least",
			  process->calls, plural(process->calls),
			  text_ns(process->implicit_ns, blocked), command);
	}
	if (report->process_count > shown)
		lines_add(lines, LINE_PLAIN, "  (%zu more processes)",
			  report->process_count - shown);
}
