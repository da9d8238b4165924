// SPDX-License-Identifier: MIT
/*
 * Graph (graph.h). Every trace is asked for its span first: that tells which ones can be read at
 * all, before one that cannot spoils the graph.
 */
#include "tracing/analysis/graph.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "memory.h"
#include "tracing/analysis/lanes.h"
#include "tracing/analysis/salvage.h"
#include "tracing/analysis/text_parse.h"
#include "tracing/analysis/text_source.h"

/*
 * So much of a trace is worth a thread (lanes.h): to open the trace once more takes some milliseconds.
 */
#define BYTES_A_LANE (UINT64_C(8) << 20)
#define STEP_EVENTS  1024

/* A trace that is read. */
struct input {
	enum trace_kind kind;
	const char *path; /* the caller's, or `salvage` */
	char *salvage;    /* temporary folder with what can be read of it; NULL: all can */
	char *group;      /* of folders: those of one group are one trace; NULL: alone */
	bool added;
};

/* Component classes. Each branch has its own: references to them are counted without locks. */
struct classes {
	const bt_plugin *ctf, *utils;
	const bt_component_class_source *text;
};

/* One graph, of one or of several that share the streams out. */
struct branch {
	struct classes classes;
	bt_graph *graph;
	const bt_component_filter *muxer;
	size_t number, count; /* this one, of how many */
	size_t ports;         /* seen so far, those of other branches too */
};

struct graph {
	struct input *inputs;
	size_t input_count;
	struct branch *branches;
	size_t branch_count;
	struct lanes *lanes; /* NULL: the one branch feeds the sink itself */
	struct sink *sink;
	enum sink_status status; /* of the last batch */
	size_t failures;
	size_t streams; /* in folders */
	struct graph_span span;
};

/* ---- spans ---- */

static void add_span(struct graph *graph, int64_t begin_ns, int64_t end_ns)
{
	if (!graph->span.begin_ns || begin_ns < graph->span.begin_ns)
		graph->span.begin_ns = begin_ns;
	if (end_ns > graph->span.end_ns)
		graph->span.end_ns = end_ns;
}

static bool number_at(const bt_value *map, const char *key, int64_t *ret_number)
{
	const bt_value *value = bt_value_map_borrow_entry_value_const(map, key);

	if (!value || !bt_value_is_signed_integer(value))
		return false;
	*ret_number = bt_value_integer_signed_get(value);
	return true;
}

/*
 * Of the answer to babeltrace.trace-infos: streams have range-ns, where they have a clock and a
 * packet.
 */
static void take_infos(struct graph *graph, const bt_value *infos)
{
	for (uint64_t i = 0; bt_value_is_array(infos) && i < bt_value_array_get_length(infos);
	     i++) {
		const bt_value *info = bt_value_array_borrow_element_by_index_const(infos, i);
		const bt_value *streams =
			bt_value_is_map(info)
				? bt_value_map_borrow_entry_value_const(info, "stream-infos")
				: NULL;

		for (uint64_t k = 0; streams && bt_value_is_array(streams) &&
				     k < bt_value_array_get_length(streams);
		     k++) {
			const bt_value *stream =
				bt_value_array_borrow_element_by_index_const(streams, k);
			const bt_value *range =
				bt_value_is_map(stream)
					? bt_value_map_borrow_entry_value_const(stream, "range-ns")
					: NULL;
			int64_t begin, end;

			graph->streams++;
			if (range && bt_value_is_map(range) && number_at(range, "begin", &begin) &&
			    number_at(range, "end", &end))
				add_span(graph, begin, end);
		}
	}
}

static bt_value *inputs_of(const char *path)
{
	bt_value *params = memory_check(bt_value_map_create()), *inputs;

	memory_check(bt_value_map_insert_empty_array_entry(params, "inputs", &inputs) ? NULL
										      : params);
	memory_check(bt_value_array_append_string_element(inputs, path) ? NULL : params);
	return params;
}

