// SPDX-License-Identifier: MIT
/*
 * Report, JSON: struct report as one object, described by slipstream.schema.json beside this file
 * (a test keeps the two in step). Times and sizes are integers; what is not known is null. Called
 * by report_output_write().
 */
#include <inttypes.h>

#include "coverage.h"
#include "memory.h"
#include "report.h"
#include "report_order.h"
#include "report_remarks.h"
#include "report_rewrite.h"
#include "report_trace.h"
#include "report_witness.h"
#include "text.h"

/* JSON integers are signed 64 bits in jansson; a saturated sum stays positive. */
static json_t *integer(uint64_t value)
{
	return memory_check(json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

static json_t *string(const char *raw)
{
	_cleanup_free_ char *text = NULL;

	if (!raw)
		return json_null();
	text = text_printable(raw, true);
	return memory_check(json_string(text));
}

static json_t *boolean(bool value)
{
	return json_boolean(value);
}

static void set(json_t *object, const char *key, json_t *value)
{
	memory_check(json_object_set_new(object, key, value) ? NULL : object);
}

static void append(json_t *array, json_t *value)
{
	memory_check(json_array_append_new(array, value) ? NULL : array);
}

static json_t *new_object(void)
{
	return memory_check(json_object());
}

static json_t *new_array(void)
{
	return memory_check(json_array());
}

/* Keys of objects come from the program too. */
static void set_named(json_t *object, const char *raw, json_t *value)
{
	_cleanup_free_ char *key = text_printable(raw, true);

	set(object, key, value);
}

static json_t *text_array(const struct report_list *list)
{
	json_t *array = new_array();

	for (size_t i = 0; i < list->count; i++)
		append(array, string(list->items[i]));
	return array;
}

static json_t *calls_json(const struct report *report)
{
	json_t *calls = new_object(), *by_function = new_object();

	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *function = report->functions.items[i];

		if (function->calls)
			set_named(by_function, function->name, integer(function->calls));
	}
	set(calls, "total", integer(report->calls));
	set(calls, "unwrapped", integer(report->unwrapped));
	set(calls, "by_function", by_function);
	return calls;
}

static json_t *handed_out_json(const struct report *report)
{
	json_t *array = new_array();

	for (size_t i = 0; i < report->notes.count; i++) {
		const struct report_note *note = report->notes.items[i];
		json_t *item;

		if (note->code != NOTE_UNWRAPPED_HANDED_OUT)
			continue;
		item = new_object();
		set(item, "name", string(note->text));
		set(item, "count", integer(note->count));
		append(array, item);
	}
	return array;
}

static json_t *tables_json(const struct report *report)
{
	json_t *array = new_array();

	for (size_t i = 0; i < report->notes.count; i++) {
		const struct report_note *note = report->notes.items[i];
		_cleanup_free_ char *id = NULL;
		const char *asker;
		json_t *item;

		if (note->code != NOTE_EXPORT_TABLE)
			continue;
		item = new_object();
		asker = strchr(note->text, ' ');
		id = memory_copy(note->text);
		id[strcspn(id, " ")] = '\0';
		set(item, "id", string(id));
		set(item, "asker", string(asker ? asker + 1 : NULL));
		set(item, "name", string(coverage_table_name(note->text)));
		set(item, "count", integer(note->count));
		append(array, item);
	}
	return array;
}

static json_t *notes_json(const struct report *report)
{
	json_t *array = new_array();

	for (size_t i = 0; i < report->notes.count; i++) {
		const struct report_note *note = report->notes.items[i];
		json_t *item = new_object();

		set(item, "code", string(report_note_code(note->code)));
		set(item, "text", string(note->text));
		set(item, "count", integer(note->count));
		append(array, item);
	}
	return array;
}

static json_t *coverage_json(const struct report *report)
{
	json_t *coverage = new_object(), *unwrapped = new_array();
	uint64_t exported = 0, wrapped = 0;

	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *function = report->functions.items[i];

		if (!function->in_driver)
			continue;
		exported++;
		wrapped += function->wrapped;
		if (!function->wrapped)
			append(unwrapped, string(function->name));
	}
	set(coverage, "exported", integer(exported));
	set(coverage, "wrapped", integer(wrapped));
	set(coverage, "unwrapped_names", unwrapped);
	set(coverage, "handed_out_unwrapped", handed_out_json(report));
	set(coverage, "export_tables", tables_json(report));
	set(coverage, "notes", notes_json(report));
	set(coverage, "blind_spots", text_array(&report->blind));
	set(coverage, "problems", text_array(&report->problems));
	set(coverage, "inconclusive", boolean(report->reasons.count));
	set(coverage, "reasons", text_array(&report->reasons));
	return coverage;
}

