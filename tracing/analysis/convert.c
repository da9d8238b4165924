// SPDX-License-Identifier: MIT
/* A golden trace as CTF (convert.h). Called by slipstream-analyze. */
#include "tracing/analysis/convert.h"

#include <babeltrace2/babeltrace.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <time.h>

#include "memory.h"
#include "tracing/analysis/graph_inputs.h"
#include "tracing/analysis/sink.h"

#define SECOND INT64_C(1000000000)

/* "" unknown. LTTng takes it as the id of its clock, too. */
static void read_boot_id(char text[37])
{
	_cleanup_close_ int descriptor =
		open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	text[0] = '\0';
	if (descriptor >= 0 && read(descriptor, text, 36) == 36)
		text[36] = '\0';
	else
		text[0] = '\0';
}

static int64_t clock_offset(void)
{
	struct timespec real, monotonic;

	(void)clock_gettime(CLOCK_MONOTONIC, &monotonic);
	(void)clock_gettime(CLOCK_REALTIME, &real);
	return ((int64_t)real.tv_sec - (int64_t)monotonic.tv_sec) * SECOND + real.tv_nsec -
	       monotonic.tv_nsec;
}

static void check(int status)
{
	memory_check(status ? NULL : &status);
}

static bt_value *source_params(const char *file)
{
	bt_value *params = memory_check(bt_value_map_create());
	char boot_id[37];

	read_boot_id(boot_id);
	check(bt_value_map_insert_string_entry(params, "path", file));
	if (*boot_id) {
		check(bt_value_map_insert_string_entry(params, "clock-uuid", boot_id));
		check(bt_value_map_insert_signed_integer_entry(params, "clock-offset-ns",
							       clock_offset()));
	}
	return params;
}

static bt_value *sink_params(const char *folder)
{
	bt_value *params = memory_check(bt_value_map_create());

	check(bt_value_map_insert_string_entry(params, "path", folder));
	check(bt_value_map_insert_bool_entry(params, "assume-single-trace", BT_TRUE));
	check(bt_value_map_insert_bool_entry(params, "quiet", BT_TRUE));
	return params;
}

static int build(bt_graph *graph, const struct graph_classes *classes, const char *file,
		 const char *folder)
{
	const bt_component_class_sink *sink_class =
		bt_plugin_borrow_sink_component_class_by_name_const(classes->ctf, "fs");
	bt_value *from = source_params(file), *to = sink_params(folder);
	const bt_component_source *source;
	const bt_component_sink *sink;
	int r = -EIO;

	if (sink_class &&
	    !bt_graph_add_source_component(graph, classes->text, "text", from,
					   BT_LOGGING_LEVEL_NONE, &source) &&
	    !bt_graph_add_sink_component(graph, sink_class, "ctf", to, BT_LOGGING_LEVEL_NONE,
					 &sink) &&
	    !bt_graph_connect_ports(
		    graph, bt_component_source_borrow_output_port_by_index_const(source, 0),
		    bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL))
		r = 0;
	bt_value_put_ref(from);
	bt_value_put_ref(to);
	return r;
}

int convert_text(const char *file, const char *folder, char **reterr_text)
{
	struct graph_classes classes = {0};
	int r = graph_classes_find(&classes, reterr_text);
	bt_graph *graph;

	if (r) {
		graph_classes_done(&classes);
		return r;
	}
	graph = memory_check(bt_graph_create(0));
	r = build(graph, &classes, file, folder);
	if (!r && bt_graph_run(graph) != BT_GRAPH_RUN_STATUS_OK)
		r = -EIO;
	if (r)
		*reterr_text = sink_thread_error_of_trace();
	bt_current_thread_clear_error();
	bt_graph_put_ref(graph);
	graph_classes_done(&classes);
	return r;
}