static const bt_component_class_source *source_class(const struct classes *classes,
						     enum trace_kind kind)
{
	return kind == TRACE_TEXT ? classes->text
				  : bt_plugin_borrow_source_component_class_by_name_const(
					    classes->ctf, kind == TRACE_CTF ? "fs" : "lttng-live");
}

/* NULL: the error is the thread's. The caller puts the reference. */
static const bt_value *query(const bt_component_class_source *class, const char *object,
			     const bt_value *params)
{
	bt_query_executor *executor = memory_check(bt_query_executor_create(
		bt_component_class_source_as_component_class_const(class), object, params));
	const bt_value *result = NULL;

	if (bt_query_executor_query(executor, &result) != BT_QUERY_EXECUTOR_QUERY_STATUS_OK)
		result = NULL;
	bt_query_executor_put_ref(executor);
	return result;
}

/* A graph that is never run: what cannot be opened must not spoil the one that is. */
static bool can_be_opened(struct graph *graph, const bt_value *params)
{
	bt_graph *scratch = memory_check(bt_graph_create(0));
	bool opened = !bt_graph_add_source_component(
		scratch, source_class(&graph->branches[0].classes, TRACE_CTF), "trace", params,
		BT_LOGGING_LEVEL_NONE, NULL);

	bt_graph_put_ref(scratch);
	return opened;
}

/*
 * Whether a folder is a trace that can be opened; its span. The query comes second: asked for a
 * damaged trace, babeltrace2 2.0.4 aborts.
 */
static int ask_ctf(struct graph *graph, const char *path, char **reterr_text)
{
	char *damage = salvage_poison(path);
	bt_value *params;
	const bt_value *infos = NULL;
	int error = -EBADMSG;

	if (damage) {
		*reterr_text = damage;
		return error;
	}
	params = inputs_of(path);
	if (can_be_opened(graph, params))
		infos = query(source_class(&graph->branches[0].classes, TRACE_CTF),
			      "babeltrace.trace-infos", params);
	if (infos) {
		take_infos(graph, infos);
		error = 0;
	} else {
		*reterr_text = sink_thread_error();
		bt_current_thread_clear_error();
	}
	bt_value_put_ref(infos);
	bt_value_put_ref(params);
	return error;
}

/* The trace's UUID, as the library groups folders by; NULL: none. The caller frees. */
static char *group_of(struct graph *graph, const char *path)
{
	bt_value *params = memory_check(bt_value_map_create());
	const bt_value *info, *value = NULL;
	char *group = NULL;

	memory_check(bt_value_map_insert_string_entry(params, "type", "directory") ||
				     bt_value_map_insert_string_entry(params, "input", path)
			     ? NULL
			     : params);
	info = query(source_class(&graph->branches[0].classes, TRACE_CTF),
		     "babeltrace.support-info", params);
	if (!info)
		bt_current_thread_clear_error();
	else if (bt_value_is_map(info))
		value = bt_value_map_borrow_entry_value_const(info, "group");
	if (value && bt_value_is_string(value))
		group = memory_copy(bt_value_string_get(value));
	bt_value_put_ref(info);
	bt_value_put_ref(params);
	return group;
}

/*
 * A golden trace is short: it is read through. What is wrong with it is told when it is read for
 * good.
 */
static int ask_text(struct graph *graph, const char *path, char **reterr_text)
{
	FILE *file = fopen(path, "re");
	struct text_parser *parser;
	struct text_line line;
	char *error_text = NULL;
	int64_t begin_ns = 0, end_ns = 0;

	if (!file) {
		int error = errno;

		*reterr_text = memory_copy(strerror(error));
		return -error;
	}
	parser = text_parser_new(path, file);
	while (text_parser_next(parser, &line, &error_text) > 0) {
		if (!begin_ns)
			begin_ns = line.ns;
		end_ns = line.ns;
	}
	free(error_text);
	text_parser_free(parser);
	add_span(graph, begin_ns, end_ns);
	return 0;
}

static int ask(struct graph *graph, const struct input *input, char **reterr_text)
{
	switch (input->kind) {
	case TRACE_CTF:
		return ask_ctf(graph, input->path, reterr_text);
	case TRACE_TEXT:
		return ask_text(graph, input->path, reterr_text);
	default:
		graph->span.is_known = false;
		return 0;
	}
}

