// SPDX-License-Identifier: MIT
/*
 * Report, building: merges record files into struct report (report.h) and ranks it. Called by `run`
 * and `report`; relies on the record reader having checked sizes, and checks ids itself.
 */
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <sys/stat.h>

#include "coverage.h"
#include "memory.h"
#include "process_state.h"
#include "report_order.h"
#include "report_sites.h"
#include "report_trace.h"
#include "sum.h"

static void raise_to(uint64_t *value, uint64_t other)
{
	if (other > *value)
		*value = other;
}

/* ---- one file ---- */

static void add_functions(struct report *report, struct report_process *process)
{
	const struct record_file *file = process->file;
	const struct record_list *lists[] = {&file->counters, &file->thunks};
	uint64_t *calls = NULL;
	size_t length = 0;

	for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
		for (size_t i = 0; i < lists[l]->count; i++) {
			const struct record_counters *counters = (const void *)lists[l]->records[i];

			if (counters->functions > length) {
				calls = memory_check(
					reallocarray(calls, counters->functions, sizeof(*calls)));
				memset(calls + length, 0,
				       (counters->functions - length) * sizeof(*calls));
				length = counters->functions;
			}
			for (uint32_t k = 0; k < counters->functions; k++)
				sum_add(&calls[k], counters->count[k]);
		}

	for (size_t i = 0; i < file->functions.count; i++) {
		const struct record_function *record = (const void *)file->functions.records[i];
		struct report_function key = {.name = record_string_text(file, record->name)};
		struct report_function *function;
		uint64_t count = record->number < length ? calls[record->number] : 0;

		if (!key.name)
			continue;
		key.wrapped = record->flags & RECORD_FUNCTION_WRAPPED;
		function = report_list_find_or_add(&report->functions, &key, sizeof(key),
						   report_function_identity);
		function->wrapped &= key.wrapped;
		function->in_driver |= !!(record->flags & RECORD_FUNCTION_IN_DRIVER);
		sum_add(&function->calls, count);
		sum_add(&function->handed_out, record->handed_out);
		sum_add(&process->calls, count);
		if (!key.wrapped)
			sum_add(&process->unwrapped, count);
	}
	free(calls);
}

static const char *known(const char *text)
{
	return text ? text : "unknown";
}

/* A rule of a class nobody knows is shown among the implicit ones, where it is seen; without a rule
 * nobody can say. */
static uint32_t class_of(const struct record_rule *rule)
{
	if (!rule)
		return REPORT_CLASS_UNKNOWN;
	return rule->class >= WAIT_EXPLICIT && rule->class <= WAIT_DEVICE ? rule->class
									  : WAIT_IMPLICIT;
}

/* The line that a wait record belongs to. */
static struct report_sync sync_key(const struct record_file *file, const struct record_wait *wait)
{
	const struct record_function *function =
		(const void *)record_find(&file->functions, wait->function);
	const struct record_rule *rule = (const void *)record_find(&file->rules, wait->rule);

	return (struct report_sync){
		.function = known(function ? record_string_text(file, function->name) : NULL),
		.rule = known(rule ? record_string_text(file, rule->slug) : NULL),
		.cause = known(rule ? record_string_text(file, rule->cause) : NULL),
		.class = class_of(rule),
		.allowed = wait->allowed,
	};
}

static bool is_own_cost(const struct record_file *file, const struct record_wait *wait)
{
	const struct record_rule *rule = (const void *)record_find(&file->rules, wait->rule);

	return rule && rule->head.size >= sizeof(*rule) && rule->class == WAIT_IMPLICIT &&
	       rule->flags & RECORD_RULE_OWN_COST;
}

