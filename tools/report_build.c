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
#include "symbolize.h"

typedef int (*compare_fn)(const void *, const void *);

/* ---- lists ---- */

/* The item equal to `key`, or a copy of it, newly added. */
static void *list_find_or_add(struct report_list *list, const void *key, size_t size,
			      compare_fn compare)
{
	void **node = tfind(key, &list->tree, compare);
	void *item;

	if (node)
		return *node;
	item = memory_new(size);
	memcpy(item, key, size);
	memory_check(tsearch(item, &list->tree, compare));
	list->items =
		memory_grow(list->items, list->count, &list->capacity, sizeof(list->items[0]));
	list->items[list->count++] = item;
	return item;
}

void report_text_list_add(struct report_list *list, char *text)
{
	list->items =
		memory_grow(list->items, list->count, &list->capacity, sizeof(list->items[0]));
	list->items[list->count++] = text;
}

static void nothing(void *item)
{
	(void)item;
}

static void list_done(struct report_list *list)
{
	tdestroy(list->tree, nothing);
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct report_list){0};
}

static void list_sort(struct report_list *list, compare_fn compare)
{
	if (list->count)
		qsort(list->items, list->count, sizeof(list->items[0]), compare);
}

/* qsort() gives addresses of pointers, tsearch() the pointers: comparisons are written for the
 * latter. */
#define BY_POINTER(name)                                                                           \
	static int name##_sort(const void *left, const void *right)                                \
	{                                                                                          \
		return name(*(const void *const *)left, *(const void *const *)right);              \
	}

#define ORDER(a, b) ((a) < (b) ? -1 : (a) > (b))
#define RETURN_IF(order)                                                                           \
	do {                                                                                       \
		int order_ = (order);                                                              \
		if (order_)                                                                        \
			return order_;                                                             \
	} while (0)

static int text_order(const char *left, const char *right)
{
	if (!left || !right)
		return !!left - !!right;
	return strcmp(left, right);
}

/* ---- identities and ranks ---- */

static int sync_identity(const void *left, const void *right)
{
	const struct report_sync *a = left, *b = right;

	RETURN_IF(ORDER(a->class, b->class));
	RETURN_IF(strcmp(a->rule, b->rule));
	RETURN_IF(strcmp(a->function, b->function));
	RETURN_IF(strcmp(a->cause, b->cause));
	return ORDER(a->allowed, b->allowed);
}

static int sync_rank(const void *left, const void *right)
{
	const struct report_sync *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return sync_identity(a, b);
}
BY_POINTER(sync_rank)

static int site_identity(const void *left, const void *right)
{
	const struct report_site *a = left, *b = right;

	return ORDER(a->id, b->id);
}
BY_POINTER(site_identity)

static uint64_t use_id(const struct report_use *use)
{
	return use->site ? use->site->id : 0;
}

static int use_identity(const void *left, const void *right)
{
	return ORDER(use_id(left), use_id(right));
}

static int use_rank(const void *left, const void *right)
{
	const struct report_use *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return use_identity(a, b);
}
BY_POINTER(use_rank)

static int memory_identity(const void *left, const void *right)
{
	const struct report_memory *a = left, *b = right;

	RETURN_IF(ORDER(a->source, b->source));
	return ORDER(a->destination, b->destination);
}

static int memory_rank(const void *left, const void *right)
{
	const struct report_memory *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return memory_identity(a, b);
}
BY_POINTER(memory_rank)

static int waited_identity(const void *left, const void *right)
{
	const struct report_waited *a = left, *b = right;

	RETURN_IF(ORDER(a->pid, b->pid));
	RETURN_IF(ORDER(a->context, b->context));
	RETURN_IF(ORDER(a->stream, b->stream));
	RETURN_IF(ORDER(a->stream_kind, b->stream_kind));
	RETURN_IF(ORDER(a->operation, b->operation));
	RETURN_IF(ORDER(a->certain, b->certain));
	return text_order(a->name, b->name);
}

static int waited_rank(const void *left, const void *right)
{
	const struct report_waited *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return waited_identity(a, b);
}
BY_POINTER(waited_rank)

static int named_identity(const void *left, const void *right)
{
	const struct report_named *a = left, *b = right;

	return text_order(a->name, b->name);
}

static int named_rank(const void *left, const void *right)
{
	const struct report_named *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return named_identity(a, b);
}
BY_POINTER(named_rank)

static int function_identity(const void *left, const void *right)
{
	const struct report_function *a = left, *b = right;

	return strcmp(a->name, b->name);
}
BY_POINTER(function_identity)