static json_t *frames_json(struct report *report, struct report_site *site)
{
	json_t *array = new_array();

	report_site_symbolize(report, site);
	for (size_t i = 0; i < site->frame_count; i++) {
		const struct report_frame *frame = &site->frames[i];
		json_t *item = new_object();

		set(item, "function", string(frame->function));
		set(item, "file", string(frame->file));
		set(item, "line", frame->line ? integer(frame->line) : json_null());
		set(item, "module", string(frame->module));
		set(item, "offset", integer(frame->offset));
		set(item, "inlined", boolean(frame->inlined));
		append(array, item);
	}
	return array;
}

static json_t *python_json(const struct report_site *site)
{
	json_t *array = new_array();

	for (size_t i = 0; i < site->python_count; i++) {
		const struct report_python_frame *frame = &site->python[i];
		json_t *item = new_object();

		set(item, "file", string(frame->file));
		set(item, "line", frame->line ? integer((uint64_t)frame->line) : json_null());
		set(item, "function", string(frame->function));
		append(array, item);
	}
	return array;
}

void report_json_stack(json_t *object, struct report *report, struct report_site *site)
{
	set(object, "frames", site ? frames_json(report, site) : new_array());
	set(object, "python", site ? python_json(site) : new_array());
}

static json_t *sites_json(struct report *report, const struct report_sync *sync)
{
	json_t *array = new_array();

	for (size_t i = 0; i < sync->uses.count; i++) {
		const struct report_use *use = sync->uses.items[i];
		json_t *item = new_object();
		char id[17];

		(void)snprintf(id, sizeof(id), "%016" PRIx64, use->site ? use->site->id : 0);
		set(item, "id", string(use->site ? id : NULL));
		set(item, "count", integer(use->count));
		set(item, "blocked_ns", integer(use->blocked_ns));
		set(item, "blocked_max_ns", integer(use->blocked_max));
		set(item, "bytes", integer(use->bytes));
		report_json_stack(item, report, use->site);
		append(array, item);
	}
	return array;
}

static json_t *memory_json(const struct report_sync *sync)
{
	json_t *array = new_array();

	for (size_t i = 0; i < sync->memory.count; i++) {
		const struct report_memory *memory = sync->memory.items[i];
		json_t *item = new_object();

		set(item, "source", string(report_memory_kind(memory->source)));
		set(item, "destination", string(report_memory_kind(memory->destination)));
		set(item, "count", integer(memory->count));
		set(item, "blocked_ns", integer(memory->blocked_ns));
		set(item, "bytes", integer(memory->bytes));
		append(array, item);
	}
	return array;
}

static json_t *waited_json(const struct report_sync *sync)
{
	json_t *array = new_array();

	for (size_t i = 0; i < sync->waited.count; i++) {
		const struct report_waited *waited = sync->waited.items[i];
		json_t *item = new_object();

		if (waited->host)
			set(item, "host", string(*waited->host ? waited->host : NULL));
		set(item, "pid", integer(waited->pid));
		set(item, "context", integer(waited->context));
		set(item, "stream", integer(waited->stream));
		set(item, "stream_kind", string(report_stream_kind(waited->stream_kind)));
		set(item, "operation", string(report_operation(waited->operation)));
		set(item, "name", string(waited->name));
		set(item, "certain", boolean(waited->certain));
		set(item, "count", integer(waited->count));
		set(item, "blocked_ns", integer(waited->blocked_ns));
		append(array, item);
	}
	return array;
}

static json_t *named_json(const struct report_list *list)
{
	json_t *array = new_array();

	for (size_t i = 0; i < list->count; i++) {
		const struct report_named *named = list->items[i];
		json_t *item = new_object();

		set(item, "name", string(named->name));
		set(item, "count", integer(named->count));
		set(item, "blocked_ns", integer(named->blocked_ns));
		append(array, item);
	}
	return array;
}

