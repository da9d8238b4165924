// SPDX-License-Identifier: MIT
/*
 * source.slipstream.text: golden traces (text_parse.h) as messages. Parameter `path`: the file. One
 * trace for each host, with the hostname in its environment as LTTng's traces have it, and the
 * contexts vpid and vtid. The methods are for the plugin's table and for graphs that are built in
 * C.
 */
#ifndef SLIPSTREAM_TRACING_TEXT_SOURCE_H
#define SLIPSTREAM_TRACING_TEXT_SOURCE_H

#include <babeltrace2/babeltrace.h>

bt_component_class_initialize_method_status
text_source_initialize(bt_self_component_source *source,
		       bt_self_component_source_configuration *configuration,
		       const bt_value *params, void *data);
void text_source_finalize(bt_self_component_source *source);

bt_message_iterator_class_initialize_method_status
text_iterator_initialize(bt_self_message_iterator *self,
			 bt_self_message_iterator_configuration *configuration,
			 bt_self_component_port_output *port);
bt_message_iterator_class_next_method_status text_iterator_next(bt_self_message_iterator *self,
								bt_message_array_const messages,
								uint64_t capacity, uint64_t *count);
void text_iterator_finalize(bt_self_message_iterator *self);

/* The same as a component class; NULL: out of memory. */
const bt_component_class_source *text_source_class_new(void);

#endif
