// SPDX-License-Identifier: MIT
/*
 * Graph (graph.h). Every trace is asked for its span first: that tells which ones can be read at
 * all, before one that cannot spoils the graph.
 */
#include "tracing/analysis/graph.h"

#include <errno.h>
#include <inttypes.h>

#include "memory.h"
#include "tracing/analysis/salvage.h"
#include "tracing/analysis/text_parse.h"
#include "tracing/analysis/text_source.h"

/* A trace that is read. */
struct input {
	enum trace_kind kind;
	const char *path; /* the caller's, or `salvage` */
	char *salvage;    /* temporary folder with what can be read of it; NULL: all can */
	char *group;      /* of folders: those of one group are one trace; NULL: alone */
	bool added;
};

struct graph {
	struct input *inputs;
	size_t input_count;
	bt_graph *graph;
	const bt_plugin *ctf, *utils;
	const bt_component_class_source *text_class;
	const bt_component_filter *muxer;
	struct sink *sink;
	enum sink_status status; /* of the last batch */
	size_t failures;
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

static const bt_component_class_source *source_class(struct graph *graph, enum trace_kind kind)
{
	return kind == TRACE_TEXT ? graph->text_class
				  : bt_plugin_borrow_source_component_class_by_name_const(
					    graph->ctf, kind == TRACE_CTF ? "fs" : "lttng-live");
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

/* Whether a folder is a trace that can be opened; its span. */
static int ask_ctf(struct graph *graph, const char *path, char **reterr_text)
{
	bt_value *params = inputs_of(path);
	const bt_value *infos =
		query(source_class(graph, TRACE_CTF), "babeltrace.trace-infos", params);
	int error = infos ? 0 : -EBADMSG;

	if (infos) {
		take_infos(graph, infos);
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
	info = query(source_class(graph, TRACE_CTF), "babeltrace.support-info", params);
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

static int connect_all(struct graph *graph, const bt_component_source *source)
{
	uint64_t count = bt_component_source_get_output_port_count(source);

	for (uint64_t i = 0; i < count; i++) {
		/* The muxer makes a new port whenever its last one is taken. */
		uint64_t last = bt_component_filter_get_input_port_count(graph->muxer) - 1;

		if (bt_graph_connect_ports(
			    graph->graph,
			    bt_component_source_borrow_output_port_by_index_const(source, i),
			    bt_component_filter_borrow_input_port_by_index_const(graph->muxer,
										 last),
			    NULL))
			return -EIO;
	}
	return 0;
}

static int add_source(struct graph *graph, enum trace_kind kind, const char *name,
		      const bt_value *params)
{
	const bt_component_source *source;

	if (bt_graph_add_source_component(graph->graph, source_class(graph, kind), name, params,
					  BT_LOGGING_LEVEL_NONE, &source))
		return -EIO;
	return connect_all(graph, source);
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

static int add_sources(struct graph *graph)
{
	int error = 0;

	for (size_t i = 0; i < graph->input_count && !error; i++) {
		struct input *input = &graph->inputs[i];
		_cleanup_free_ char *name = memory_format("trace %zu", i);
		bt_value *params;

		if (input->added)
			continue;
		input->added = true;
		params = source_params(input);
		if (input->kind == TRACE_CTF)
			add_group(graph, input, params);
		error = add_source(graph, input->kind, name, params);
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

static int build(struct graph *graph)
{
	const bt_component_sink *sink;
	int error;

	graph->graph = memory_check(bt_graph_create(0));
	if (bt_graph_add_filter_component(
		    graph->graph,
		    bt_plugin_borrow_filter_component_class_by_name_const(graph->utils, "muxer"),
		    "muxer", NULL, BT_LOGGING_LEVEL_NONE, &graph->muxer))
		return -EIO;
	error = add_sources(graph);
	if (error)
		return error;
	if (bt_graph_add_simple_sink_component(graph->graph, "analysis", NULL, consume, NULL, graph,
					       &sink) ||
	    bt_graph_connect_ports(
		    graph->graph,
		    bt_component_filter_borrow_output_port_by_index_const(graph->muxer, 0),
		    bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL))
		return -EIO;
	return 0;
}

static int find_plugins(struct graph *graph, char **reterr_text)
{
	if (bt_plugin_find("ctf", BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, &graph->ctf) ==
		    BT_PLUGIN_FIND_STATUS_OK &&
	    bt_plugin_find("utils", BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, &graph->utils) ==
		    BT_PLUGIN_FIND_STATUS_OK &&
	    bt_plugin_borrow_source_component_class_by_name_const(graph->ctf, "fs") &&
	    bt_plugin_borrow_source_component_class_by_name_const(graph->ctf, "lttng-live") &&
	    bt_plugin_borrow_filter_component_class_by_name_const(graph->utils, "muxer"))
		return 0;
	bt_current_thread_clear_error();
	*reterr_text = memory_format(
		"babeltrace2's plugins ctf and utils are not found (BABELTRACE_PLUGIN_PATH "
		"says where they are)");
	return -ENOENT;
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
	int error = find_plugins(graph, reterr_text);

	graph->sink = sink;
	graph->span.is_known = true;
	graph->text_class = text_source_class_new();
	if (!error && !graph->text_class) {
		*reterr_text = memory_format("out of memory");
		error = -ENOMEM;
	}
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
	if (!error) {
		error = build(graph);
		if (error)
			*reterr_text = sink_thread_error();
		bt_current_thread_clear_error();
	}
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
	bt_graph_put_ref(graph->graph);
	for (size_t i = 0; i < graph->input_count; i++)
		input_done(&graph->inputs[i]);
	free(graph->inputs);
	bt_component_class_source_put_ref(graph->text_class);
	bt_plugin_put_ref(graph->ctf);
	bt_plugin_put_ref(graph->utils);
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

enum sink_status graph_step(struct graph *graph)
{
	graph->status = SINK_OK;
	switch (bt_graph_run_once(graph->graph)) {
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

void graph_interrupt(struct graph *graph)
{
	bt_interrupter_set(bt_graph_borrow_default_interrupter(graph->graph));
}
