// SPDX-License-Identifier: MIT
/*
 * Graph, inputs (graph_inputs.h). Every trace is asked for its span first: that tells which ones can be read at
 * all, before one that cannot spoils the graph.
 */
#include "tracing/analysis/graph_inputs.h"

#include <errno.h>

#include "memory.h"
#include "tracing/analysis/salvage.h"
#include "tracing/analysis/text_parse.h"
#include "tracing/analysis/text_source.h"

/* Who asks, and whom it tells. */
struct asking {
	const struct graph_classes *classes;
	struct graph_inputs *inputs;
	struct sink *sink;
	void (*say)(const char *line);
};

/* ---- component classes ---- */

const bt_component_class_source *graph_source_class(const struct graph_classes *classes,
						    enum trace_kind kind)
{
	return kind == TRACE_TEXT ? classes->text
				  : bt_plugin_borrow_source_component_class_by_name_const(
					    classes->ctf, kind == TRACE_CTF ? "fs" : "lttng-live");
}

static int find_plugin(const char *name, const bt_plugin **ret_plugin)
{
	return bt_plugin_find(name, BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, ret_plugin) ==
			       BT_PLUGIN_FIND_STATUS_OK
		       ? 0
		       : -ENOENT;
}

int graph_classes_find(struct graph_classes *classes, char **reterr_text)
{
	classes->text = text_source_class_new();
	if (classes->text && !find_plugin("ctf", &classes->ctf) &&
	    !find_plugin("utils", &classes->utils) && graph_source_class(classes, TRACE_CTF) &&
	    graph_source_class(classes, TRACE_LIVE) &&
	    bt_plugin_borrow_filter_component_class_by_name_const(classes->utils, "muxer"))
		return 0;
	bt_current_thread_clear_error();
	*reterr_text = memory_format("babeltrace2's plugins ctf and utils are not found "
				     "(BABELTRACE_PLUGIN_PATH says where they are)");
	return -ENOENT;
}

void graph_classes_done(struct graph_classes *classes)
{
	bt_component_class_source_put_ref(classes->text);
	bt_plugin_put_ref(classes->ctf);
	bt_plugin_put_ref(classes->utils);
}

/* ---- spans ---- */

static void add_span(struct asking *asking, int64_t begin_ns, int64_t end_ns)
{
	if (!asking->inputs->span.begin_ns || begin_ns < asking->inputs->span.begin_ns)
		asking->inputs->span.begin_ns = begin_ns;
	if (end_ns > asking->inputs->span.end_ns)
		asking->inputs->span.end_ns = end_ns;
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
static void take_infos(struct asking *asking, const bt_value *infos)
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

			asking->inputs->streams++;
			if (range && bt_value_is_map(range) && number_at(range, "begin", &begin) &&
			    number_at(range, "end", &end))
				add_span(asking, begin, end);
		}
	}
}

bt_value *graph_input_paths(const char *path)
{
	bt_value *params = memory_check(bt_value_map_create()), *inputs;

	memory_check(bt_value_map_insert_empty_array_entry(params, "inputs", &inputs) ? NULL
										      : params);
	memory_check(bt_value_array_append_string_element(inputs, path) ? NULL : params);
	return params;
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
static bool can_be_opened(struct asking *asking, const bt_value *params)
{
	bt_graph *scratch = memory_check(bt_graph_create(0));
	bool opened = !bt_graph_add_source_component(scratch,
						     graph_source_class(asking->classes, TRACE_CTF),
						     "trace", params, BT_LOGGING_LEVEL_NONE, NULL);

	bt_graph_put_ref(scratch);
	return opened;
}

/*
 * Whether a folder is a trace that can be opened; its span. The query comes second: asked for a
 * damaged trace, babeltrace2 2.0.4 aborts.
 */
static int ask_ctf(struct asking *asking, const char *path, char **reterr_text)
{
	char *damage = salvage_poison(path);
	bt_value *params;
	const bt_value *infos = NULL;
	int error = -EBADMSG;

	if (damage) {
		*reterr_text = damage;
		return error;
	}
	params = graph_input_paths(path);
	if (can_be_opened(asking, params))
		infos = query(graph_source_class(asking->classes, TRACE_CTF),
			      "babeltrace.trace-infos", params);
	if (infos) {
		take_infos(asking, infos);
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
static char *group_of(struct asking *asking, const char *path)
{
	bt_value *params = memory_check(bt_value_map_create());
	const bt_value *info, *value = NULL;
	char *group = NULL;

	memory_check(bt_value_map_insert_string_entry(params, "type", "directory") ||
				     bt_value_map_insert_string_entry(params, "input", path)
			     ? NULL
			     : params);
	info = query(graph_source_class(asking->classes, TRACE_CTF), "babeltrace.support-info",
		     params);
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
static int ask_text(struct asking *asking, const char *path, char **reterr_text)
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
	add_span(asking, begin_ns, end_ns);
	return 0;
}

static int ask(struct asking *asking, const struct graph_input *input, char **reterr_text)
{
	switch (input->kind) {
	case TRACE_CTF:
		return ask_ctf(asking, input->path, reterr_text);
	case TRACE_TEXT:
		return ask_text(asking, input->path, reterr_text);
	default:
		asking->inputs->span.is_known = false;
		return 0;
	}
}

/* Tells what is missing, to the user and to the report. */
static void miss(struct asking *asking, char *line)
{
	asking->say(line);
	sink_incomplete(asking->sink, line);
	asking->inputs->failures++;
	free(line);
}

/* Whether the trace can be read, wholly or in part. */
static bool prepare(struct asking *asking, struct graph_input *input)
{
	_cleanup_free_ char *text = NULL, *damage = NULL, *again = NULL;

	if (ask(asking, input, &text)) {
		if (input->kind == TRACE_CTF)
			input->salvage = salvage_make(input->path, &damage);
		if (input->salvage && !ask_ctf(asking, input->salvage, &again)) {
			miss(asking, memory_format("%s: the trace is read in part: %s", input->path,
						   damage));
			input->path = input->salvage;
		} else {
			miss(asking,
			     memory_format("%s: the trace cannot be read: %s", input->path, text));
			return false;
		}
	}
	if (input->kind == TRACE_CTF) {
		input->group = group_of(asking, input->path);
		trace_parts_add(sink_trace_parts(asking->sink), input->path, input->name);
	}
	return true;
}

static void input_done(struct graph_input *input)
{
	if (input->salvage)
		salvage_remove(input->salvage);
	free(input->salvage);
	free(input->group);
}

int graph_inputs_find(struct graph_inputs *inputs, const struct graph_classes *classes,
		      const struct trace_places *places, struct sink *sink,
		      void (*say)(const char *line))
{
	struct asking asking = {.classes = classes, .inputs = inputs, .sink = sink, .say = say};

	inputs->span.is_known = true;
	inputs->items = memory_new(places->count * sizeof(inputs->items[0]));
	for (size_t i = 0; i < places->count; i++) {
		struct graph_input *input = &inputs->items[inputs->count];

		*input = (struct graph_input){.kind = places->places[i].kind,
					      .name = places->places[i].path,
					      .path = places->places[i].path};
		if (prepare(&asking, input))
			inputs->count++;
		else
			input_done(input);
	}
	return inputs->count ? 0 : -ENODATA;
}

void graph_inputs_done(struct graph_inputs *inputs)
{
	for (size_t i = 0; i < inputs->count; i++)
		input_done(&inputs->items[i]);
	free(inputs->items);
}
