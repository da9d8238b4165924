// SPDX-License-Identifier: MIT
/*
 * The report of a trace (report_consumer.h). While reading: sums only. At the end: which processes
 * are wanted, their images, and where the calls were made.
 */
#include "tracing/analysis/report_consumer.h"

#include <errno.h>
#include <inttypes.h>

#include "memory.h"
#include "process_state.h"
#include "tracing/analysis/report_image.h"
#include "tracing/analysis/report_part.h"
#include "tracing/analysis/report_sums.h"
#include "tracing/analysis/report_window.h"
#include "tracing/analysis/witness.h"
#include "witness_summary.h"

struct report_consumer {
	struct report_request request;
	struct sums sums;
	struct report_window window;
	struct witness_summary *witness;
};

/* ---- while reading ---- */

static int take(void *data, const struct model *model, const struct analysis_event *event,
		char **reterr_text)
{
	struct report_consumer *consumer = data;

	(void)reterr_text;
	report_window_begin(&consumer->window, &consumer->request, event->ns);
	if (!report_window_has(&consumer->window, event->ns))
		return 0;
	if (event->id == TRACE_WAIT)
		sums_take(&consumer->sums, event);
	else if (witness_wants(event->id) &&
		 report_selects(consumer->request.select, model_process(model, event->process)))
		witness_take(consumer->witness, model, event);
	return 0;
}

/* ---- where a call was made ---- */

struct context_search {
	uint64_t id;
	int32_t device, only; /* of the context with the id; of the first one */
	size_t count;
};

static bool search_context(void *data, const void *definition)
{
	struct context_search *search = data;
	const struct trace_def_context *context = definition;

	if (!search->count++)
		search->only = context->device;
	if (context->id != search->id)
		return true;
	search->device = context->device;
	return false;
}

/* The context of one candidate of it. */
static uint64_t candidate_context(const struct model *model, uint32_t process, uint32_t candidates)
{
	const struct trace_def_candidate *candidate;
	const struct trace_def_candidate_set *members;
	size_t count;

	if (candidates & TRACE_SET) {
		members = model_parts(model, process, TRACE_DEF_CANDIDATE_SET, candidates, &count);
		candidates = count ? members[0].candidate : 0;
	}
	candidate = candidates ? model_find(model, process, TRACE_DEF_CANDIDATE, candidates) : NULL;
	return candidate ? candidate->context : 0;
}

/* Of the stream, else of what was waited for, else the only one that the process has. */
static int32_t device_of(const struct model *model, uint32_t process, uint64_t context)
{
	struct context_search search = {.id = context, .device = -1, .only = -1};

	model_each(model, process, TRACE_DEF_CONTEXT, search_context, &search);
	return search.device < 0 && !context && search.count == 1 ? search.only : search.device;
}

static const char *name_of(const struct model *model, uint32_t process, uint32_t id)
{
	const char *text = model_string(model, process, id);

	return text ? text : "unknown";
}

static void set_kind(struct report_cell *cell, const struct model *model, uint32_t wait)
{
	const struct trace_def_wait *definition =
		model_find(model, cell->process, TRACE_DEF_WAIT, wait);
	const struct trace_def_rule *rule =
		definition ? model_find(model, cell->process, TRACE_DEF_RULE, definition->rule)
			   : NULL;
	const struct trace_def_function *function =
		definition
			? model_find(model, cell->process, TRACE_DEF_FUNCTION, definition->function)
			: NULL;

	cell->rule = rule ? name_of(model, cell->process, rule->slug) : "unknown";
	cell->function = function ? name_of(model, cell->process, function->name) : "unknown";
	/* As the report does it: a rule of a class nobody knows is shown where it is seen. */
	if (rule)
		cell->class = rule->class >= WAIT_EXPLICIT && rule->class <= WAIT_DEVICE
				      ? rule->class
				      : WAIT_IMPLICIT;
	cell->own_cost = rule && rule->class == WAIT_IMPLICIT && rule->flags & RECORD_RULE_OWN_COST;
	cell->allowed = definition && definition->allowed;
}