static json_t *idle_json(const struct report_sync *sync)
{
	json_t *object = new_object();

	for (uint32_t basis = 0; basis < ARRAY_SIZE(sync->idle_count); basis++)
		if (sync->idle_count[basis])
			set(object, report_idle_basis(basis), integer(sync->idle_count[basis]));
	return object;
}

static json_t *syncs_json(struct report *report)
{
	json_t *array = new_array();

	for (size_t i = 0; i < report->syncs.count; i++) {
		const struct report_sync *sync = report->syncs.items[i];
		json_t *item = new_object();

		set(item, "rule", string(sync->rule));
		set(item, "function", string(sync->function));
		set(item, "class", string(report_class(sync->class)));
		set(item, "cause", string(sync->cause));
		set(item, "own_cost", boolean(sync->own_cost));
		set(item, "allowed", boolean(sync->allowed));
		set(item, "count", integer(sync->count));
		set(item, "blocked_ns", integer(sync->blocked_ns));
		set(item, "blocked_max_ns", integer(sync->blocked_max));
		set(item, "call_ns", integer(sync->call_ns));
		set(item, "bytes", integer(sync->bytes));
		set(item, "memory", memory_json(sync));
		set(item, "idle_basis", idle_json(sync));
		set(item, "waited_for", waited_json(sync));
		set(item, "regions", named_json(&sync->regions));
		set(item, "sites", sites_json(report, sync));
		append(array, item);
	}
	return array;
}

static json_t *rewrite_sites_json(struct report *report, const char *name)
{
	struct report_list uses = {0};
	json_t *array = new_array();

	(void)report_rewrite_uses_add(&uses, report, 0, false);
	for (size_t i = 0; i < uses.count; i++) {
		const struct report_rewrite_use *use = uses.items[i];
		json_t *item;
		char id[17];

		if (strcmp(use->rewrite, name))
			continue;
		item = new_object();
		(void)snprintf(id, sizeof(id), "%016" PRIx64, use->site->id);
		set(item, "id", string(id));
		set(item, "function", string(use->function));
		set(item, "count", integer(use->calls));
		set(item, "denied", integer(use->denied));
		report_json_stack(item, report, use->site);
		append(array, item);
	}
	report_list_done(&uses);
	return array;
}

static json_t *real_frees_json(struct report *report, const char *name)
{
	struct report_list list = report_real_frees(report);
	json_t *array = new_array();

	for (size_t i = 0; i < list.count; i++) {
		const struct report_real_free *freed = list.items[i];
		json_t *item;
		char id[17];

		if (strcmp(freed->rewrite, name))
			continue;
		item = new_object();
		(void)snprintf(id, sizeof(id), "%016" PRIx64, freed->site ? freed->site->id : 0);
		set(item, "id", string(freed->site ? id : NULL));
		set(item, "function", string(freed->function));
		set(item, "why", string(freed->why));
		set(item, "count", integer(freed->calls));
		set(item, "blocks", integer(freed->blocks));
		set(item, "frames", freed->site ? frames_json(report, freed->site) : new_array());
		set(item, "python", freed->site ? python_json(freed->site) : new_array());
		append(array, item);
	}
	report_list_done(&list);
	return array;
}

/* One side of a remark. */
static json_t *side_json(struct report *report, const char *function, struct report_site *site)
{
	json_t *object = new_object();

	set(object, "function", string(function));
	set(object, "frames", site ? frames_json(report, site) : new_array());
	set(object, "python", site ? python_json(site) : new_array());
	return object;
}

/* NULL: there are none. */
static json_t *remarks_json(struct report *report)
{
	struct report_list list = report_remarks(report);
	json_t *array = list.count ? new_array() : NULL;

	for (size_t i = 0; i < list.count; i++) {
		const struct report_remark *remark = list.items[i];
		json_t *item = new_object();

		set(item, "rule", string(remark->rule));
		set(item, "cause", string(remark->cause));
		set(item, "count", integer(remark->count));
		set(item, "at", side_json(report, remark->function, remark->site));
		set(item, "other",
		    remark->other_function
			    ? side_json(report, remark->other_function, remark->other_site)
			    : json_null());
		append(array, item);
	}
	report_list_done(&list);
	return array;
}

