// SPDX-License-Identifier: MIT
/*
 * Page, reasons for doubt: what makes a verdict inconclusive, from a trace. The words and the choice are those of
 * tools/coverage.c, which knows record files.
 */
#include <inttypes.h>

#include "coverage.h"
#include "emit/record.h"
#include "memory.h"
#include "report.h"
#include "text.h"
#include "tracing/analysis/page_json.h"
#include "tracing/analysis/timeline_write.h"

#define REASONS_MAX 100

struct reasons {
	json_t *array;
	const struct model *model;
	uint32_t process;
	size_t left_out;
};

/* Takes the text over. */
static void add_reason(struct reasons *reasons, char *text)
{
	if (json_array_size(reasons->array) < REASONS_MAX)
		memory_check(json_array_append_new(reasons->array, timeline_text(text)) ? NULL
											: text);
	else
		reasons->left_out++;
	free(text);
}

struct function_search {
	const struct reasons *reasons;
	const char *name;
	bool is_found;
};

static bool search_function(void *data, const void *definition)
{
	struct function_search *search = data;
	const struct trace_def_function *function = definition;
	const char *name =
		model_string(search->reasons->model, search->reasons->process, function->name);

	search->is_found = name && !strcmp(name, search->name);
	return !search->is_found;
}

static bool take_note(void *data, const void *definition)
{
	struct reasons *reasons = data;
	const struct trace_def_note *note = definition;
	const char *text = model_string(reasons->model, reasons->process, note->text);
	struct function_search search = {.reasons = reasons, .name = text ? text : ""};
	const char *why;

	model_each(reasons->model, reasons->process, TRACE_DEF_FUNCTION, search_function, &search);
	why = coverage_note_reason(note->code, search.name, search.is_found);
	if (why)
		add_reason(reasons, memory_format("%s: %s", why, text ? text : "text not known"));
	return true;
}

/* Counted, but not classified: no doubt as long as nobody called it. */
static bool take_function(void *data, const void *definition)
{
	struct reasons *reasons = data;
	const struct trace_def_function *function = definition;
	const struct trace_def_coverage *coverage =
		model_find(reasons->model, reasons->process, TRACE_DEF_COVERAGE, function->number);
	const char *name;

	if ((function->flags & RECORD_FUNCTION_WRAPPED) || !coverage || !coverage->calls)
		return true;
	name = model_string(reasons->model, reasons->process, function->name);
	add_reason(reasons, memory_format("unwrapped function called: %s (%" PRIu64 " call%s)",
					  name ? name : "name not known", coverage->calls,
					  coverage->calls == 1 ? "" : "s"));
	return true;
}

static void add_process(struct reasons *reasons, uint32_t process)
{
	const struct model_process *known = model_process(reasons->model, process);
	const struct trace_def_process *definition =
		model_process_definition(reasons->model, process);
	uint64_t dropped = known->ended ? known->end.dropped : definition ? definition->dropped : 0;

	reasons->process = process;
	if (!definition)
		add_reason(reasons,
			   memory_format("process %" PRIu32
					 " did not say what it is: its definitions are missing",
					 known->pid));
	if (known->lost)
		add_reason(reasons,
			   memory_format("%" PRIu64 " events of process %" PRIu32 " were lost",
					 known->lost, known->pid));
	if (dropped)
		add_reason(reasons, memory_format("%" PRIu64 " records of process %" PRIu32
						  " could not be written",
						  dropped, known->pid));
	model_each(reasons->model, process, TRACE_DEF_NOTE, take_note, reasons);
	model_each(reasons->model, process, TRACE_DEF_FUNCTION, take_function, reasons);
}

json_t *page_reasons(const struct model *model, const struct analysis_end *end)
{
	struct reasons reasons = {.array = memory_check(json_array()), .model = model};

	if (end->broken)
		add_reason(&reasons, memory_format("the trace broke off: %s", end->broken));
	if (end->interrupted)
		add_reason(&reasons,
			   memory_copy("the analysis was interrupted: what follows was not read"));
	if (end->discarded)
		add_reason(&reasons, memory_format("the tracer lost %" PRIu64 " event%s",
						   end->discarded, end->discarded == 1 ? "" : "s"));
	if (end->discarded_packets)
		add_reason(&reasons, memory_format("the tracer lost %" PRIu64
						   " packet%s with an unknown number of events",
						   end->discarded_packets,
						   end->discarded_packets == 1 ? "" : "s"));
	for (size_t i = 0; i < end->note_count; i++)
		add_reason(&reasons, memory_copy(end->notes[i]));
	if (!model_process_count(model))
		add_reason(&reasons, memory_copy("no process left an event (no driver call seen)"));
	for (uint32_t i = 0; i < model_process_count(model); i++)
		add_process(&reasons, i);
	if (reasons.left_out)
		memory_check(json_array_append_new(
				     reasons.array,
				     memory_check(json_sprintf("%zu more", reasons.left_out)))
				     ? NULL
				     : reasons.array);
	return reasons.array;
}
