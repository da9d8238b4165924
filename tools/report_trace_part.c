// SPDX-License-Identifier: MIT
/*
 * Report of a trace, parts (report_trace.h): which part of each process's life the trace holds, for text and JSON. Relies
 * on record_file.span, which only the analysis of traces fills.
 */
#include "report_trace.h"

#include <inttypes.h>

#include "memory.h"
#include "report_lines.h"
#include "text.h"

static bool is_part(const struct record_span *span)
{
	return span->is_known && (span->is_late || span->is_overwritten || span->is_saved ||
				  span->gap_ns || !span->is_start_known);
}

bool report_trace_is_part(const struct report *report)
{
	for (size_t i = 0; i < report->process_count; i++)
		if (is_part(&report->processes[i].file->span))
			return true;
	return false;
}

bool report_trace_has_counts(const struct report *report)
{
	for (size_t i = 0; i < report->process_count; i++) {
		const struct record_span *span = &report->processes[i].file->span;

		if (span->is_known && !span->has_definitions)
			return false;
	}
	return true;
}

static void add_part(const struct lines *lines, const struct report *report,
		     const struct report_process *process)
{
	const struct record_header *header = process->file->header;
	const struct record_span *span = &process->file->span;
	_cleanup_free_ char *who =
		lines_process(report, process->file->host, header->pid, "process ");
	_cleanup_free_ char *gap = NULL;
	char length[TEXT_FIGURE], begin[TEXT_FIGURE], end[TEXT_FIGURE];

	(void)text_ns(span->end_ns - span->begin_ns, length);
	if (!span->is_start_known) {
		lines_add(lines, LINE_PLAIN, "  recorded of %s: %s of an unknown time", who,
			  length);
		return;
	}
	gap = span->gap_ns ? memory_format(", but for %s", text_ns(span->gap_ns, begin))
	      : span->whole_ns > span->begin_ns
		      ? memory_format(", whole from %s on",
				      text_ns(span->whole_ns - header->start_ns, begin))
		      : memory_copy("");
	lines_add(lines, LINE_PLAIN, "  recorded of %s: %s, from %s to %s after its start%s", who,
		  length, text_ns(span->begin_ns - header->start_ns, begin),
		  text_ns(span->end_ns - header->start_ns, end), gap);
}

void report_trace_add_parts(const struct lines *lines, const struct report *report)
{
	size_t count = 0, shown = 0;

	for (size_t i = 0; i < report->process_count; i++) {
		if (!is_part(&report->processes[i].file->span))
			continue;
		count++;
		if (lines->style->limit && shown == lines->style->limit)
			continue;
		add_part(lines, report, &report->processes[i]);
		shown++;
	}
	lines_add_more(lines, "  ", shown, count, "process");
}

bool report_trace_has_starts(const struct report *report)
{
	for (size_t i = 0; i < report->file_count; i++)
		if (report->files[i]->span.is_known && !report->files[i]->span.is_start_known)
			return false;
	return true;
}

static void set(json_t *object, const char *key, json_t *value)
{
	memory_check(json_object_set_new(object, key, memory_check(value)) ? NULL : object);
}

static json_t *integer(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *report_trace_span_json(const struct report_process *process)
{
	const struct record_span *span = &process->file->span;
	json_t *item;

	if (!span->is_known)
		return NULL;
	item = memory_check(json_object());
	set(item, "begin_ns", integer(span->begin_ns));
	set(item, "end_ns", integer(span->end_ns));
	set(item, "whole_ns", integer(span->whole_ns));
	set(item, "gap_ns", integer(span->gap_ns));
	set(item, "is_part", json_boolean(is_part(span)));
	set(item, "definitions_whole", json_boolean(span->has_definitions));
	return item;
}
