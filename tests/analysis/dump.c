// SPDX-License-Identifier: MIT
/*
 * A consumer for tests: writes every event that the reader made of a golden trace, with what the
 * model knows of its names. Usage: dump FILE.trace
 */
#include <inttypes.h>

#include "memory.h"
#include "tracing/analysis/sink.h"
#include "tracing/analysis/text_source.h"
#include "tracing/event_table.h"

static void show_field(const struct trace_field *field, const void *payload)
{
	const void *place = (const char *)payload + field->offset;

	switch (field->type) {
	case TRACE_FIELD_U32:
		printf(" %s=%" PRIu32, field->name, *(const uint32_t *)place);
		break;
	case TRACE_FIELD_I32:
		printf(" %s=%" PRId32, field->name, *(const int32_t *)place);
		break;
	case TRACE_FIELD_U64:
		printf(" %s=%" PRIu64, field->name, *(const uint64_t *)place);
		break;
	case TRACE_FIELD_X64:
		printf(" %s=%#" PRIx64, field->name, *(const uint64_t *)place);
		break;
	case TRACE_FIELD_STRING:
		printf(" %s=\"%s\"", field->name, *(const char *const *)place);
		break;
	}
}

/* Of a wait: what the model knows of it so far. */
static void show_names(const struct model *model, const struct analysis_event *event)
{
	const struct trace_wait *wait = event->payload;
	const struct trace_def_wait *definition =
		model_find(model, event->process, TRACE_DEF_WAIT, wait->wait);
	const struct trace_def_rule *rule =
		definition ? model_find(model, event->process, TRACE_DEF_RULE, definition->rule)
			   : NULL;
	const struct trace_def_frame *frames;
	size_t count = 0;
	const char *slug = rule ? model_string(model, event->process, rule->slug) : NULL;

	frames = definition ? model_parts(model, event->process, TRACE_DEF_FRAME, definition->site,
					  &count)
			    : NULL;
	printf(" [rule %s, %zu frames", slug ? slug : "?", count);
	for (size_t i = 0; i < count; i++)
		printf(" %#" PRIx64, frames[i].offset);
	printf("]");
}

static int show(void *consumer, const struct model *model, const struct analysis_event *event,
		char **reterr_text)
{
	const struct trace_event_type *type = &trace_event_types[event->id];
	const struct model_process *process = model_process(model, event->process);

	(void)consumer;
	(void)reterr_text;
	printf("%" PRId64 " process=%" PRIu32 " host=%s pid=%" PRIu32 " tid=%" PRIu32 " %s",
	       event->ns, event->process, process->host, process->pid, event->thread, type->name);
	for (unsigned int i = 0; i < type->field_count; i++)
		show_field(&type->fields[i], event->payload);
	if (event->id == TRACE_WAIT)
		show_names(model, event);
	printf("\n");
	return 0;
}

static int finish(void *consumer, const struct model *model, const struct analysis_end *end,
		  char **reterr_text)
{
	(void)consumer;
	(void)reterr_text;
	printf("end: %" PRIu64 " events from %" PRId64 " to %" PRId64 ", %" PRIu64
	       " discarded, %zu processes\n",
	       end->events, end->begin_ns, end->end_ns, end->discarded, model_process_count(model));
	for (size_t i = 0; i < end->note_count; i++)
		printf("note: %s\n", end->notes[i]);
	if (end->broken)
		printf("broken: %s\n", end->broken);
	return 0;
}

static void nothing(void *consumer)
{
	(void)consumer;
}

static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator,
								  void *data)
{
	switch (sink_consume(data, iterator)) {
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

int main(int argc, char **argv)
{
	static const struct consumer_ops ops = {
		.name = "dump", .event = show, .finish = finish, .free = nothing};
	const bt_component_class_source *class = text_source_class_new();
	const bt_component_source *source;
	const bt_component_sink *component;
	struct sink *sink = sink_new();
	bt_graph *graph = bt_graph_create(0);
	bt_value *params = bt_value_map_create();
	bool failed;

	if (argc != 2)
		return 2;
	sink_add(sink, (struct consumer){.ops = &ops});
	bt_value_map_insert_string_entry(params, "path", argv[1]);
	failed = bt_graph_add_source_component(graph, class, "text", params, BT_LOGGING_LEVEL_NONE,
					       &source) ||
		 bt_graph_add_simple_sink_component(graph, "dump", NULL, consume, NULL, sink,
						    &component) ||
		 bt_graph_connect_ports(
			 graph, bt_component_source_borrow_output_port_by_index_const(source, 0),
			 bt_component_sink_borrow_input_port_by_index_const(component, 0), NULL) ||
		 bt_graph_run(graph);
	bt_current_thread_clear_error();
	bt_graph_put_ref(graph);
	bt_value_put_ref(params);
	bt_component_class_source_put_ref(class);
	sink_free(sink);
	return failed;
}