/* NULL: no process had mode fix. */
static json_t *rewrites_json(struct report *report)
{
	struct record_rewrite sum;
	json_t *array = NULL;
	const char *name;

	for (size_t i = 0; (name = report_rewrite_sum(report, i, &sum)); i++) {
		json_t *item = new_object();

		set(item, "name", string(name));
#define FIGURE(field) set(item, #field, integer(sum.field));
		RECORD_REWRITE_FIGURES(FIGURE)
#undef FIGURE
		set(item, "freed_at", real_frees_json(report, name));
		set(item, "sites", rewrite_sites_json(report, name));
		if (!array)
			array = new_array();
		append(array, item);
	}
	return array;
}

static json_t *processes_json(const struct report *report)
{
	json_t *array = new_array();

	for (size_t i = 0; i < report->process_count; i++) {
		const struct report_process *process = &report->processes[i];
		const struct record_file *file = process->file;
		const struct record_header *header = file->header;
		json_t *item = new_object(), *recorded;

		if (file->host) {
			set(item, "host", string(*file->host ? file->host : NULL));
			set(item, "rank",
			    header->rank < 0 ? json_null() : integer((uint64_t)header->rank));
		}
		set(item, "pid", integer(header->pid));
		set(item, "parent_pid", integer(header->parent_pid));
		set(item, "exe", string(record_string_text(file, header->exe)));
		set(item, "command", string(record_string_text(file, header->command)));
		set(item, "state", string(process->state));
		set(item, "forked", boolean(header->forked));
		set(item, "start_ns",
		    file->span.is_known && !file->span.is_start_known ? json_null()
								      : integer(header->start_ns));
		recorded = report_trace_span_json(process);
		if (recorded)
			set(item, "recorded", recorded);
		set(item, "end_ns", process->end_known ? integer(process->end_ns) : json_null());
		set(item, "calls", integer(process->calls));
		set(item, "unwrapped_calls", integer(process->unwrapped));
		set(item, "implicit_blocked_ns", integer(process->implicit_ns));
		set(item, "dropped", integer(header->dropped));
		set(item, "driver", string(record_string_text(file, header->driver)));
		set(item, "driver_version",
		    header->driver_version > 0 ? integer((uint64_t)header->driver_version)
					       : json_null());
		set(item, "shim_version", string(record_string_text(file, header->shim_version)));
		append(array, item);
	}
	return array;
}

/* The settings of the first process; children inherit them. */
static json_t *config_json(const struct report *report)
{
	json_t *config = new_object();
	const char *line = NULL;

	if (report->process_count) {
		const struct record_file *file = report->processes[0].file;

		line = record_string_text(file, file->header->config);
	}
	while (line && *line) {
		_cleanup_free_ char *key = memory_check(strndup(line, strcspn(line, "\n")));
		char *value = strchr(key, '=');

		line += strlen(key);
		line += *line == '\n';
		if (value) {
			*value++ = '\0';
			set_named(config, key, string(value));
		}
	}
	return config;
}

json_t *report_json(struct report *report)
{
	json_t *object = new_object();
	json_t *remarks, *rewrites;

	set(object, "version", string(SLIPSTREAM_VERSION));
	set(object, "wall_ns",
	    report->wall_ns || report_trace_has_starts(report) ? integer(report->wall_ns)
							       : json_null());
	set(object, "implicit_blocked_ns", integer(report->implicit_ns));
	set(object, "own_cost_ns", integer(report->own_cost_ns));
	set(object, "allowed_blocked_ns", integer(report->allowed_ns));
	set(object, "explicit_blocked_ns", integer(report->explicit_ns));
	set(object, "unknown_blocked_ns", integer(report->unknown_ns));
	set(object, "calls", calls_json(report));
	set(object, "coverage", coverage_json(report));
	set(object, "syncs", syncs_json(report));
	set(object, "processes", processes_json(report));
	set(object, "config", config_json(report));
	remarks = remarks_json(report);
	if (remarks)
		set(object, "remarks", remarks);
	rewrites = rewrites_json(report);
	if (rewrites)
		set(object, "rewrites", rewrites);
	report_witness_json(report, object);
	report_trace_json(report, object);
	return object;
}
