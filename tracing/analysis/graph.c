// SPDX-License-Identifier: MIT
/*
 * Graph (graph.h): built from the inputs that can be read (graph_inputs.h), one or, where it is worth it, one for each of
 * several threads that share the streams out; and run.
 */
#include "tracing/analysis/graph.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "memory.h"
#include "tracing/analysis/graph_inputs.h"
#include "tracing/analysis/lanes.h"

/*
 * So much of a trace is worth a thread (lanes.h): to open the trace once more takes some milliseconds.
 */
#define BYTES_A_LANE (UINT64_C(8) << 20)
#define STEP_EVENTS  1024

/* One graph, of one or of several that share the streams out. */
struct branch {
	struct graph_classes classes;
	bt_graph *graph;
	const bt_component_filter *muxer;
	size_t number, count; /* this one, of how many */
	size_t ports;         /* seen so far, those of other branches too */
};

struct graph {
	struct graph_inputs inputs;
	struct branch *branches;
	size_t branch_count;
	struct lanes *lanes; /* NULL: the one branch feeds the sink itself */
	struct sink *sink;
	enum sink_status status; /* of the last batch */
};

/* ---- building ---- */

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

static bt_value *source_params(const struct graph_input *input)
{
	bt_value *params;

	if (input->kind == TRACE_TEXT) {
		params = memory_check(bt_value_map_create());
		memory_check(bt_value_map_insert_string_entry(params, "path", input->path)
				     ? NULL
				     : params);
		return params;
	}
	params = graph_input_paths(input->path);
	if (input->kind == TRACE_LIVE)
		memory_check(
			bt_value_map_insert_string_entry(params, "session-not-found-action", "end")
				? NULL
				: params);
	return params;
}

/* The chunks of a rotated session are one trace in several folders. */
static void add_group(struct graph *graph, const struct graph_input *first, bt_value *params)
{
	bt_value *paths = bt_value_map_borrow_entry_value(params, "inputs");

	for (size_t i = 0; i < graph->inputs.count; i++) {
		struct graph_input *input = &graph->inputs.items[i];

		if (input->added || !input->group || !first->group ||
		    strcmp(input->group, first->group))
			continue;
		input->added = true;
		memory_check(bt_value_array_append_string_element(paths, input->path) ? NULL
										      : params);
	}
}

/*
 * What a source is called: errors tell it. The path of its trace, with a number where two would have the
 * same. The caller frees.
 */
static char *source_name(const struct graph *graph, size_t number)
{
	const char *path = graph->inputs.items[number].name;

	for (size_t i = 0; i < number; i++)
		if (!strcmp(graph->inputs.items[i].name, path))
			return memory_format("%s (%zu)", path, number);
	return memory_copy(path);
}

static int add_sources(struct graph *graph, struct branch *branch)
{
	int error = 0;

	for (size_t i = 0; i < graph->inputs.count; i++)
		graph->inputs.items[i].added = false;
	for (size_t i = 0; i < graph->inputs.count && !error; i++) {
		struct graph_input *input = &graph->inputs.items[i];
		_cleanup_free_ char *name = source_name(graph, i);
		const bt_component_source *source;
		bt_value *params;

		if (input->added)
			continue;
		input->added = true;
		params = source_params(input);
		if (input->kind == TRACE_CTF)
			add_group(graph, input, params);
		error = bt_graph_add_source_component(
				branch->graph, graph_source_class(&branch->classes, input->kind),
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

	for (size_t i = 0; i < graph->inputs.count; i++) {
		if (graph->inputs.items[i].kind != TRACE_CTF)
			return 1;
		bytes += bytes_of(graph->inputs.items[i].path);
	}
	count = lanes_worth(graph->inputs.streams);
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
			error = graph_classes_find(&branch->classes, reterr_text);
		}
		branch->count = count;
		if (error)
			break;
		error = build_branch(graph, branch);
		if (error)
			*reterr_text = sink_thread_error_of_trace();
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

int graph_new(const struct trace_places *places, struct sink *sink, void (*say)(const char *line),
	      struct graph **ret_graph, char **reterr_text)
{
	struct graph *graph = memory_new(sizeof(*graph));
	struct graph_classes *classes;
	int error;

	graph->sink = sink;
	graph->branches = memory_new(sizeof(graph->branches[0]));
	graph->branch_count = 1;
	classes = &graph->branches[0].classes;
	error = graph_classes_find(classes, reterr_text);
	if (!error)
		error = graph_inputs_find(&graph->inputs, classes, places, sink, say);
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
		graph_classes_done(&graph->branches[i].classes);
	}
	graph_inputs_done(&graph->inputs);
	free(graph->branches);
	free(graph);
	return NULL;
}

size_t graph_failures(const struct graph *graph)
{
	return graph->inputs.failures;
}

void graph_span(const struct graph *graph, struct graph_span *ret_span)
{
	*ret_span = graph->inputs.span;
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
