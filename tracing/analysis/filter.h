// SPDX-License-Identifier: MIT
/*
 * filter.slipstream.sync: passes on waits only, as events `slipstream_sync:wait` whose fields are
 * words, so that any sink of text shows them to people. No parameters. Waits come in order, each as
 * soon as its names are known (held_waits.h): at most two seconds of the trace, or 4096 waits,
 * later. What the tracer lost is passed on. Methods for the plugin's table.
 */
#ifndef SLIPSTREAM_TRACING_FILTER_H
#define SLIPSTREAM_TRACING_FILTER_H

#include <babeltrace2/babeltrace.h>

bt_component_class_initialize_method_status
filter_initialize(bt_self_component_filter *self,
		  bt_self_component_filter_configuration *configuration, const bt_value *params,
		  void *data);
bt_message_iterator_class_initialize_method_status
filter_iterator_initialize(bt_self_message_iterator *self,
			   bt_self_message_iterator_configuration *configuration,
			   bt_self_component_port_output *port);
bt_message_iterator_class_next_method_status filter_iterator_next(bt_self_message_iterator *self,
								  bt_message_array_const messages,
								  uint64_t capacity,
								  uint64_t *count);
void filter_iterator_finalize(bt_self_message_iterator *self);

#endif