/* Tells what is missing, to the user and to the report. */
static void miss(struct graph *graph, void (*say)(const char *line), char *line)
{
	say(line);
	sink_incomplete(graph->sink, line);
	graph->failures++;
	free(line);
}

/* Whether the trace can be read, wholly or in part. */
static bool prepare(struct graph *graph, struct input *input, void (*say)(const char *line))
{
	_cleanup_free_ char *text = NULL, *damage = NULL, *again = NULL;

	if (ask(graph, input, &text)) {
		if (input->kind == TRACE_CTF)
			input->salvage = salvage_make(input->path, &damage);
		if (input->salvage && !ask_ctf(graph, input->salvage, &again)) {
			miss(graph, say,
			     memory_format("%s: the trace is read in part: %s", input->path,
					   damage));
			input->path = input->salvage;
		} else {
			miss(graph, say,
			     memory_format("%s: the trace cannot be read: %s", input->path, text));
			return false;
		}
	}
	if (input->kind == TRACE_CTF)
		input->group = group_of(graph, input->path);
	return true;
}

/* ---- building ---- */

static int find_plugin(const char *name, const bt_plugin **ret_plugin)
{
	return bt_plugin_find(name, BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, ret_plugin) ==
			       BT_PLUGIN_FIND_STATUS_OK
		       ? 0
		       : -ENOENT;
}

static int find_classes(struct classes *classes, char **reterr_text)
{
	classes->text = text_source_class_new();
	if (classes->text && !find_plugin("ctf", &classes->ctf) &&
	    !find_plugin("utils", &classes->utils) && source_class(classes, TRACE_CTF) &&
	    source_class(classes, TRACE_LIVE) &&
	    bt_plugin_borrow_filter_component_class_by_name_const(classes->utils, "muxer"))
		return 0;
	bt_current_thread_clear_error();
	*reterr_text = memory_format("babeltrace2's plugins ctf and utils are not found "
				     "(BABELTRACE_PLUGIN_PATH says where they are)");
	return -ENOENT;
}

static void classes_done(struct classes *classes)
{
	bt_component_class_source_put_ref(classes->text);
	bt_plugin_put_ref(classes->ctf);
	bt_plugin_put_ref(classes->utils);
}

/* Those of the source's ports that are the branch's. */
static int connect_ports(struct branch *branch, const bt_component_source *source)
{
	uint64_t count = bt_component_source_get_output_port_count(source);

	for (uint64_t i = 0; i < count; i++) {
		/* The muxer makes a new port whenever its last one is taken. */
		uint64_t last = bt_component_filter_get_input_port_count(branch->muxer) - 1;

		if (branch->ports++ % branch->count != branch->number)
			continue;
		if (bt_graph_connect_ports(
			    branch->graph,
			    bt_component_source_borrow_output_port_by_index_const(source, i),
			    bt_component_filter_borrow_input_port_by_index_const(branch->muxer,
										 last),
			    NULL))
			return -EIO;
	}
	return 0;
}

static bt_value *source_params(const struct input *input)
{
	bt_value *params;

	if (input->kind == TRACE_TEXT) {
		params = memory_check(bt_value_map_create());
		memory_check(bt_value_map_insert_string_entry(params, "path", input->path)
				     ? NULL
				     : params);
		return params;
	}
	params = inputs_of(input->path);
	if (input->kind == TRACE_LIVE)
		memory_check(
			bt_value_map_insert_string_entry(params, "session-not-found-action", "end")
				? NULL
				: params);
	return params;
}

/* The chunks of a rotated session are one trace in several folders. */
static void add_group(struct graph *graph, const struct input *first, bt_value *params)
{
	bt_value *paths = bt_value_map_borrow_entry_value(params, "inputs");

	for (size_t i = 0; i < graph->input_count; i++) {
		struct input *input = &graph->inputs[i];

		if (input->added || !input->group || !first->group ||
		    strcmp(input->group, first->group))
			continue;
		input->added = true;
		memory_check(bt_value_array_append_string_element(paths, input->path) ? NULL
										      : params);
	}
}

