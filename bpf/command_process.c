// SPDX-License-Identifier: MIT
/*
 * What the writer has told of one process (command_process.h). Ids count from 1; things are found by
 * content in trees.
 */
#include "command_process.h"

#include <fcntl.h>
#include <search.h>
#include <time.h>

#include "catalogue/catalogue.h"
#include "memory.h"
#include "witness_summary.h"

#define PIECE_BYTES  512  /* of def_string */
#define STRING_BYTES 4096 /* longer ones are cut */

struct told_string {
	char *text;
	uint32_t id;
};

/* ---- lists ---- */

static void keep_data(void *data)
{
	(void)data;
}

static void list_done(struct told_list *list)
{
	tdestroy(list->tree, keep_data);
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
}

/* The item equal to `key`, or a copy of it that is new: the caller numbers that by the list's count. */
static void *list_find_or_add(struct told_list *list, const void *key, size_t size,
			      int (*order)(const void *left, const void *right), bool *ret_is_new)
{
	void **node = memory_check(tsearch(key, &list->tree, order));

	*ret_is_new = *node == key;
	if (!*ret_is_new)
		return *node;
	*node = memory_new(size);
	memcpy(*node, key, size);
	list->items =
		memory_grow(list->items, list->count, &list->capacity, sizeof(list->items[0]));
	list->items[list->count++] = *node;
	return *node;
}

static int order_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int order_strings(const void *left, const void *right)
{
	return strcmp(((const struct told_string *)left)->text,
		      ((const struct told_string *)right)->text);
}

static int order_modules(const void *left, const void *right)
{
	const struct told_module *a = left, *b = right;

	return order_numbers((uintptr_t)a->file, (uintptr_t)b->file);
}

static int order_streams(const void *left, const void *right)
{
	const struct told_stream *a = left, *b = right;
	int order = order_numbers(a->class, b->class);

	return order ? order : order_numbers(a->handle, b->handle);
}

static int order_waits(const void *left, const void *right)
{
	const struct told_wait *a = left, *b = right;
	int order = order_numbers(a->function, b->function);

	if (!order)
		order = order_numbers(a->rule, b->rule);
	if (!order)
		order = order_numbers(a->site, b->site);
	if (!order)
		order = order_numbers(a->idle_basis, b->idle_basis);
	if (!order)
		order = order_numbers(a->source_kind, b->source_kind);
	return order ? order : order_numbers(a->destination_kind, b->destination_kind);
}

static int order_sites(const void *left, const void *right)
{
	const struct site *a = left, *b = right;
	int order = order_numbers(a->count, b->count);

	for (size_t i = 0; i < a->count && !order; i++) {
		order = order_numbers(a->frames[i].module, b->frames[i].module);
		if (!order)
			order = order_numbers(a->frames[i].offset, b->frames[i].offset);
	}
	return order;
}

/* ---- the process ---- */

/* Arguments with blanks between them; NULL: not readable. The caller frees. */
static char *read_command(pid_t id)
{
	_cleanup_free_ char *path = memory_format("/proc/%d/cmdline", id);
	_cleanup_close_ int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	char *text = memory_new(STRING_BYTES + 1);
	ssize_t length = descriptor < 0 ? -1 : read(descriptor, text, STRING_BYTES);

	if (length <= 0) {
		free(text);
		return NULL;
	}
	while (length && !text[length - 1])
		length--;
	for (ssize_t i = 0; i < length; i++)
		if (!text[i])
			text[i] = ' ';
	return text;
}

#define SECOND_NS      INT64_C(1000000000)
#define SLEPT_LEAST_NS 1000000 /* less is the time between the two questions */

static int64_t clock_now(clockid_t clock)
{
	struct timespec time;

	(void)clock_gettime(clock, &time);
	return (int64_t)time.tv_sec * SECOND_NS + time.tv_nsec;
}

/* In CLOCK_MONOTONIC ns, to a hundredth of a second; 0: not known. */
static uint64_t read_start(pid_t id)
{
	_cleanup_free_ char *path = memory_format("/proc/%d/stat", id);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	/* While the machine slept only one of the clocks went on. */
	int64_t slept_ns = clock_now(CLOCK_BOOTTIME) - clock_now(CLOCK_MONOTONIC), start_ns;
	unsigned long long ticks;
	char line[1024], *at;
	size_t length;

	if (!file)
		return 0;
	length = fread(line, 1, sizeof(line) - 1, file);
	line[length] = '\0';
	/* The name of the program may hold anything; it ends with the last bracket. */
	at = strrchr(line, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, " %llu", &ticks) != 1)
		return 0;
	start_ns = (int64_t)ticks * (SECOND_NS / sysconf(_SC_CLK_TCK));
	if (slept_ns > SLEPT_LEAST_NS)
		start_ns -= slept_ns;
	return start_ns > 0 ? (uint64_t)start_ns : 0;
}

struct told *told_new(pid_t id, const struct watch_process *known)
{
	struct told *process = memory_new(sizeof(*process));

