// SPDX-License-Identifier: MIT
/*
 * Image (report_image.h). Every writer below turns one kind of definition into its record. A trace
 * is hostile: what does not fit a record is left out.
 */
#include "tracing/analysis/report_image.h"

#include "memory.h"
#include "record_read.h"
#include "tracing/analysis/hex.h"
#include "tracing/analysis/report_sums.h"

struct image {
	const struct model *model;
	uint32_t process;
	uint8_t *bytes;
	size_t size, capacity;
	const struct table *waits;
};

/* ---- records ---- */

static void reserve(struct image *image, size_t more)
{
	while (image->size + more > image->capacity) {
		image->capacity = image->capacity ? image->capacity * 2 : 64 * 1024;
		image->bytes = memory_check(realloc(image->bytes, image->capacity));
	}
}

/*
 * A record of `size` bytes, all 0 but its head; valid until the next one. NULL: it is too large for
 * any segment.
 */
static void *add_record(struct image *image, enum record_type type, size_t size)
{
	size_t whole = (size + RECORD_ALIGN - 1) & ~(size_t)(RECORD_ALIGN - 1);
	size_t left = RECORD_SEGMENT - image->size % RECORD_SEGMENT;
	struct record *record;

	if (whole > RECORD_SEGMENT)
		return NULL;
	if (whole > left) {
		reserve(image, left);
		memset(image->bytes + image->size, 0, left);
		record = (struct record *)(image->bytes + image->size);
		*record = (struct record){.type = RECORD_PAD, .size = (uint32_t)left};
		image->size += left;
	}
	reserve(image, whole);
	record = (struct record *)(image->bytes + image->size);
	memset(record, 0, whole);
	*record = (struct record){.type = type, .size = (uint32_t)whole};
	image->size += whole;
	return record;
}

#define ADD(image, record_type, type)                                                              \
	((struct type *)add_record(image, record_type, sizeof(struct type)))

/* ---- header ---- */

static uint64_t host_time(const struct image *image, int64_t ns)
{
	int64_t offset = model_process(image->model, image->process)->clock_offset_ns;

	return ns > offset ? (uint64_t)(ns - offset) : 0;
}

static void add_header(struct image *image)
{
	const struct model_process *process = model_process(image->model, image->process);
	const struct trace_def_process *definition =
		model_process_definition(image->model, image->process);
	struct record_header *header = ADD(image, RECORD_HEADER, record_header);

	header->magic = RECORD_MAGIC;
	header->version = RECORD_VERSION;
	header->header_size = sizeof(*header);
	header->pid = process->pid;
	header->rank = process->rank;
	header->state = process->ended ? RECORD_STATE_EXITED : RECORD_STATE_LIVE;
	if (process->ended) {
		header->end_ns = process->end.end_ns;
		header->dropped = process->end.dropped;
	}
	if (!definition) {
		/* It began by then at the latest. */
		header->start_ns = host_time(image, process->first_ns);
		return;
	}
	header->catalogue_id = definition->catalogue;
	header->start_ns = definition->start_ns;
	header->parent_pid = definition->parent_pid;
	header->forked = definition->forked;
	header->exe = definition->exe;
	header->command = definition->command;
	header->shim_version = definition->shim_version;
	header->config = definition->config;
	header->driver = definition->driver;
	header->driver_version = definition->driver_version;
	if (definition->dropped > header->dropped)
		header->dropped = definition->dropped;
}

/* ---- definitions ---- */

static bool add_string(void *context, uint32_t id, const char *text)
{
	size_t length = strlen(text);
	struct record_string *record =
		add_record(context, RECORD_STRING, sizeof(struct record_string) + length + 1);

	if (!record)
		return true;
	record->id = id;
	record->length = (uint32_t)length;
	memcpy(record->bytes, text, length);
	return true;
}

