// SPDX-License-Identifier: MIT
/*
 * Model (model.h): per process one table for each kind of definition. Fed by the reader. A
 * definition that a dump repeats finds its entry and overwrites it: memory grows with what is new
 * only, not with the length of the trace.
 */
#include "tracing/analysis/model.h"

#include "memory.h"
#include "tracing/analysis/table.h"
#include "tracing/event_table.h"

/* A hostile trace names any length and part: beyond these it is not believed. */
#define STRING_MAX (64 * 1024)
#define PARTS_MAX  1024

struct string {
	char *text; /* belongs to the model's `texts`; whole once `filled` is `length` */
	uint32_t length, filled;
};

struct parts {
	char *array;
	uint32_t count, capacity;
};

struct process {
	struct model_process public;
	struct trace_def_process definition;
	bool defined;
	uint64_t dump; /* counts dump_begin: the mark of allocations */
	struct table tables[TRACE_EVENT_COUNT];
};

struct model {
	struct process **processes;
	size_t count, capacity;
	char **texts; /* all strings, old ones too */
	size_t text_count, text_capacity;
	struct trace_parts parts;
	struct table interned; /* char *, by hash and a running number of equal hashes */
};

struct model *model_new(void)
{
	struct model *model = memory_new(sizeof(*model));

	model->interned.data_size = sizeof(char *);
	return model;
}

static bool has_parts(enum trace_event event)
{
	return trace_event_types[event].part >= 0;
}

static void free_process(struct process *process)
{
	for (int event = 0; event < TRACE_EVENT_COUNT; event++) {
		struct table *table = &process->tables[event];

		for (size_t i = 0;
		     has_parts(event) && event != TRACE_DEF_STRING && i < table->count; i++)
			free(((struct parts *)table_at(table, i))->array);
		table_done(table);
	}
	free(process);
}

struct model *model_free(struct model *model)
{
	if (!model)
		return NULL;
	for (size_t i = 0; i < model->count; i++)
		free_process(model->processes[i]);
	for (size_t i = 0; i < model->text_count; i++)
		free(model->texts[i]);
	table_done(&model->interned);
	trace_parts_done(&model->parts);
	free(model->texts);
	free(model->processes);
	free(model);
	return NULL;
}

/* ---- texts ---- */

static char *new_text(struct model *model, size_t length)
{
	model->texts = memory_grow(model->texts, model->text_count, &model->text_capacity,
				   sizeof(model->texts[0]));
	return model->texts[model->text_count++] = memory_new(length + 1);
}

const char *model_intern(struct model *model, const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	size_t length = strlen(text);
	bool is_new;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	for (uint64_t same = 0;; same++) {
		char **entry = table_add(&model->interned, hash, same, &is_new);

		if (is_new) {
			*entry = new_text(model, length);
			memcpy(*entry, text, length);
		}
		if (!strcmp(*entry, text))
			return *entry;
	}
}

/*
 * The pieces come in order; a dump repeats them. A piece that does not fit to what is there (an id
 * used again, another length) begins the string anew, in a new place, since the old text may still
 * be in use.
 */
static void take_string(struct model *model, struct process *process,
			const struct trace_def_string *piece)
{
	struct table *table = &process->tables[TRACE_DEF_STRING];
	size_t size = strnlen(piece->text, STRING_MAX);
	struct string *string;
	bool is_new;

	if (piece->length > STRING_MAX || piece->offset > piece->length)
		return;
	if (size > piece->length - piece->offset)
		size = piece->length - piece->offset;
	string = table_add(table, piece->id, 0, &is_new);
	if (!is_new && string->length == piece->length && piece->offset + size <= string->filled &&
	    !memcmp(string->text + piece->offset, piece->text, size))
		return;
	if (!is_new && string->length == piece->length && piece->offset == string->filled) {
		memcpy(string->text + piece->offset, piece->text, size);
		string->filled += (uint32_t)size;
		return;
	}
	if (piece->offset)
		return; /* what comes before it was lost: wait for the next dump */
	*string = (struct string){.text = new_text(model, piece->length), .length = piece->length};
	memcpy(string->text, piece->text, size);
	string->filled = (uint32_t)size;
}

/*
 * Whose definitions they are is known with def_process only, which comes first in a dump. Those of a dump whose
 * beginning was lost may be of another program of the same pid.
 */