static void add_wait(struct report *report, struct report_process *process,
		     const struct record_wait *wait)
{
	const struct record_file *file = process->file;
	const struct record_region *region =
		(const void *)record_find(&file->regions, wait->region);
	const char *region_name = region ? record_string_text(file, region->name) : NULL;
	struct report_sync key, *sync;
	struct report_use *use;
	struct report_memory *memory;

	if (!wait->count)
		return; /* published, first finding not added yet */
	key = sync_key(file, wait);
	sync = report_list_find_or_add(&report->syncs, &key, sizeof(key), report_sync_identity);
	sync->own_cost |= is_own_cost(file, wait);
	sum_add(&sync->count, wait->count);
	sum_add(&sync->blocked_ns, wait->blocked_ns);
	raise_to(&sync->blocked_max, wait->blocked_max);
	sum_add(&sync->call_ns, wait->call_ns);
	sum_add(&sync->bytes, wait->bytes);
	if (wait->idle_basis < ARRAY_SIZE(sync->idle_count))
		sum_add(&sync->idle_count[wait->idle_basis], wait->count);
	if (key.class == WAIT_IMPLICIT && key.allowed) {
		sum_add(&report->allowed_ns, wait->blocked_ns);
	} else if (key.class == WAIT_IMPLICIT) {
		sum_add(&process->implicit_ns, wait->blocked_ns);
		sum_add(&report->implicit_ns, wait->blocked_ns);
		if (sync->own_cost)
			sum_add(&report->own_cost_ns, wait->blocked_ns);
	} else if (key.class == WAIT_EXPLICIT) {
		sum_add(&report->explicit_ns, wait->blocked_ns);
	} else if (key.class == REPORT_CLASS_UNKNOWN) {
		sum_add(&report->unknown_ns, wait->blocked_ns);
		sum_add(&report->unknown_count, wait->count);
	}

	use = report_list_find_or_add(
		&sync->uses, &(struct report_use){.site = report_site_of(report, file, wait->site)},
		sizeof(*use), report_use_identity);
	sum_add(&use->count, wait->count);
	sum_add(&use->blocked_ns, wait->blocked_ns);
	raise_to(&use->blocked_max, wait->blocked_max);
	sum_add(&use->bytes, wait->bytes);

	memory = report_list_find_or_add(
		&sync->memory,
		&(struct report_memory){.source = wait->source_kind,
					.destination = wait->destination_kind},
		sizeof(*memory), report_memory_identity);
	sum_add(&memory->count, wait->count);
	sum_add(&memory->blocked_ns, wait->blocked_ns);
	sum_add(&memory->bytes, wait->bytes);

	if (region_name) {
		struct report_named *named = report_list_find_or_add(
			&sync->regions, &(struct report_named){.name = region_name}, sizeof(*named),
			report_named_identity);

		sum_add(&named->count, wait->count);
		sum_add(&named->blocked_ns, wait->blocked_ns);
	}
}

static void add_waited_for(struct report *report, const struct record_file *file,
			   const struct record_waited_for *record)
{
	const struct record_wait *wait = (const void *)record_find(&file->waits, record->wait);
	const struct record_candidate *candidate =
		(const void *)record_find(&file->candidates, record->candidate);
	struct report_waited key, *waited;
	struct report_sync *sync, line;
	void **node;

	if (!wait || !wait->count || !record->count)
		return;
	line = sync_key(file, wait);
	node = tfind(&line, &report->syncs.tree, report_sync_identity);
	if (!node)
		return;
	sync = *node;
	key = (struct report_waited){.host = file->host, .pid = file->header->pid};
	if (candidate) {
		key.context = candidate->context;
		key.stream = candidate->stream;
		key.stream_kind = candidate->stream_kind;
		key.operation = candidate->operation;
		key.certain = !!candidate->certain;
		key.name = record_string_text(file, candidate->name);
	} else {
		key.is_unknown = true;
	}
	waited = report_list_find_or_add(&sync->waited, &key, sizeof(key), report_waited_identity);
	sum_add(&waited->count, record->count);
	sum_add(&waited->blocked_ns, record->blocked_ns);
}