static int add_sources(struct graph *graph, struct branch *branch)
{
	int error = 0;

	for (size_t i = 0; i < graph->input_count; i++)
		graph->inputs[i].added = false;
	for (size_t i = 0; i < graph->input_count && !error; i++) {
		struct input *input = &graph->inputs[i];
		_cleanup_free_ char *name = memory_format("trace %zu", i);
		const bt_component_source *source;
		bt_value *params;

		if (input->added)
			continue;
		input->added = true;
		params = source_params(input);
		if (input->kind == TRACE_CTF)
			add_group(graph, input, params);
		error = bt_graph_add_source_component(branch->graph,
						      source_class(&branch->classes, input->kind),
						      name, params, BT_LOGGING_LEVEL_NONE, &source)
				? -EIO
				: connect_ports(branch, source);
		bt_value_put_ref(params);
	}
	return error;
}

static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator,
								  void *data)
{
	struct graph *graph = data;

	graph->status = sink_consume(graph->sink, iterator);
	switch (graph->status) {
	case SINK_OK:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_OK;
	case SINK_AGAIN:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_AGAIN;
	case SINK_END:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
	default:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_ERROR;
	}
}

static int build_branch(struct graph *graph, struct branch *branch)
{
	const bt_component_sink *sink = NULL;
	int error;

	branch->graph = memory_check(bt_graph_create(0));
	if (bt_graph_add_filter_component(branch->graph,
					  bt_plugin_borrow_filter_component_class_by_name_const(
						  branch->classes.utils, "muxer"),
					  "muxer", NULL, BT_LOGGING_LEVEL_NONE, &branch->muxer))
		return -EIO;
	error = add_sources(graph, branch);
	if (error)
		return error;
	if (graph->lanes)
		sink = lanes_add(graph->lanes, branch->graph);
	else if (bt_graph_add_simple_sink_component(branch->graph, "analysis", NULL, consume, NULL,
						    graph, &sink))
		sink = NULL;
	if (!sink ||
	    bt_graph_connect_ports(
		    branch->graph,
		    bt_component_filter_borrow_output_port_by_index_const(branch->muxer, 0),
		    bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL))
		return -EIO;
	return 0;
}

/* What the stream files of a folder take, nearly. */
static uint64_t bytes_of(const char *folder)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	struct stat status;
	uint64_t bytes = 0;

	while (entries && (entry = readdir(entries)))
		if (!fstatat(dirfd(entries), entry->d_name, &status, 0) && S_ISREG(status.st_mode))
			bytes += (uint64_t)status.st_size;
	if (entries)
		(void)closedir(entries);
	return bytes;
}

/* One, unless all inputs are folders, large enough, and have streams to share out. */
static size_t branches_worth(const struct graph *graph)
{
	uint64_t bytes = 0;
	size_t count;

	for (size_t i = 0; i < graph->input_count; i++) {
		if (graph->inputs[i].kind != TRACE_CTF)
			return 1;
		bytes += bytes_of(graph->inputs[i].path);
	}
	count = lanes_worth(graph->streams);
	if (count > bytes / BYTES_A_LANE)
		count = (size_t)(bytes / BYTES_A_LANE);
	return count > 1 ? count : 1;
}

static int build(struct graph *graph, char **reterr_text)
{
	size_t count = branches_worth(graph);
	int error = 0;

	if (count > 1)
		graph->lanes = lanes_new();
	graph->branches =
		memory_check(reallocarray(graph->branches, count, sizeof(graph->branches[0])));
	for (size_t i = 0; i < count && !error; i++) {
		struct branch *branch = &graph->branches[i];

		if (i) {
			*branch = (struct branch){.number = i};
			graph->branch_count++;
			error = find_classes(&branch->classes, reterr_text);
		}
		branch->count = count;
		if (error)
			break;
		error = build_branch(graph, branch);
		if (error)
			*reterr_text = sink_thread_error();
		bt_current_thread_clear_error();
		if (!error && graph->lanes)
			sink_add_account(graph->sink, lanes_account(graph->lanes, i));
	}
	if (!error && graph->lanes) {
		error = lanes_start(graph->lanes);
		if (error)
			*reterr_text = memory_format("no thread: %s", strerror(-error));
	}
	return error;
}