	process->id = id;
	process->functions = memory_new(WATCH_FUNCTION_COUNT * sizeof(bool));
	process->rules = memory_new(RULE_COUNT * sizeof(bool));
	if (known) {
		process->parent = known->parent > 0 ? (uint32_t)known->parent : 0;
		process->program = memory_copy(known->program ? known->program : "");
		process->shim = known->shim;
	}
	process->command = read_command(id);
	process->start_ns = read_start(id);
	if (!process->start_ns)
		process->start_ns = known ? known->since_ns : 0;
	return process;
}

struct told *told_free(struct told *process)
{
	if (!process)
		return NULL;
	for (size_t i = 0; i < process->strings.count; i++)
		free(((struct told_string *)process->strings.items[i])->text);
	list_done(&process->strings);
	list_done(&process->modules);
	list_done(&process->sites);
	list_done(&process->streams);
	list_done(&process->waits);
	free(process->functions);
	free(process->rules);
	free(process->program);
	free(process->command);
	free(process);
	return NULL;
}

/* ---- sites ---- */

static uint32_t module_of(struct told *process, const struct module_file *file, uint64_t base)
{
	struct told_module key = {.file = file, .base = base}, *module;
	bool is_new;

	module = list_find_or_add(&process->modules, &key, sizeof(key), order_modules, &is_new);
	if (is_new)
		module->id = (uint32_t)process->modules.count;
	return module->id;
}

struct site *told_site(struct told *process, struct watch *watch, struct module_files *files,
		       const uint64_t *frames, size_t count, uint64_t when_ns)
{
	struct site key = {0}, *site;
	bool is_new, is_first_known = false;

	for (size_t i = 0; i < count && i < WATCH_FRAMES; i++) {
		struct site_frame *frame = &key.frames[i];
		const struct module_file *file;
		struct watch_place place;
		bool is_known;

		/* The byte before a return address is of the call itself. */
		is_known = frames[i] &&
			   !watch_place_of(watch, process->id, frames[i] - 1, when_ns, &place);
		if (!i)
			is_first_known = is_known;
		if (!is_known && is_first_known)
			break;
		key.count++;
		frame->offset = frames[i];
		if (!is_known || !place.path || !*place.path)
			continue;
		file = module_file_of(files, process->id, &place);
		frame->offset = module_address(file, &place) + 1;
		frame->module = module_of(process, file, frames[i] - frame->offset);
	}
	if (!key.count)
		return NULL;
	site = list_find_or_add(&process->sites, &key, sizeof(key), order_sites, &is_new);
	if (is_new)
		site->id = (uint32_t)process->sites.count;
	return site;
}

size_t told_frames(const struct told *process, const struct site *site,
		   struct witness_frame frames[WATCH_FRAMES])
{
	for (size_t i = 0; site && i < site->count; i++) {
		const struct told_module *module =
			site->frames[i].module ? process->modules.items[site->frames[i].module - 1]
					       : NULL;

		frames[i] = (struct witness_frame){
			.module = module ? module->file->path : NULL,
			.build_id =
				module && *module->file->build_id ? module->file->build_id : NULL,
			.offset = site->frames[i].offset,
		};
	}
	return site ? site->count : 0;
}

/* ---- definitions ---- */

void told_write(const struct told_out *out, enum trace_event event, const void *payload)
{
	if (out->text)
		text_out_event(out->text, out->ns, (uint32_t)out->process->id, out->thread, event,
			       payload);
}

uint32_t told_write_string(const struct told_out *out, const char *text)
{
	_cleanup_free_ char *cut = memory_check(strndup(text ? text : "", STRING_BYTES));
	struct told_string key = {.text = cut}, *string;
	size_t length;
	bool is_new;

	if (!*cut)
		return 0;
	string =
		list_find_or_add(&out->process->strings, &key, sizeof(key), order_strings, &is_new);
	if (!is_new)
		return string->id;
	string->id = (uint32_t)out->process->strings.count;
	string->text = memory_copy(cut);
	length = strlen(string->text);
	for (size_t offset = 0; offset < length; offset += PIECE_BYTES) {
		_cleanup_free_ char *piece =
			memory_check(strndup(string->text + offset, PIECE_BYTES));
		struct trace_def_string definition = {
			.id = string->id,
			.length = (uint32_t)length,
			.offset = (uint32_t)offset,
			.text = piece,
		};

		told_write(out, TRACE_DEF_STRING, &definition);
	}
	return string->id;
}

/* The path as the process names it. */
static const char *without_root(const char *path)
{
	const char *rest = path ? strstr(path, "/root/") : NULL;

	return rest && !strncmp(path, "/proc/", 6) && rest - path < 20 ? rest + 5 : path;
}