static void add_process(struct report *report, struct report_process *process, uint64_t now_ns,
			uint32_t ended_pid)
{
	const struct record_file *file = process->file;
	const struct record_header *header = file->header;

	process->end_ns = header->end_ns;
	process->end_known = header->end_ns >= header->start_ns;
	if (header->state == RECORD_STATE_EXITED) {
		process->state = "exited";
	} else if (file->span.is_saved) {
		process->state = "running when saved";
	} else if (header->pid != ended_pid &&
		   process_runs(header->pid, header->start_ns, now_ns)) {
		process->state = "running";
		process->end_ns = now_ns;
	} else {
		process->state = file->span.is_snapshot ? "silent when saved" : "gone";
	}
	if (!process->end_known && header->pid == ended_pid && now_ns >= header->start_ns) {
		process->end_ns = now_ns;
		process->end_known = true;
	}

	add_functions(report, process);
	for (size_t i = 0; i < file->waits.count; i++) {
		const struct record_wait *wait = (const void *)file->waits.records[i];

		add_wait(report, process, wait);
		if (!process->end_known)
			raise_to(&process->end_ns, wait->last_ns); /* at least until then */
	}
	if (file->span.is_known && !process->end_known) /* the trace says nothing of what follows */
		process->end_ns = file->span.end_ns;
	raise_to(&process->end_ns, header->start_ns);
	for (size_t i = 0; i < file->waited_for.count; i++)
		add_waited_for(report, file, (const void *)file->waited_for.records[i]);
	for (size_t i = 0; i < file->notes.count; i++) {
		const struct record_note *record = (const void *)file->notes.records[i];
		struct report_note key = {.code = record->code,
					  .text = record_string_text(file, record->text)};
		struct report_note *note;

		key.text = key.text ? key.text : "";
		note = report_list_find_or_add(&report->notes, &key, sizeof(key),
					       report_note_identity);
		sum_add(&note->count, record->count);
	}

	sum_add(&report->calls, process->calls);
	sum_add(&report->unwrapped, process->unwrapped);
}

/* Wall: from the first start to the last end of the processes that called the driver (of all, if
 * none did); of a trace, the part of it that was recorded. 0: not known. */
static uint64_t wall_of(const struct report *report)
{
	uint64_t start = UINT64_MAX, end = 0, gap = UINT64_MAX;
	for (size_t i = 0; i < report->process_count; i++) {
		const struct report_process *process = &report->processes[i];

		const struct record_span *span = &process->file->span;
		uint64_t begin = process->file->header->start_ns;

		if (report->calls && !process->calls)
			continue;
		if (span->is_known && !span->is_start_known)
			continue;
		if (span->is_known)
			begin = span->begin_ns;
		if (begin < start)
			start = begin;
		if (span->gap_ns < gap)
			gap = span->gap_ns;
		raise_to(&end, process->end_ns);
	}
	if (end <= start)
		return 0;
	return gap < end - start ? end - start - gap : end - start;
}

/* ---- interface ---- */

struct report *report_new(void)
{
	return memory_new(sizeof(struct report));
}

void report_add(struct report *report, struct record_file *file)
{
	report->files = memory_grow(report->files, report->file_count, &report->file_capacity,
				    sizeof(report->files[0]));
	report->files[report->file_count++] = file;
}

void report_add_blind_spot(struct report *report, const char *text)
{
	report_text_list_add(&report->blind, memory_copy(text));
}

static void add_problem(struct report *report, const char *path, const char *text)
{
	const char *slash = strrchr(path, '/');

	report_text_list_add(&report->problems,
			     memory_format("%s: %s", slash ? slash + 1 : path, text));
}