static void input_done(struct input *input)
{
	if (input->salvage)
		salvage_remove(input->salvage);
	free(input->salvage);
	free(input->group);
}

int graph_new(const struct trace_places *places, struct sink *sink, void (*say)(const char *line),
	      struct graph **ret_graph, char **reterr_text)
{
	struct graph *graph = memory_new(sizeof(*graph));
	int error;

	graph->sink = sink;
	graph->span.is_known = true;
	graph->branches = memory_new(sizeof(graph->branches[0]));
	graph->branch_count = 1;
	error = find_classes(&graph->branches[0].classes, reterr_text);
	graph->inputs = memory_new(places->count * sizeof(graph->inputs[0]));
	for (size_t i = 0; i < places->count && !error; i++) {
		struct input *input = &graph->inputs[graph->input_count];

		*input = (struct input){.kind = places->places[i].kind,
					.path = places->places[i].path};
		if (prepare(graph, input, say))
			graph->input_count++;
		else
			input_done(input);
	}
	if (!error && !graph->input_count) {
		*reterr_text = memory_format("no trace can be read");
		error = -ENODATA;
	}
	if (!error)
		error = build(graph, reterr_text);
	if (error)
		graph_free(graph);
	else
		*ret_graph = graph;
	return error;
}

struct graph *graph_free(struct graph *graph)
{
	if (!graph)
		return NULL;
	graph_stop(graph);
	lanes_free(graph->lanes);
	for (size_t i = 0; i < graph->branch_count; i++) {
		bt_graph_put_ref(graph->branches[i].graph);
		classes_done(&graph->branches[i].classes);
	}
	for (size_t i = 0; i < graph->input_count; i++)
		input_done(&graph->inputs[i]);
	free(graph->inputs);
	free(graph->branches);
	free(graph);
	return NULL;
}

size_t graph_failures(const struct graph *graph)
{
	return graph->failures;
}

void graph_span(const struct graph *graph, struct graph_span *ret_span)
{
	*ret_span = graph->span;
}

static enum sink_status step_lanes(struct graph *graph)
{
	struct decoded decoded;

	for (int i = 0; i < STEP_EVENTS; i++) {
		if (!lanes_next(graph->lanes, &decoded)) {
			graph_stop(graph);
			return sink_end(graph->sink, lanes_error(graph->lanes));
		}
		if (sink_place(graph->sink, &decoded) != SINK_OK) {
			graph_stop(graph);
			return sink_end(graph->sink, sink_error(graph->sink));
		}
	}
	return SINK_OK;
}

enum sink_status graph_step(struct graph *graph)
{
	if (graph->lanes)
		return step_lanes(graph);
	graph->status = SINK_OK;
	switch (bt_graph_run_once(graph->branches[0].graph)) {
	case BT_GRAPH_RUN_ONCE_STATUS_OK:
		return SINK_OK;
	case BT_GRAPH_RUN_ONCE_STATUS_AGAIN:
		return SINK_AGAIN;
	case BT_GRAPH_RUN_ONCE_STATUS_END:
		return SINK_END;
	default:
		/* Before the sink had its first batch: its iterator could not be made. */
		if (graph->status == SINK_OK)
			sink_break(graph->sink);
		bt_current_thread_clear_error();
		return SINK_ERROR;
	}
}

void graph_stop(struct graph *graph)
{
	if (graph->lanes)
		lanes_stop(graph->lanes);
}

/* Lanes are never waited for long: they read files. */
void graph_interrupt(struct graph *graph)
{
	if (!graph->lanes)
		bt_interrupter_set(bt_graph_borrow_default_interrupter(graph->branches[0].graph));
}