static bool add_function(void *context, const void *definition)
{
	const struct trace_def_function *from = definition;
	struct record_function *record = ADD(context, RECORD_FUNCTION, record_function);

	record->number = from->number;
	record->name = from->name;
	record->flags = from->flags;
	record->handed_out = from->handed_out;
	return true;
}

static bool add_rule(void *context, const void *definition)
{
	const struct trace_def_rule *from = definition;
	struct record_rule *record = ADD(context, RECORD_RULE, record_rule);

	record->number = from->number;
	record->slug = from->slug;
	record->cause = from->cause;
	record->class = from->class;
	record->flags = from->flags;
	return true;
}

static bool add_module(void *context, const void *definition)
{
	const struct trace_def_module *from = definition;
	struct record_module *record = ADD(context, RECORD_MODULE, record_module);
	const char *digits = from->build_id;

	record->id = from->id;
	record->path = from->path;
	record->base = from->base;
	while (record->build_id_length < sizeof(record->build_id) && hex_digit(digits[0]) >= 0 &&
	       hex_digit(digits[1]) >= 0) {
		record->build_id[record->build_id_length++] =
			(uint8_t)(hex_digit(digits[0]) << 4 | hex_digit(digits[1]));
		digits += 2;
	}
	return true;
}

/*
 * How many parts lead without a gap: a stack with a hole would tell of calls that never were. `key`
 * is the first field of all.
 */
static size_t whole_parts(const void *parts, size_t size, size_t count, size_t most, uint32_t key)
{
	size_t whole = 0;

	while (whole < count && whole < most && whole < RECORD_FRAMES_MAX &&
	       !memcmp((const char *)parts + whole * size, &key, sizeof(key)))
		whole++;
	return whole;
}

static bool add_site(void *context, const void *definition)
{
	struct image *image = context;
	const struct trace_def_site *from = definition;
	size_t frame_count, python_count;
	const struct trace_def_frame *frames =
		model_parts(image->model, image->process, TRACE_DEF_FRAME, from->id, &frame_count);
	const struct trace_def_python_frame *python = model_parts(
		image->model, image->process, TRACE_DEF_PYTHON_FRAME, from->id, &python_count);
	struct record_site *record;
	struct record_frame *into;
	struct record_python_frame *python_into;

	frame_count = whole_parts(frames, sizeof(*frames), frame_count, from->frames, from->id);
	python_count =
		whole_parts(python, sizeof(*python), python_count, from->python_frames, from->id);
	record = add_record(image, RECORD_SITE,
			    sizeof(*record) + frame_count * sizeof(*into) +
				    python_count * sizeof(*python_into));
	record->id = from->id;
	record->frames = (uint16_t)frame_count;
	record->python_frames = (uint16_t)python_count;
	into = (struct record_frame *)(record + 1);
	for (size_t i = 0; i < frame_count; i++)
		into[i] = (struct record_frame){.offset = frames[i].offset,
						.module = frames[i].module};
	python_into = (struct record_python_frame *)(into + frame_count);
	for (size_t i = 0; i < python_count; i++)
		python_into[i] = (struct record_python_frame){.file = python[i].file,
							      .function = python[i].function,
							      .line = python[i].line};
	return true;
}

static bool add_candidate(void *context, const void *definition)
{
	const struct trace_def_candidate *from = definition;
	struct record_candidate *record = ADD(context, RECORD_CANDIDATE, record_candidate);

	record->id = from->id;
	record->stream_kind = from->stream_kind;
	record->context = from->context;
	record->stream = from->stream;
	record->operation = from->operation;
	record->name = from->name;
	record->certain = from->certain;
	return true;
}

static bool add_region(void *context, const void *definition)
{
	const struct trace_def_region *from = definition;
	/* As an early writer's: an older library sent no figures, and a process that was killed may have got no further. */
	bool is_counted = from->parent || from->entries;
	struct record_region *record =
		add_record(context, RECORD_REGION,
			   is_counted ? sizeof(*record) : offsetof(struct record_region, parent));

	record->id = from->id;
	record->name = from->name;
	if (!is_counted)
		return true;
	record->parent = from->parent;
#define FIGURE(field) record->field = from->field;
	RECORD_REGION_FIGURES(FIGURE)
#undef FIGURE
	return true;
}

