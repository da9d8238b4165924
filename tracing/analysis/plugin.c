// SPDX-License-Identifier: MIT
/*
 * babeltrace-plugin-slipstream.so: what babeltrace2 finds in it. Only the 2.0 interface is used,
 * with trace IR as of MIP 0, so that later versions load it too. README.md tells how each component
 * is used.
 */
#include "tracing/analysis/components.h"
#include "tracing/analysis/filter.h"
#include "tracing/analysis/text_source.h"

BT_PLUGIN_MODULE();
BT_PLUGIN(slipstream);
BT_PLUGIN_DESCRIPTION("Implicit synchronizations of CUDA programs, as traced by slipstream");
BT_PLUGIN_LICENSE("MIT");

BT_PLUGIN_SOURCE_COMPONENT_CLASS(text, text_iterator_next);
BT_PLUGIN_SOURCE_COMPONENT_CLASS_DESCRIPTION(
	text, "Read a trace that is written as text (path=\"FILE\").");
BT_PLUGIN_SOURCE_COMPONENT_CLASS_INITIALIZE_METHOD(text, text_source_initialize);
BT_PLUGIN_SOURCE_COMPONENT_CLASS_FINALIZE_METHOD(text, text_source_finalize);
BT_PLUGIN_SOURCE_COMPONENT_CLASS_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD(text,
									  text_iterator_initialize);
BT_PLUGIN_SOURCE_COMPONENT_CLASS_MESSAGE_ITERATOR_CLASS_FINALIZE_METHOD(text,
									text_iterator_finalize);

BT_PLUGIN_FILTER_COMPONENT_CLASS(sync, filter_iterator_next);
BT_PLUGIN_FILTER_COMPONENT_CLASS_DESCRIPTION(sync, "Pass on waits only, in words.");
BT_PLUGIN_FILTER_COMPONENT_CLASS_INITIALIZE_METHOD(sync, filter_initialize);
BT_PLUGIN_FILTER_COMPONENT_CLASS_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD(
	sync, filter_iterator_initialize);
BT_PLUGIN_FILTER_COMPONENT_CLASS_MESSAGE_ITERATOR_CLASS_FINALIZE_METHOD(sync,
									filter_iterator_finalize);

BT_PLUGIN_SINK_COMPONENT_CLASS(report, component_consume);
BT_PLUGIN_SINK_COMPONENT_CLASS_DESCRIPTION(report,
					   "Rank the synchronizations of a trace (by=, limit=, "
					   "json=, output=, begin=, end=, rank=, host=, "
					   "gpu=, pid=).");
BT_PLUGIN_SINK_COMPONENT_CLASS_INITIALIZE_METHOD(report, report_initialize);
BT_PLUGIN_SINK_COMPONENT_CLASS_FINALIZE_METHOD(report, component_finalize);
BT_PLUGIN_SINK_COMPONENT_CLASS_GRAPH_IS_CONFIGURED_METHOD(report, component_graph_is_configured);

BT_PLUGIN_SINK_COMPONENT_CLASS(timeline, component_consume);
BT_PLUGIN_SINK_COMPONENT_CLASS_DESCRIPTION(
	timeline, "Write a timeline in the Chrome trace format (path=\"FILE\").");
BT_PLUGIN_SINK_COMPONENT_CLASS_INITIALIZE_METHOD(timeline, timeline_initialize);
BT_PLUGIN_SINK_COMPONENT_CLASS_FINALIZE_METHOD(timeline, component_finalize);
BT_PLUGIN_SINK_COMPONENT_CLASS_GRAPH_IS_CONFIGURED_METHOD(timeline, component_graph_is_configured);

BT_PLUGIN_SINK_COMPONENT_CLASS(html, component_consume);
BT_PLUGIN_SINK_COMPONENT_CLASS_DESCRIPTION(
	html, "Write one page with ranking, timeline and stacks (path=\"FILE\").");
BT_PLUGIN_SINK_COMPONENT_CLASS_INITIALIZE_METHOD(html, html_initialize);
BT_PLUGIN_SINK_COMPONENT_CLASS_FINALIZE_METHOD(html, component_finalize);
BT_PLUGIN_SINK_COMPONENT_CLASS_GRAPH_IS_CONFIGURED_METHOD(html, component_graph_is_configured);