static struct report_cell cell_of(const struct model *model, const struct table_entry *entry,
				  uint32_t stream_number, uint32_t candidates)
{
	uint32_t number = sum_process(entry);
	const struct model_process *process = model_process(model, number);
	const struct trace_def_stream *stream =
		stream_number ? model_find(model, number, TRACE_DEF_STREAM, stream_number) : NULL;
	const struct sum *sum = (const struct sum *)entry->data;
	struct report_cell cell = {
		.host = process->host,
		.rank = process->rank,
		.process = number,
		.pid = process->pid,
		.stream = stream_number,
		.stream_kind = stream ? stream->kind : STREAM_UNKNOWN,
		.context = stream ? stream->context : candidate_context(model, number, candidates),
		.count = sum->count,
		.blocked_ns = sum->blocked_ns,
		.blocked_max = sum->blocked_max,
	};

	cell.device = device_of(model, number, cell.context);
	set_kind(&cell, model, sum_wait(entry));
	return cell;
}

/* ---- the end ---- */

/* What one process contributes. */
struct part {
	bool wanted;
	const struct record_file *file;
	struct table waits;      /* struct sum by wait id */
	struct table waited_for; /* struct sum by (wait id, candidate id) */
};

static struct part *new_parts(const struct report_consumer *consumer, const struct model *model,
			      size_t *ret_wanted)
{
	size_t count = model_process_count(model);
	struct part *parts = memory_new(count * sizeof(*parts));

	*ret_wanted = 0;
	for (size_t i = 0; i < count; i++) {
		parts[i].wanted =
			report_selects(consumer->request.select, model_process(model, (uint32_t)i));
		parts[i].waits.data_size = sizeof(struct sum);
		parts[i].waited_for.data_size = sizeof(struct sum);
		*ret_wanted += parts[i].wanted;
	}
	return parts;
}

static void free_parts(struct part *parts, const struct model *model)
{
	for (size_t i = 0; i < model_process_count(model); i++) {
		table_done(&parts[i].waits);
		table_done(&parts[i].waited_for);
	}
	free(parts);
}

static void merge(struct table *table, uint64_t key, uint64_t key2, const struct sum *sum)
{
	bool is_new;

	sum_merge(table_add(table, key, key2, &is_new), sum);
}

#define UNKNOWN_CANDIDATE UINT32_MAX /* nobody defines it */

static void merge_waited_for(struct part *part, const struct model *model,
			     const struct table_entry *entry)
{
	uint32_t candidates = sum_detail(entry), wait = sum_wait(entry);
	const struct sum *sum = (const struct sum *)entry->data;
	const struct trace_def_candidate_set *members;
	bool is_whole;
	size_t count;

	if (!(candidates & TRACE_SET)) {
		if (candidates)
			merge(&part->waited_for, wait, candidates, sum);
		return;
	}
	members =
		model_parts(model, sum_process(entry), TRACE_DEF_CANDIDATE_SET, candidates, &count);
	is_whole = count && count >= members[count - 1].count;
	for (size_t i = 0; i < count; i++) {
		is_whole &= members[i].candidate != 0;
		if (members[i].candidate)
			merge(&part->waited_for, wait, members[i].candidate, sum);
	}
	if (!is_whole)
		merge(&part->waited_for, wait, UNKNOWN_CANDIDATE, sum);
}

static void split_streams(const struct report_consumer *consumer, const struct model *model,
			  struct part *parts, struct report_trace *trace)
{
	const struct table *table = &consumer->sums.by_stream;
	int64_t gpu = consumer->request.select->gpu;

	trace->streams = memory_new(table->count * sizeof(*trace->streams));
	for (size_t i = 0; i < table->count; i++) {
		const struct table_entry *entry = table->order[i];
		struct part *part = &parts[sum_process(entry)];
		struct report_cell cell =
			cell_of(model, entry, sum_place(entry), sum_detail(entry));

		if (!part->wanted || (gpu >= 0 && cell.device != gpu))
			continue;
		trace->streams[trace->stream_count++] = cell;
		merge(&part->waits, sum_wait(entry), 0, (const struct sum *)entry->data);
		merge_waited_for(part, model, entry);
	}
}

