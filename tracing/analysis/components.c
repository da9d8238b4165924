// SPDX-License-Identifier: MIT
/*
 * Sink components (components.h): struct sink behind babeltrace2's methods. Where babeltrace2 ends
 * before the trace does (Ctrl-C, an error elsewhere in the graph), the consumers finish with what
 * they have when the component goes.
 */
#include "tracing/analysis/components.h"

#include "memory.h"
#include "report_style.h"
#include "tracing/analysis/component_params.h"
#include "tracing/analysis/consumers.h"
#include "tracing/analysis/report_consumer.h"

struct component {
	struct sink *sink;
	bt_message_iterator *iterator;
	const bt_value *params; /* a reference: the settings point into it */
	struct report_output output;
	struct report_select select;
};

static struct component *component_of(bt_self_component_sink *self)
{
	return bt_self_component_get_data(bt_self_component_sink_as_self_component(self));
}

static struct component *component_new(const bt_value *params)
{
	struct component *component = memory_new(sizeof(*component));

	component->sink = sink_new();
	component->params = params;
	bt_value_get_ref(params);
	report_style_init(&component->output, STDOUT_FILENO);
	component->output.text_stream = stdout;
	component->output.is_of_trace = true;
	report_select_init(&component->select);
	return component;
}

static void component_free(struct component *component)
{
	bt_message_iterator_put_ref(component->iterator);
	sink_free(component->sink);
	bt_value_put_ref(component->params);
	free(component);
}

/* Takes the component and, on error, its text over. */
static bt_component_class_initialize_method_status finish_initialize(bt_self_component_sink *self,
								     struct component *component,
								     int error, char *error_text)
{
	bt_self_component *self_component = bt_self_component_sink_as_self_component(self);

	if (error)
		BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(self_component, "%s",
								    error_text);
	free(error_text);
	if (error || bt_self_component_sink_add_input_port(self, "in", NULL, NULL) !=
			     BT_SELF_COMPONENT_ADD_PORT_STATUS_OK) {
		component_free(component);
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	}
	bt_self_component_set_data(self_component, component);
	return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

bt_component_class_initialize_method_status
report_initialize(bt_self_component_sink *self, bt_self_component_sink_configuration *configuration,
		  const bt_value *params, void *data)
{
	struct component *component = component_new(params);
	char *error_text = NULL;
	int error = params_report(params, &component->output, &component->select, &error_text);

	(void)configuration;
	(void)data;
	if (!error)
		error = report_output_prepare(&component->output, &error_text);
	if (!error)
		sink_add(component->sink,
			 report_consumer_new(&(struct report_request){
				 .output = &component->output, .select = &component->select}));
	return finish_initialize(self, component, error, error_text);
}

/* A component that writes one file. */
static bt_component_class_initialize_method_status
file_initialize(bt_self_component_sink *self, const bt_value *params, const char *name)
{
	struct component *component = component_new(params);
	const char *path;
	char *error_text = NULL;
	int error = params_path(params, &path, &error_text);
	struct consumer consumer;

	if (!error)
		error = consumer_create(name, path, &consumer, &error_text);
	if (!error)
		sink_add(component->sink, consumer);
	return finish_initialize(self, component, error, error_text);
}

bt_component_class_initialize_method_status
timeline_initialize(bt_self_component_sink *self,
		    bt_self_component_sink_configuration *configuration, const bt_value *params,
		    void *data)
{
	(void)configuration;
	(void)data;
	return file_initialize(self, params, "timeline");
}

bt_component_class_initialize_method_status
html_initialize(bt_self_component_sink *self, bt_self_component_sink_configuration *configuration,
		const bt_value *params, void *data)
{
	(void)configuration;
	(void)data;
	return file_initialize(self, params, "html");
}

bt_component_class_sink_graph_is_configured_method_status
component_graph_is_configured(bt_self_component_sink *self)
{
	struct component *component = component_of(self);

	if (bt_message_iterator_create_from_sink_component(
		    self, bt_self_component_sink_borrow_input_port_by_index(self, 0),
		    &component->iterator) !=
	    BT_MESSAGE_ITERATOR_CREATE_FROM_SINK_COMPONENT_STATUS_OK)
		return BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_ERROR;
	return BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_OK;
}

bt_component_class_sink_consume_method_status component_consume(bt_self_component_sink *self)
{
	struct component *component = component_of(self);

	switch (sink_consume(component->sink, component->iterator)) {
	case SINK_OK:
		return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_OK;
	case SINK_AGAIN:
		return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_AGAIN;
	case SINK_END:
		return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_END;
	default:
		BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(
			bt_self_component_sink_as_self_component(self), "%s",
			sink_error(component->sink));
		return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_ERROR;
	}
}

void component_finalize(bt_self_component_sink *self)
{
	struct component *component = component_of(self);

	if (component->iterator && sink_events(component->sink))
		(void)sink_finish(component->sink, true, NULL);
	component_free(component);
}