static int note_identity(const void *left, const void *right)
{
	const struct report_note *a = left, *b = right;

	RETURN_IF(ORDER(a->code, b->code));
	return strcmp(a->text, b->text);
}
BY_POINTER(note_identity)

static int text_identity(const void *left, const void *right)
{
	return strcmp(left, right);
}
BY_POINTER(text_identity)

static int process_rank(const void *left, const void *right)
{
	const struct record_header *a = ((const struct report_process *)left)->file->header;
	const struct record_header *b = ((const struct report_process *)right)->file->header;

	RETURN_IF(ORDER(a->start_ns, b->start_ns));
	return ORDER(a->pid, b->pid);
}

/* The order in which files are merged must not depend on that in which the folder gave them. */
static int file_rank(const void *left, const void *right)
{
	const struct record_file *a = *(struct record_file *const *)left;
	const struct record_file *b = *(struct record_file *const *)right;

	RETURN_IF(ORDER(a->header->start_ns, b->header->start_ns));
	RETURN_IF(ORDER(a->header->pid, b->header->pid));
	return strcmp(a->path, b->path);
}

/* ---- sums that a hostile file must not wrap ---- */

static void add(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

static void raise_to(uint64_t *value, uint64_t other)
{
	if (other > *value)
		*value = other;
}

/* ---- call sites ---- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* Content, not addresses: load addresses differ from process to process. 0 stands for "no site", so
 * it is never given. */
static uint64_t site_hash(const struct record_file *file, const struct record_site *site)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (uint16_t i = 0; i < site->frames; i++) {
		const struct record_frame *frame = &record_site_frames(site)[i];
		const struct record_module *module =
			(const void *)record_find(&file->modules, frame->module);

		if (module && module->build_id_length)
			hash = hash_bytes(hash, module->build_id, module->build_id_length);
		else if (module)
			hash = hash_text(hash, record_string_text(file, module->path));
		hash = hash_bytes(hash, &frame->offset, sizeof(frame->offset));
	}
	for (uint16_t i = 0; i < site->python_frames; i++) {
		const struct record_python_frame *frame = &record_site_python_frames(site)[i];

		hash = hash_text(hash, record_string_text(file, frame->file));
		hash = hash_text(hash, record_string_text(file, frame->function));
		hash = hash_bytes(hash, &frame->line, sizeof(frame->line));
	}
	return hash ? hash : 1;
}

static struct report_site *site_of(struct report *report, const struct record_file *file,
				   uint32_t id)
{
	const struct record_site *record = (const void *)record_find(&file->sites, id);
	struct report_site key = {.source = file, .record = record}, *site;

	if (!record || (!record->frames && !record->python_frames))
		return NULL;
	key.id = site_hash(file, record);
	site = list_find_or_add(&report->sites, &key, sizeof(key), site_identity);
	if (!site->python && record->python_frames) {
		site->python = memory_new(record->python_frames * sizeof(site->python[0]));
		for (uint16_t i = 0; i < record->python_frames; i++) {
			const struct record_python_frame *frame =
				&record_site_python_frames(record)[i];

			site->python[i] = (struct report_python_frame){
				.file = record_string_text(file, frame->file),
				.function = record_string_text(file, frame->function),
				.line = frame->line > 0 ? frame->line : 0,
			};
		}
		site->python_count = record->python_frames;
	}
	return site;
}

static struct report_frame *frame_add(struct report_site *site, size_t *capacity)
{
	struct report_frame *frame;

	site->frames = memory_grow(site->frames, site->frame_count, capacity, sizeof(*frame));
	frame = &site->frames[site->frame_count++];
	*frame = (struct report_frame){0};
	return frame;
}

/* False: nothing is known about this place. */
static bool add_symbols(struct report *report, struct report_site *site, size_t *capacity,
			const struct record_module *module, const char *path, uint64_t offset)
{
	struct symbol_frames symbols = {0};
	bool found;

	/* The return address lies behind the call: one byte less is inside it. */
	if (!path || !offset || !report->symbolizer ||
	    symbolizer_frame(report->symbolizer, path, module->build_id, module->build_id_length,
			     offset - 1, &symbols))
		return false;
	for (size_t i = 0; i < symbols.count; i++) {
		const struct symbol_frame *symbol = &symbols.frames[i];
		struct report_frame *frame = frame_add(site, capacity);

		frame->function = symbol->function ? memory_copy(symbol->function) : NULL;
		frame->file = symbol->file ? memory_copy(symbol->file) : NULL;
		frame->line = symbol->line;
		frame->module = path;
		frame->offset = offset;
		frame->inlined = i + 1 < symbols.count;
	}
	found = symbols.count;
	symbol_frames_done(&symbols);
	return found;
}