static void split_threads(const struct report_consumer *consumer, const struct model *model,
			  const struct part *parts, struct report_trace *trace)
{
	const struct table *table = &consumer->sums.by_thread;
	int64_t gpu = consumer->request.select->gpu;

	trace->threads = memory_new(table->count * sizeof(*trace->threads));
	for (size_t i = 0; i < table->count; i++) {
		const struct table_entry *entry = table->order[i];
		struct report_cell cell = cell_of(model, entry, sum_detail(entry), 0);

		if (!parts[sum_process(entry)].wanted || (gpu >= 0 && cell.device != gpu))
			continue;
		cell.thread = sum_place(entry);
		trace->threads[trace->thread_count++] = cell;
	}
}

/* For messages only: no file of this name exists. */
static char *image_name(const struct model_process *process)
{
	return memory_format("%s%sprocess %" PRIu32 " of the trace", process->host,
			     *process->host ? ": " : "", process->pid);
}

/* When its first one began; 0: none. */
static int64_t first_wait(const struct part *part)
{
	int64_t first = 0;

	for (size_t i = 0; i < part->waits.count; i++) {
		const struct sum *sum = table_at(&part->waits, i);

		if (!first || sum->begin_ns < first)
			first = sum->begin_ns;
	}
	return first;
}

static void add_process(struct report *report, const struct model *model, uint32_t number,
			struct part *part)
{
	_cleanup_free_ char *name = image_name(model_process(model, number)), *error_text = NULL;
	struct record_file *file;
	size_t size;
	uint8_t *bytes = report_image(model, number, &part->waits, &part->waited_for, &size);

	if (!record_file_parse(name, bytes, size, &file, &error_text)) {
		file->host = model_process(model, number)->host;
		file->span = report_part_span(model, number, first_wait(part));
		part->file = file;
		report_add(report, file);
	} else {
		report_text_list_add(&report->problems, memory_format("%s: %s", name, error_text));
	}
}

/* Calls that waited, of which the trace does not say what they were. */
static uint64_t count_undefined(const struct model *model, const struct part *parts)
{
	uint64_t count = 0;

	for (uint32_t number = 0; number < model_process_count(model); number++)
		for (size_t i = 0; i < parts[number].waits.count; i++) {
			const struct sum *sum = table_at(&parts[number].waits, i);

			if (!model_find(model, number, TRACE_DEF_WAIT,
					parts[number].waits.order[i]->key))
				count += sum->count;
		}
	return count;
}

static void find_reasons(struct report *report, const struct model *model, const struct part *parts,
			 const struct analysis_end *end)
{
	uint64_t undefined = count_undefined(model, parts);

	report_trace_find_reasons(report);
	for (size_t i = 0; i < end->note_count; i++)
		report_text_list_add(&report->reasons, memory_copy(end->notes[i]));
	if (undefined)
		report_text_list_add(
			&report->reasons,
			memory_format("%" PRIu64 " call%s not defined in the trace "
				      "(unknown in the report)",
				      undefined,
				      undefined == 1 ? " that waited is" : "s that waited are"));
}

/* Whether a process that did not end still runs can be asked on its own host only. */
static bool all_local(const struct model *model)
{
	char own[256] = "";

	(void)gethostname(own, sizeof(own) - 1);
	for (size_t i = 0; i < model_process_count(model); i++)
		if (strcmp(model_process(model, (uint32_t)i)->host, own))
			return false;
	return true;
}

static struct report_trace *about(const struct report_consumer *consumer,
				  const struct analysis_end *end)
{
	struct report_trace *trace = memory_new(sizeof(*trace));

	trace->events = end->events;
	trace->discarded = end->discarded;
	trace->discarded_packets = end->discarded_packets;
	trace->duration_ns = end->end_ns - end->begin_ns;
	trace->interrupted = end->interrupted;
	trace->broken = end->broken ? memory_copy(end->broken) : NULL;
	trace->selection = report_select_words(consumer->request.select);
	trace->extra = consumer->request.extra;
	return trace;
}

