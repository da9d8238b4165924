// SPDX-License-Identifier: MIT
/* The sink components of the plugin: methods for its table (plugin.c). */
#ifndef SLIPSTREAM_TRACING_COMPONENTS_H
#define SLIPSTREAM_TRACING_COMPONENTS_H

#include <babeltrace2/babeltrace.h>

bt_component_class_initialize_method_status
report_initialize(bt_self_component_sink *self, bt_self_component_sink_configuration *configuration,
		  const bt_value *params, void *data);
bt_component_class_initialize_method_status
timeline_initialize(bt_self_component_sink *self,
		    bt_self_component_sink_configuration *configuration, const bt_value *params,
		    void *data);
bt_component_class_initialize_method_status
html_initialize(bt_self_component_sink *self, bt_self_component_sink_configuration *configuration,
		const bt_value *params, void *data);

/* The same for all of them. */
bt_component_class_sink_graph_is_configured_method_status
component_graph_is_configured(bt_self_component_sink *self);
bt_component_class_sink_consume_method_status component_consume(bt_self_component_sink *self);
void component_finalize(bt_self_component_sink *self);

#endif
