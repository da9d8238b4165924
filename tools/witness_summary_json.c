// SPDX-License-Identifier: MIT
/* Summary of witnessed calls, as the object "witness" of the report (witness_summary.h). */
#include "memory.h"
#include "sum.h"
#include "text.h"
#include "witness_summary_internal.h"

static const char *const stream_names[WITNESS_STREAM_CLASSES] = {"none", "legacy", "per_thread",
								 "other"};
static const char *const direction_names[WITNESS_DIRECTIONS] = {"none", "h2d", "d2h",
								"d2d",  "h2h", "unknown"};

static void set(json_t *object, const char *key, json_t *value)
{
	memory_check(json_object_set_new(object, key, memory_check(value)) ? NULL : object);
}

static void append(json_t *array, json_t *value)
{
	memory_check(json_array_append_new(array, memory_check(value)) ? NULL : array);
}

static json_t *integer(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Foreign text may be anything; JSON is UTF-8. */
static json_t *string(const char *raw)
{
	_cleanup_free_ char *text = NULL;

	if (!raw)
		return json_null();
	text = text_printable(raw, true);
	return json_string(text);
}

static json_t *how_json(const uint64_t ns[WITNESS_HOWS])
{
	json_t *object = memory_check(json_object());

	for (int how = 0; how < WITNESS_HOWS; how++) {
		_cleanup_free_ char *key = memory_format("%s_ns", witness_how_names[how]);

		set(object, key, integer(ns[how]));
	}
	return object;
}

static json_t *frames_json(const struct witness_line *line)
{
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < line->frame_count; i++) {
		json_t *item = memory_check(json_object());

		set(item, "module", string(line->frames[i].module));
		set(item, "build_id", string(line->frames[i].build_id));
		set(item, "offset", integer(line->frames[i].offset));
		append(array, item);
	}
	return array;
}

static json_t *line_json(const struct witness_line *line)
{
	json_t *item = memory_check(json_object());

	set(item, "calls", integer(line->calls));
	set(item, "call_ns", integer(line->call_ns));
	set(item, "blocked_ns", integer(line->blocked_ns));
	set(item, "blocked_max_ns", integer(line->blocked_max));
	set(item, "how", how_json(line->ns));
	set(item, "frames", frames_json(line));
	return item;
}

static int rank_lines(const void *left, const void *right)
{
	const struct witness_line *a = *(const void *const *)left, *b = *(const void *const *)right;

	if (a->blocked_ns != b->blocked_ns)
		return a->blocked_ns > b->blocked_ns ? -1 : 1;
	if (a->calls != b->calls)
		return a->calls > b->calls ? -1 : 1;
	return witness_order_lines(a, b);
}

static int rank_functions(const void *left, const void *right)
{
	const struct witness_function *a = *(const void *const *)left,
				      *b = *(const void *const *)right;

	if (a->blocked_ns != b->blocked_ns)
		return a->blocked_ns > b->blocked_ns ? -1 : 1;
	if (a->calls != b->calls)
		return a->calls > b->calls ? -1 : 1;
	return strcmp(a->name, b->name);
}

static void **ranked(const struct witness_tree *tree,
		     int (*rank)(const void *left, const void *right))
{
	void **items = memory_new(tree->count * sizeof(*items));

	if (tree->count)
		memcpy(items, tree->items, tree->count * sizeof(*items));
	qsort(items, tree->count, sizeof(*items), rank);
	return items;
}

static json_t *sites_json(const struct witness_summary *summary,
			  const struct witness_function *function)
{
	_cleanup_free_ void **lines = ranked(&summary->sites, rank_lines);
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < summary->sites.count; i++)
		if (!strcmp(((const struct witness_line *)lines[i])->function, function->name))
			append(array, line_json(lines[i]));
	return array;
}

static json_t *copies_json(const struct witness_function *function)
{
	json_t *array = memory_check(json_array());

	for (int direction = 1; direction < WITNESS_DIRECTIONS; direction++) {
		json_t *item;

		if (!function->direction_calls[direction])
			continue;
		item = memory_check(json_object());
		set(item, "direction", json_string(direction_names[direction]));
		set(item, "calls", integer(function->direction_calls[direction]));
		set(item, "bytes", integer(function->direction_bytes[direction]));
		append(array, item);
	}
	return array;
}

static json_t *streams_json(const struct witness_function *function)
{
	json_t *object = memory_check(json_object());

	for (int class = 0; class < WITNESS_STREAM_CLASSES; class ++)
		set(object, stream_names[class], integer(function->streams[class]));
	return object;
}