/* What the kernel saw of a process that tells of itself, too: one process in the report. */
static bool is_shadow(const struct model *model, uint32_t number)
{
	const struct model_process *process = model_process(model, number);

	for (uint32_t i = 0; i < model_process_count(model); i++) {
		const struct model_process *other = model_process(model, i);

		if (other->pid == process->pid && !strcmp(other->host, process->host) &&
		    !witness_is_source(model, i))
			return witness_is_source(model, number);
	}
	return false;
}

static bool is_wanted(void *context, uint32_t process)
{
	return ((const struct part *)context)[process].wanted;
}

static struct report *build(const struct report_consumer *consumer, const struct model *model,
			    const struct analysis_end *end, struct part *parts, size_t wanted)
{
	const struct report_select *select = consumer->request.select;
	struct report *report = report_new();

	report->trace = about(consumer, end);
	report->trace->process_count = wanted;
	for (size_t i = 0; i < model_process_count(model); i++)
		report->trace->process_count -= parts[i].wanted && is_shadow(model, (uint32_t)i);
	split_streams(consumer, model, parts, report->trace);
	split_threads(consumer, model, parts, report->trace);
	for (size_t i = 0; i < model_process_count(model); i++)
		if (parts[i].wanted && !is_shadow(model, (uint32_t)i))
			add_process(report, model, (uint32_t)i, &parts[i]);
	find_reasons(report, model, parts, end);
	witness_finish(consumer->witness, model, is_wanted, parts, report);
	report_finish(report, all_local(model) ? process_now_ns() : 0, 0);
	report_part_find_reasons(report);
	if (select->begin.is_set || select->end.is_set) {
		int64_t first = consumer->window.begin_ns > end->begin_ns
					? consumer->window.begin_ns
					: end->begin_ns;
		int64_t last = consumer->window.end_ns < end->end_ns ? consumer->window.end_ns
								     : end->end_ns;

		report->wall_ns = last > first ? (uint64_t)(last - first) : 0;
	}
	return report;
}

struct report *report_consumer_build(const struct consumer *consumer, const struct model *model,
				     const struct analysis_end *end)
{
	struct report *report;
	struct part *parts;
	size_t wanted;

	parts = new_parts(consumer->state, model, &wanted);
	report = build(consumer->state, model, end, parts, wanted);
	free_parts(parts, model);
	return report;
}

static int finish(void *data, const struct model *model, const struct analysis_end *end,
		  char **reterr_text)
{
	struct report_consumer *consumer = data;
	struct report *report;
	struct part *parts;
	size_t wanted;
	int error = 0;

	if (!end->events) {
		*reterr_text = memory_format("the trace has no event of slipstream's");
		return -ENODATA;
	}
	parts = new_parts(consumer, model, &wanted);
	if (wanted) {
		report = build(consumer, model, end, parts, wanted);
		error = report_output_write(report, consumer->request.output, reterr_text);
		report_free(report);
	} else {
		_cleanup_free_ char *words = report_select_words(consumer->request.select);

		*reterr_text =
			memory_format("the trace has no process that is selected (%s)", words);
		error = -ENODATA;
	}
	free_parts(parts, model);
	return error;
}

static void free_consumer(void *data)
{
	struct report_consumer *consumer = data;

	sums_done(&consumer->sums);
	witness_summary_free(consumer->witness);
	free(consumer);
}

struct consumer report_consumer_new(const struct report_request *request)
{
	static const struct consumer_ops ops = {
		.name = "report", .event = take, .finish = finish, .free = free_consumer};
	struct report_consumer *consumer = memory_new(sizeof(*consumer));

	consumer->request = *request;
	sums_init(&consumer->sums);
	consumer->witness = witness_summary_new();
	return (struct consumer){.ops = &ops, .state = consumer};
}