static bool is_defined(const struct model *model, uint32_t process)
{
	return process < model->count && model->processes[process]->defined;
}

const char *model_string(const struct model *model, uint32_t process, uint32_t id)
{
	const struct string *string;

	if (!id || !is_defined(model, process))
		return NULL;
	string = table_find(&model->processes[process]->tables[TRACE_DEF_STRING], id, 0);
	return string && string->text && string->filled == string->length ? string->text : NULL;
}

/* ---- definitions ---- */

static uint64_t number_at(const struct trace_event_type *type, int field, const void *payload)
{
	const char *place = (const char *)payload + type->fields[field].offset;
	uint64_t value64;
	uint32_t value32;

	switch (type->fields[field].type) {
	case TRACE_FIELD_U64:
	case TRACE_FIELD_X64:
		memcpy(&value64, place, sizeof(value64));
		return value64;
	default:
		memcpy(&value32, place, sizeof(value32));
		return value32;
	}
}

static void take_part(struct process *process, enum trace_event event, const void *payload)
{
	const struct trace_event_type *type = &trace_event_types[event];
	uint64_t part = number_at(type, type->part, payload);
	struct parts *parts;
	bool is_new;

	if (part >= PARTS_MAX)
		return;
	parts = table_add(&process->tables[event], number_at(type, type->key, payload), 0, &is_new);
	if (part >= parts->capacity) {
		uint32_t capacity = parts->capacity ? parts->capacity : 4;

		while (capacity <= part)
			capacity *= 2;
		parts->array = memory_check(reallocarray(parts->array, capacity, type->size));
		memset(parts->array + parts->capacity * type->size, 0,
		       (capacity - parts->capacity) * type->size);
		parts->capacity = capacity;
	}
	if (part >= parts->count)
		parts->count = (uint32_t)part + 1;
	memcpy(parts->array + part * type->size, payload, type->size);
}

static void take_whole(struct model *model, struct process *process, enum trace_event event,
		       const void *payload)
{
	const struct trace_event_type *type = &trace_event_types[event];
	bool is_new;
	char *place =
		table_add(&process->tables[event], number_at(type, type->key, payload), 0, &is_new);

	table_entry_of(place)->mark = process->dump;
	memcpy(place, payload, type->size);
	for (unsigned int i = 0; i < type->field_count; i++) {
		const char **text = (const char **)(void *)(place + type->fields[i].offset);

		if (type->fields[i].type == TRACE_FIELD_STRING)
			*text = model_intern(model, *text);
	}
}

static void take_process(struct process *process, const struct trace_def_process *definition)
{
	process->definition = *definition;
	process->defined = true;
	process->public.rank = definition->rank;
}

static void begin_dump(struct process *process, const struct trace_dump_begin *begin)
{
	process->dump++;
	process->public.dump_before = process->public.dump;
	process->public.dump =
		(struct model_dump){.number = begin->dump, .reason = begin->reason, .open = true};
}

static void end_dump(struct process *process, const struct trace_dump_end *end)
{
	struct model_dump *dump = &process->public.dump;

	table_sweep(&process->tables[TRACE_DEF_ALLOCATION], process->dump);
	dump->whole = dump->open && dump->number == end->dump && dump->seen >= end->events;
	dump->open = false;
}

void model_take(struct model *model, uint32_t number, enum trace_event event, const void *payload)
{
	struct process *process = model->processes[number];

	process->public.dump.seen += trace_event_types[event].dumped;
	switch (event) {
	case TRACE_DEF_PROCESS:
		take_process(process, payload);
		return;
	case TRACE_DEF_STRING:
		take_string(model, process, payload);
		return;
	case TRACE_DUMP_BEGIN:
		begin_dump(process, payload);
		return;
	case TRACE_DUMP_END:
		end_dump(process, payload);
		return;
	case TRACE_PROCESS_END:
		process->public.ended = true;
		process->public.end = *(const struct trace_process_end *)payload;
		return;
	default:
		break;
	}
	if (!trace_event_types[event].dumped)
		return;
	if (has_parts(event))
		take_part(process, event, payload);
	else
		take_whole(model, process, event, payload);
}

/* ---- look-ups ---- */