void report_site_symbolize(struct report *report, struct report_site *site)
{
	size_t capacity = 0;

	if (site->symbolized)
		return;
	site->symbolized = true;
	if (!report->symbolizer)
		report->symbolizer = symbolizer_new();
	for (uint16_t i = 0; i < site->record->frames; i++) {
		const struct record_frame *record = &record_site_frames(site->record)[i];
		const struct record_module *module =
			(const void *)record_find(&site->source->modules, record->module);
		const char *path = module ? record_string_text(site->source, module->path) : NULL;
		struct report_frame *frame;

		if (add_symbols(report, site, &capacity, module, path, record->offset))
			continue;
		frame = frame_add(site, &capacity);
		frame->module = path;
		frame->offset = record->offset;
	}
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
				add(&calls[k], counters->count[k]);
		}

	for (size_t i = 0; i < file->functions.count; i++) {
		const struct record_function *record = (const void *)file->functions.records[i];
		struct report_function key = {.name = record_string_text(file, record->name)};
		struct report_function *function;
		uint64_t count = record->number < length ? calls[record->number] : 0;

		if (!key.name)
			continue;
		key.wrapped = record->flags & RECORD_FUNCTION_WRAPPED;
		function =
			list_find_or_add(&report->functions, &key, sizeof(key), function_identity);
		function->wrapped &= key.wrapped;
		function->in_driver |= !!(record->flags & RECORD_FUNCTION_IN_DRIVER);
		add(&function->calls, count);
		add(&function->handed_out, record->handed_out);
		add(&process->calls, count);
		if (!key.wrapped)
			add(&process->unwrapped, count);
	}
	free(calls);
}

static const char *known(const char *text)
{
	return text ? text : "unknown";
}

/* The line that a wait record belongs to. A rule of unknown class is shown among the implicit ones,
 * where it is seen. */
static struct report_sync sync_key(const struct record_file *file, const struct record_wait *wait)
{
	const struct record_function *function =
		(const void *)record_find(&file->functions, wait->function);
	const struct record_rule *rule = (const void *)record_find(&file->rules, wait->rule);

	return (struct report_sync){
		.function = known(function ? record_string_text(file, function->name) : NULL),
		.rule = known(rule ? record_string_text(file, rule->slug) : NULL),
		.cause = known(rule ? record_string_text(file, rule->cause) : NULL),
		.class = rule && rule->class >= WAIT_EXPLICIT && rule->class <= WAIT_DEVICE
				 ? rule->class
				 : WAIT_IMPLICIT,
		.allowed = wait->allowed,
	};
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
	sync = list_find_or_add(&report->syncs, &key, sizeof(key), sync_identity);
	add(&sync->count, wait->count);
	add(&sync->blocked_ns, wait->blocked_ns);
	raise_to(&sync->blocked_max, wait->blocked_max);
	add(&sync->call_ns, wait->call_ns);
	add(&sync->bytes, wait->bytes);
	if (wait->idle_basis < ARRAY_SIZE(sync->idle_count))
		add(&sync->idle_count[wait->idle_basis], wait->count);
	if (key.class == WAIT_IMPLICIT && key.allowed) {
		add(&report->allowed_ns, wait->blocked_ns);
	} else if (key.class == WAIT_IMPLICIT) {
		add(&process->implicit_ns, wait->blocked_ns);
		add(&report->implicit_ns, wait->blocked_ns);
	} else if (key.class == WAIT_EXPLICIT) {
		add(&report->explicit_ns, wait->blocked_ns);
	}

	use = list_find_or_add(&sync->uses,
			       &(struct report_use){.site = site_of(report, file, wait->site)},
			       sizeof(*use), use_identity);
	add(&use->count, wait->count);
	add(&use->blocked_ns, wait->blocked_ns);
	raise_to(&use->blocked_max, wait->blocked_max);
	add(&use->bytes, wait->bytes);

	memory = list_find_or_add(&sync->memory,
				  &(struct report_memory){.source = wait->source_kind,
							  .destination = wait->destination_kind},
				  sizeof(*memory), memory_identity);
	add(&memory->count, wait->count);
	add(&memory->blocked_ns, wait->blocked_ns);
	add(&memory->bytes, wait->bytes);