static bool add_note(void *context, const void *definition)
{
	const struct trace_def_note *from = definition;
	struct record_note *record = ADD(context, RECORD_NOTE, record_note);

	record->code = from->code;
	record->text = from->text;
	record->count = from->count;
	return true;
}

static bool add_rewrite(void *context, const void *definition)
{
	const struct trace_def_rewrite *from = definition;
	struct record_rewrite *record = ADD(context, RECORD_REWRITE, record_rewrite);

	record->name = from->name;
#define FIGURE(field) record->field = from->field;
	RECORD_REWRITE_FIGURES(FIGURE)
#undef FIGURE
	return true;
}

static bool add_rewrite_site(void *context, const void *definition)
{
	const struct trace_def_rewrite_site *from = definition;
	struct record_rewrite_site *record = ADD(context, RECORD_REWRITE_SITE, record_rewrite_site);

	record->site = from->site;
	record->rewrite = from->name;
	record->function = from->function;
	record->calls = from->calls;
	record->denied = from->denied;
	return true;
}

static bool add_real_free(void *context, const void *definition)
{
	const struct trace_def_real_free *from = definition;
	struct record_real_free *record = ADD(context, RECORD_REAL_FREE, record_real_free);

	record->site = from->site;
	record->rewrite = from->name;
	record->function = from->function;
	record->why = from->why;
	record->calls = from->calls;
	record->blocks = from->blocks;
	return true;
}

static bool add_remark(void *context, const void *definition)
{
	const struct trace_def_remark *from = definition;
	struct record_remark *record = ADD(context, RECORD_REMARK, record_remark);

	record->id = from->id;
	record->rule = from->rule;
	record->function = from->function;
	record->site = from->site;
	record->stream = from->stream;
	record->region = from->region;
	record->allowed = !!from->allowed;
	record->other_function = from->other_function;
	record->other_site = from->other_site;
	record->other_stream = from->other_stream;
	record->count = from->count;
	record->bytes = from->bytes;
	record->first_ns = host_time(context, from->first_ns);
	record->last_ns = host_time(context, from->last_ns);
	return true;
}

/* ---- what was summed ---- */

static void add_waits(struct image *image)
{
	for (size_t i = 0; i < image->waits->count; i++) {
		uint32_t id = (uint32_t)image->waits->order[i]->key;
		const struct sum *sum = table_at(image->waits, i);
		const struct trace_def_wait *from =
			model_find(image->model, image->process, TRACE_DEF_WAIT, id);
		struct record_wait *record = ADD(image, RECORD_WAIT, record_wait);

		record->id = id;
		record->function = from ? from->function : UINT32_MAX; /* "unknown" */
		record->rule = from ? from->rule : UINT32_MAX;
		if (from) {
			record->site = from->site;
			record->region = from->region;
			record->source_kind = (uint8_t)from->source_kind;
			record->destination_kind = (uint8_t)from->destination_kind;
			record->idle_basis = (uint8_t)from->idle_basis;
			record->allowed = !!from->allowed;
		}
		record->count = sum->count;
		record->blocked_ns = sum->blocked_ns;
		record->blocked_max = sum->blocked_max;
		record->call_ns = sum->call_ns;
		record->bytes = sum->bytes;
		record->first_ns = host_time(image, sum->first_ns);
		record->last_ns = host_time(image, sum->last_ns);
	}
}