uint32_t model_add_process(struct model *model, const char *host, uint32_t pid)
{
	struct process *process = memory_new(sizeof(*process));

	for (int event = 0; event < TRACE_EVENT_COUNT; event++)
		process->tables[event].data_size = event == TRACE_DEF_STRING ? sizeof(struct string)
						   : has_parts(event)
							   ? sizeof(struct parts)
							   : trace_event_types[event].size;
	model->processes = memory_grow(model->processes, model->count, &model->capacity,
				       sizeof(model->processes[0]));
	process->public = (struct model_process){
		.number = (uint32_t)model->count, .pid = pid, .host = host, .rank = -1};
	model->processes[model->count++] = process;
	return process->public.number;
}

void model_move_dump(struct model *model, uint32_t from, uint32_t into)
{
	struct process *old = model->processes[from], *new = model->processes[into];

	if (!old->public.dump.open)
		return;
	new->public.dump = old->public.dump;
	new->dump++;
	old->public.dump = old->public.dump_before;
}

bool model_missed_waits(const struct model *model, uint32_t number)
{
	const struct process *process = model->processes[number];
	const struct table *waits = &process->tables[TRACE_DEF_WAIT];

	for (size_t i = 0; i < waits->count; i++) {
		const struct trace_def_wait *wait = table_at(waits, i);
		const struct trace_def_coverage *coverage =
			table_find(&process->tables[TRACE_DEF_COVERAGE], wait->function, 0);

		/* The call that made the dump necessary is defined in it, and comes behind it. */
		if (waits->order[i]->mark == process->dump && (!coverage || coverage->calls > 1))
			return true;
	}
	return false;
}

struct trace_parts *model_trace_parts(struct model *model)
{
	return &model->parts;
}

const struct trace_part *model_part(const struct model *model, uint32_t process)
{
	const struct model_process *public = model_process(model, process);

	return public && public->trace ? trace_parts_find(&model->parts, public->trace) : NULL;
}

size_t model_process_count(const struct model *model)
{
	return model->count;
}

struct model_process *model_change_process(struct model *model, uint32_t process)
{
	return process < model->count ? &model->processes[process]->public : NULL;
}

const struct model_process *model_process(const struct model *model, uint32_t process)
{
	return process < model->count ? &model->processes[process]->public : NULL;
}

const struct trace_def_process *model_process_definition(const struct model *model,
							 uint32_t process)
{
	return is_defined(model, process) ? &model->processes[process]->definition : NULL;
}

const void *model_find(const struct model *model, uint32_t process, enum trace_event event,
		       uint64_t key)
{
	if (!is_defined(model, process) || has_parts(event))
		return NULL;
	return table_find(&model->processes[process]->tables[event], key, 0);
}

const void *model_parts(const struct model *model, uint32_t process, enum trace_event event,
			uint64_t key, size_t *ret_count)
{
	const struct parts *parts = NULL;

	if (is_defined(model, process) && has_parts(event) && event != TRACE_DEF_STRING)
		parts = table_find(&model->processes[process]->tables[event], key, 0);
	*ret_count = parts ? parts->count : 0;
	return parts ? parts->array : NULL;
}

void model_each(const struct model *model, uint32_t process, enum trace_event event,
		bool (*take)(void *context, const void *definition), void *context)
{
	const struct table *table;

	if (!is_defined(model, process) || has_parts(event))
		return;
	table = &model->processes[process]->tables[event];
	for (size_t i = 0; i < table->count; i++)
		if (!take(context, table_at(table, i)))
			return;
}

void model_each_parts(const struct model *model, uint32_t process, enum trace_event event,
		      bool (*take)(void *context, uint64_t key, const void *parts, size_t count),
		      void *context)
{
	const struct table *table;

	if (!is_defined(model, process) || !has_parts(event) || event == TRACE_DEF_STRING)
		return;
	table = &model->processes[process]->tables[event];
	for (size_t i = 0; i < table->count; i++) {
		const struct parts *parts = table_at(table, i);

		if (!take(context, table->order[i]->key, parts->array, parts->count))
			return;
	}
}

void model_each_string(const struct model *model, uint32_t process,
		       bool (*take)(void *context, uint32_t id, const char *text), void *context)
{
	const struct table *table;

	if (!is_defined(model, process))
		return;
	table = &model->processes[process]->tables[TRACE_DEF_STRING];
	for (size_t i = 0; i < table->count; i++) {
		const struct string *string = table_at(table, i);

		if (string->text && string->filled == string->length &&
		    !take(context, (uint32_t)table->order[i]->key, string->text))
			return;
	}
}