	if (region_name) {
		struct report_named *named = list_find_or_add(
			&sync->regions, &(struct report_named){.name = region_name}, sizeof(*named),
			named_identity);

		add(&named->count, wait->count);
		add(&named->blocked_ns, wait->blocked_ns);
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

	if (!wait || !wait->count || !candidate || !record->count)
		return;
	line = sync_key(file, wait);
	node = tfind(&line, &report->syncs.tree, sync_identity);
	if (!node)
		return;
	sync = *node;
	key = (struct report_waited){
		.pid = file->header->pid,
		.context = candidate->context,
		.stream = candidate->stream,
		.stream_kind = candidate->stream_kind,
		.operation = candidate->operation,
		.certain = !!candidate->certain,
		.name = record_string_text(file, candidate->name),
	};
	waited = list_find_or_add(&sync->waited, &key, sizeof(key), waited_identity);
	add(&waited->count, record->count);
	add(&waited->blocked_ns, record->blocked_ns);
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
	} else if (header->pid != ended_pid &&
		   process_runs(header->pid, header->start_ns, now_ns)) {
		process->state = "running";
		process->end_ns = now_ns;
	} else {
		process->state = "gone";
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
	raise_to(&process->end_ns, header->start_ns);
	for (size_t i = 0; i < file->waited_for.count; i++)
		add_waited_for(report, file, (const void *)file->waited_for.records[i]);
	for (size_t i = 0; i < file->notes.count; i++) {
		const struct record_note *record = (const void *)file->notes.records[i];
		struct report_note key = {.code = record->code,
					  .text = record_string_text(file, record->text)};
		struct report_note *note;

		key.text = key.text ? key.text : "";
		note = list_find_or_add(&report->notes, &key, sizeof(key), note_identity);
		add(&note->count, record->count);
	}

	add(&report->calls, process->calls);
	add(&report->unwrapped, process->unwrapped);
}

/* Wall: from the first start to the last end of the processes that called the driver (of all, if
 * none did). */
static uint64_t wall_of(const struct report *report)
{
	uint64_t start = UINT64_MAX, end = 0;

	for (size_t i = 0; i < report->process_count; i++) {
		const struct report_process *process = &report->processes[i];

		if (report->calls && !process->calls)
			continue;
		if (process->file->header->start_ns < start)
			start = process->file->header->start_ns;
		raise_to(&end, process->end_ns);
	}
	return end > start ? end - start : 0;
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

static bool is_record_name(const char *name)
{
	size_t length = strlen(name);

	return length > 5 && name[0] != '.' && !strcmp(name + length - 5, ".slip");
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

		if (!is_record_name(entry->d_name))
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
		qsort(report->files, report->file_count, sizeof(report->files[0]), file_rank);
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
		      process_rank);
	list_sort(&report->syncs, sync_rank_sort);
	for (size_t i = 0; i < report->syncs.count; i++) {
		struct report_sync *sync = report->syncs.items[i];

		list_sort(&sync->uses, use_rank_sort);
		list_sort(&sync->memory, memory_rank_sort);
		list_sort(&sync->waited, waited_rank_sort);
		list_sort(&sync->regions, named_rank_sort);
	}
	list_sort(&report->sites, site_identity_sort);
	list_sort(&report->functions, function_identity_sort);
	list_sort(&report->notes, note_identity_sort);
	list_sort(&report->problems, text_identity_sort);
	coverage_find_reasons(report);
}

struct report *report_free(struct report *report)
{
	if (!report)
		return NULL;
	for (size_t i = 0; i < report->syncs.count; i++) {
		struct report_sync *sync = report->syncs.items[i];

		list_done(&sync->uses);
		list_done(&sync->memory);
		list_done(&sync->waited);
		list_done(&sync->regions);
	}
	for (size_t i = 0; i < report->sites.count; i++) {
		struct report_site *site = report->sites.items[i];

		for (size_t k = 0; k < site->frame_count; k++) {
			free(site->frames[k].function);
			free(site->frames[k].file);
		}
		free(site->frames);
		free(site->python);
	}
	list_done(&report->syncs);
	list_done(&report->sites);
	list_done(&report->functions);
	list_done(&report->notes);
	list_done(&report->reasons);
	list_done(&report->problems);
	list_done(&report->blind);
	for (size_t i = 0; i < report->file_count; i++)
		record_file_free(report->files[i]);
	free(report->files);
	free(report->processes);
	symbolizer_free(report->symbolizer);
	free(report);
	return NULL;
}