static json_t *function_json(const struct witness_summary *summary,
			     const struct witness_function *function)
{
	json_t *item = memory_check(json_object());

	set(item, "function", string(function->name));
	set(item, "entries", integer(function->entries));
	set(item, "wrapper", integer(function->by[WITNESS_BY_WRAPPER]));
	set(item, "escaped", integer(function->by[WITNESS_BY_PROGRAM]));
	set(item, "calls", integer(function->calls));
	set(item, "returned", integer(function->returned));
	set(item, "nested", integer(function->nested));
	set(item, "call_ns", integer(function->call_ns));
	set(item, "blocked_ns", integer(function->blocked_ns));
	set(item, "blocked_max_ns", integer(function->blocked_max));
	set(item, "bytes", integer(function->bytes));
	set(item, "how", how_json(function->ns));
	set(item, "switches", integer(function->switches));
	set(item, "preemptions", integer(function->preemptions));
	set(item, "yields", integer(function->yields));
	set(item, "system_call",
	    function->system_calls ? integer(function->system_call) : json_null());
	set(item, "system_calls", integer(function->system_calls));
	set(item, "streams", streams_json(function));
	set(item, "copies", copies_json(function));
	set(item, "sites", sites_json(summary, function));
	return item;
}

static json_t *functions_json(const struct witness_summary *summary)
{
	_cleanup_free_ void **functions = ranked(&summary->functions, rank_functions);
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < summary->functions.count; i++)
		append(array, function_json(summary, functions[i]));
	return array;
}

static json_t *lines_json(const struct witness_tree *tree, bool claims)
{
	_cleanup_free_ void **lines = ranked(tree, rank_lines);
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < tree->count; i++) {
		const struct witness_line *line = lines[i];
		json_t *item = line_json(line);

		set(item, "function", string(line->function));
		if (claims) {
			set(item, "claim", string(line->how));
			set(item, "off_cpu_ns", integer(line->off_cpu_ns));
			set(item, "driver_ns", integer(line->driver_ns));
			(void)json_object_del(item, "how");
		}
		append(array, item);
	}
	return array;
}

static bool has_shim(const struct witness_summary *summary)
{
	for (int by = 0; by < WITNESS_BYS; by++)
		if (summary->shim_by[by])
			return true;
	return false;
}

/*
 * Of the calls that the program made, in processes with the preload library, those of which is known
 * that they came through its wrapper. What the library and the driver call for their own ends is
 * nobody's to cover. Calls of which was lost who made them may have been the program's.
 */
static json_t *coverage_json(const struct witness_summary *summary)
{
	json_t *object = memory_check(json_object());
	uint64_t wrapped = summary->shim_by[WITNESS_BY_WRAPPER], all = wrapped;
	uint64_t unknown = summary->shim_by[WITNESS_BY_UNKNOWN];

	if (has_shim(summary)) {
		sum_add(&unknown, summary->loss.lost_calls);
		sum_add(&unknown, summary->loss.lost_callers);
	}
	sum_add(&all, summary->shim_by[WITNESS_BY_PROGRAM]);
	sum_add(&all, unknown);
	set(object, "calls", integer(all));
	set(object, "wrapper", integer(wrapped));
	set(object, "escaped", integer(summary->shim_by[WITNESS_BY_PROGRAM]));
	set(object, "unknown", integer(unknown));
	set(object, "shim_own", integer(summary->shim_by[WITNESS_BY_SHIM]));
	set(object, "inside_library", integer(summary->shim_by[WITNESS_BY_LIBRARY]));
	set(object, "without_shim", integer(summary->other_entries));
	set(object, "proven", all ? json_real((double)wrapped / (double)all) : json_null());
	return object;
}

static json_t *loss_json(const struct witness_loss *loss)
{
	json_t *object = memory_check(json_object());

	set(object, "records", integer(loss->lost_records));
	set(object, "calls", integer(loss->lost_calls));
	set(object, "deep", integer(loss->deep_calls));
	set(object, "left", integer(loss->left_calls));
	set(object, "late", integer(loss->late_returns));
	set(object, "callers", integer(loss->lost_callers));
	set(object, "processes", integer(loss->lost_processes));
	set(object, "process_records", integer(loss->lost_process_records));
	set(object, "mappings", integer(loss->lost_mappings));
	set(object, "libraries", integer(loss->unwatched_libraries));
	set(object, "functions", integer(loss->unwatched_functions));
	set(object, "claims", integer(loss->unheard_shims));
	set(object, "switches", integer(loss->unseen_switches));
	set(object, "runs", integer(loss->missed_runs));
	return object;
}

json_t *witness_summary_json(const struct witness_summary *summary)
{
	json_t *object = memory_check(json_object());

	set(object, "processes", integer(summary->loss.processes));
	set(object, "entries", integer(summary->loss.entries));
	set(object, "records", integer(summary->loss.records));
	set(object, "least_ns", integer(summary->loss.least_ns));
	set(object, "lost", loss_json(&summary->loss));
	set(object, "functions", functions_json(summary));
	set(object, "coverage", coverage_json(summary));
	set(object, "escaped", lines_json(&summary->escaped, false));
	/* Where nobody has the library, nobody lacks it. */
	set(object, "unpreloaded",
	    has_shim(summary) ? lines_json(&summary->unpreloaded, false) : json_array());
	set(object, "claims", integer(summary->claims));
	set(object, "contradicted", lines_json(&summary->denied, true));
	return object;
}