void told_write_begin(const struct told_out *out, const char *driver, bool whole)
{
	struct told *process = out->process;
	/* The first dump of a process whose earlier calls nobody saw is not its number 1. */
	struct trace_dump_begin begin = {.dump = whole ? 1 : 2, .reason = TRACE_DUMP_FIRST};
	struct trace_dump_end end = {.dump = begin.dump};
	struct trace_def_process definition = {
		.pid = (uint32_t)process->id,
		.parent_pid = process->parent,
		.rank = -1,
		.start_ns = process->start_ns,
		.catalogue = catalogue_id,
	};
	uint64_t lines;

	if (process->is_written)
		return;
	process->is_written = true;
	process->dump = begin.dump;
	told_write(out, TRACE_DUMP_BEGIN, &begin);
	lines = out->text ? out->text->lines : 0;
	definition.exe = told_write_string(out, process->program);
	definition.command =
		told_write_string(out, process->command ? process->command : process->program);
	definition.driver = told_write_string(out, without_root(driver));
	told_write(out, TRACE_DEF_PROCESS, &definition);
	end.events = out->text ? (uint32_t)(out->text->lines - lines) : 0;
	told_write(out, TRACE_DUMP_END, &end);
}

void told_write_function(const struct told_out *out, uint32_t function)
{
	struct trace_def_function definition = {
		.number = function,
		.flags = RECORD_FUNCTION_IN_DRIVER | RECORD_FUNCTION_WRAPPED,
	};

	if (out->process->functions[function])
		return;
	out->process->functions[function] = true;
	definition.name = told_write_string(out, watch_functions[function].name);
	told_write(out, TRACE_DEF_FUNCTION, &definition);
}

static void write_rule(const struct told_out *out, uint32_t number)
{
	const struct catalogue_rule *rule = &catalogue_rules[number];
	struct trace_def_rule definition = {
		.number = number,
		.class = rule->wait_class,
		.flags = rule->flags,
	};

	if (out->process->rules[number])
		return;
	out->process->rules[number] = true;
	definition.slug = told_write_string(out, rule->slug);
	definition.cause = told_write_string(out, rule->cause);
	told_write(out, TRACE_DEF_RULE, &definition);
}

static void write_module(const struct told_out *out, struct told_module *module)
{
	struct trace_def_module definition = {
		.id = module->id,
		.base = module->base,
		.build_id = module->file->build_id,
	};

	if (module->is_written)
		return;
	module->is_written = true;
	definition.path = told_write_string(out, module->file->path);
	told_write(out, TRACE_DEF_MODULE, &definition);
}

uint32_t told_write_site(const struct told_out *out, struct site *site)
{
	struct trace_def_site definition = {0};

	if (!site || site->is_written)
		return site ? site->id : 0;
	site->is_written = true;
	for (size_t i = 0; i < site->count; i++)
		if (site->frames[i].module)
			write_module(out, out->process->modules.items[site->frames[i].module - 1]);
	definition.id = site->id;
	definition.frames = (uint32_t)site->count;
	told_write(out, TRACE_DEF_SITE, &definition);
	for (size_t i = 0; i < site->count; i++) {
		struct trace_def_frame frame = {
			.site = site->id,
			.index = (uint32_t)i,
			.module = site->frames[i].module,
			.offset = site->frames[i].offset,
		};

		told_write(out, TRACE_DEF_FRAME, &frame);
	}
	return site->id;
}

uint32_t told_write_stream(const struct told_out *out, const struct watch_call *call)
{
	static const uint8_t kinds[] = {
		[WATCH_STREAM_LEGACY] = STREAM_LEGACY,
		[WATCH_STREAM_PER_THREAD] = STREAM_PER_THREAD,
		[WATCH_STREAM_OTHER] = STREAM_UNKNOWN,
	};
	struct told_stream key = {.class = call->stream_class}, *stream;
	struct trace_def_stream definition = {0};
	bool is_new;

	if (call->stream_class == WATCH_STREAM_NONE || call->stream_class >= sizeof(kinds))
		return 0;
	if (call->stream_class == WATCH_STREAM_OTHER)
		key.handle = call->stream;
	stream =
		list_find_or_add(&out->process->streams, &key, sizeof(key), order_streams, &is_new);
	if (!is_new)
		return stream->id;
	stream->id = (uint32_t)out->process->streams.count;
	definition.stream = stream->id;
	definition.kind = kinds[call->stream_class];
	definition.handle = key.handle;
	told_write(out, TRACE_DEF_STREAM, &definition);
	return stream->id;
}

uint32_t told_write_wait(const struct told_out *out, const struct told_wait *wait)
{
	struct told_wait *known;
	struct trace_def_wait definition;
	bool is_new;

	known = list_find_or_add(&out->process->waits, wait, sizeof(*wait), order_waits, &is_new);
	if (!is_new)
		return known->id;
	known->id = (uint32_t)out->process->waits.count;
	write_rule(out, wait->rule);
	definition = (struct trace_def_wait){
		.id = known->id,
		.function = wait->function,
		.rule = wait->rule,
		.site = wait->site,
		.source_kind = wait->source_kind,
		.destination_kind = wait->destination_kind,
		.idle_basis = wait->idle_basis,
	};
	told_write(out, TRACE_DEF_WAIT, &definition);
	return known->id;
}