int report_add_path(struct report *report, const char *path, uint64_t since_ns, char **reterr_text)
{
	_cleanup_free_ char *error_text = NULL;
	struct record_file *file;
	struct dirent *entry;
	struct stat status;
	DIR *folder;
	int error;

	if (stat(path, &status) < 0) {
		error = errno;
		*reterr_text = memory_format("%s: %s", path, strerror(error));
		return -error;
	}
	if (!S_ISDIR(status.st_mode)) {
		error = record_file_read(path, &file, &error_text);
		if (error) {
			*reterr_text = memory_format("%s: %s", path, error_text);
			return error;
		}
		report_add(report, file);
		return 0;
	}

	folder = opendir(path);
	if (!folder) {
		error = errno;
		*reterr_text = memory_format("%s: %s", path, strerror(error));
		return -error;
	}
	while ((entry = readdir(folder))) {
		_cleanup_free_ char *member = NULL;

		if (!record_file_is_named(entry->d_name))
			continue;
		member = memory_format("%s/%s", path, entry->d_name);
		if (record_file_read(member, &file, &error_text)) {
			add_problem(report, member, error_text);
			free(error_text);
			error_text = NULL;
		} else if (file->header->start_ns < since_ns) {
			record_file_free(file);
		} else {
			report_add(report, file);
		}
	}
	(void)closedir(folder);
	return 0;
}

void report_finish(struct report *report, uint64_t now_ns, uint32_t ended_pid)
{
	if (report->file_count)
		qsort(report->files, report->file_count, sizeof(report->files[0]),
		      report_file_rank);
	report->process_count = report->file_count;
	report->processes = memory_new(report->file_count * sizeof(report->processes[0]));
	for (size_t i = 0; i < report->file_count; i++) {
		const struct record_file *file = report->files[i];

		report->processes[i].file = file;
		add_process(report, &report->processes[i], now_ns, ended_pid);
		for (size_t k = 0; k < file->problem_count && k < RECORD_PROBLEMS_MAX; k++)
			add_problem(report, file->path, file->problems[k]);
		if (file->problem_count > RECORD_PROBLEMS_MAX) {
			_cleanup_free_ char *more =
				memory_format("%zu more problems of this kind",
					      file->problem_count - RECORD_PROBLEMS_MAX);

			add_problem(report, file->path, more);
		}
	}
	report->wall_ns = wall_of(report);

	if (report->process_count)
		qsort(report->processes, report->process_count, sizeof(report->processes[0]),
		      report_process_rank);
	report_list_sort(&report->syncs, report_sync_rank_sort);
	for (size_t i = 0; i < report->syncs.count; i++) {
		struct report_sync *sync = report->syncs.items[i];

		report_list_sort(&sync->uses, report_use_rank_sort);
		report_list_sort(&sync->memory, report_memory_rank_sort);
		report_list_sort(&sync->waited, report_waited_rank_sort);
		report_list_sort(&sync->regions, report_named_rank_sort);
	}
	report_list_sort(&report->sites, report_site_identity_sort);
	report_list_sort(&report->functions, report_function_identity_sort);
	report_list_sort(&report->notes, report_note_identity_sort);
	report_list_sort(&report->problems, report_text_identity_sort);
	coverage_find_reasons(report);
}

struct report *report_free(struct report *report)
{
	if (!report)
		return NULL;
	for (size_t i = 0; i < report->syncs.count; i++) {
		struct report_sync *sync = report->syncs.items[i];

		report_list_done(&sync->uses);
		report_list_done(&sync->memory);
		report_list_done(&sync->waited);
		report_list_done(&sync->regions);
	}
	report_sites_done(report);
	json_decref(report->witness);
	report_list_done(&report->syncs);
	report_list_done(&report->sites);
	report_list_done(&report->functions);
	report_list_done(&report->notes);
	report_list_done(&report->reasons);
	report_list_done(&report->problems);
	report_list_done(&report->blind);
	for (size_t i = 0; i < report->file_count; i++)
		record_file_free(report->files[i]);
	report_trace_free(report->trace);
	free(report->files);
	free(report->processes);
	free(report);
	return NULL;
}