static void add_waited_for(struct image *image, const struct table *waited_for)
{
	for (size_t i = 0; i < waited_for->count; i++) {
		const struct table_entry *entry = waited_for->order[i];
		const struct sum *sum = table_at(waited_for, i);
		struct record_waited_for *record = ADD(image, RECORD_WAITED_FOR, record_waited_for);

		record->wait = (uint32_t)entry->key;
		record->candidate = (uint32_t)entry->key2;
		record->count = sum->count;
		record->blocked_ns = sum->blocked_ns;
	}
}

/* ---- coverage ---- */

struct counts {
	uint64_t *calls;
	uint32_t length;
};

/* Largest number of functions that a record has room for. */
#define FUNCTIONS_MAX                                                                              \
	((uint32_t)((RECORD_SEGMENT - sizeof(struct record_counters)) / sizeof(uint64_t)))

static void count_at_least(struct counts *counts, uint32_t function, uint64_t calls)
{
	if (function >= FUNCTIONS_MAX)
		return;
	if (function >= counts->length) {
		counts->calls = memory_check(
			reallocarray(counts->calls, function + 1, sizeof(counts->calls[0])));
		memset(counts->calls + counts->length, 0,
		       (function + 1 - counts->length) * sizeof(counts->calls[0]));
		counts->length = function + 1;
	}
	if (calls > counts->calls[function])
		counts->calls[function] = calls;
}

static bool take_coverage(void *context, const void *definition)
{
	const struct trace_def_coverage *coverage = definition;

	count_at_least(context, coverage->function, coverage->calls);
	return true;
}

/*
 * The last dump says how many calls there were. Of a process that was killed it is a second old: no
 * function was called less often than it waited.
 */
static void add_counters(struct image *image)
{
	struct counts counts = {0}, waits = {0};
	struct record_counters *record;

	model_each(image->model, image->process, TRACE_DEF_COVERAGE, take_coverage, &counts);
	for (size_t i = 0; i < image->waits->count; i++) {
		const struct trace_def_wait *wait = model_find(
			image->model, image->process, TRACE_DEF_WAIT, image->waits->order[i]->key);
		const struct sum *sum = table_at(image->waits, i);

		if (!wait || wait->function >= FUNCTIONS_MAX)
			continue;
		count_at_least(&waits, wait->function, 0);
		waits.calls[wait->function] += sum->count;
	}
	for (uint32_t function = 0; function < waits.length; function++)
		count_at_least(&counts, function, waits.calls[function]);
	record = add_record(image, RECORD_COUNTERS,
			    sizeof(*record) + counts.length * sizeof(record->count[0]));
	record->functions = counts.length;
	if (counts.length)
		memcpy(record->count, counts.calls, counts.length * sizeof(counts.calls[0]));
	free(counts.calls);
	free(waits.calls);
}

uint8_t *report_image(const struct model *model, uint32_t process, const struct table *waits,
		      const struct table *waited_for, size_t *ret_size)
{
	static const struct {
		enum trace_event event;
		bool (*add)(void *context, const void *definition);
	} definitions[] = {
		{TRACE_DEF_FUNCTION, add_function},
		{TRACE_DEF_RULE, add_rule},
		{TRACE_DEF_MODULE, add_module},
		{TRACE_DEF_SITE, add_site},
		{TRACE_DEF_CANDIDATE, add_candidate},
		{TRACE_DEF_REGION, add_region},
		{TRACE_DEF_NOTE, add_note},
		{TRACE_DEF_REWRITE, add_rewrite},
		{TRACE_DEF_REWRITE_SITE, add_rewrite_site},
		{TRACE_DEF_REAL_FREE, add_real_free},
		{TRACE_DEF_REMARK, add_remark},
	};
	struct image image = {.model = model, .process = process, .waits = waits};

	add_header(&image);
	model_each_string(model, process, add_string, &image);
	for (size_t i = 0; i < ARRAY_SIZE(definitions); i++)
		model_each(model, process, definitions[i].event, definitions[i].add, &image);
	add_waits(&image);
	add_waited_for(&image, waited_for);
	add_counters(&image);
	*ret_size = image.size;
	return image.bytes;
}
