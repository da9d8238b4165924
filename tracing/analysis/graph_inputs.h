// SPDX-License-Identifier: MIT
/*
 * Graph, inputs: which of the traces that were found can be read, wholly or in part, and what they tell before they are
 * read. Of graph.c only, and in its thread.
 */
#ifndef SLIPSTREAM_TRACING_GRAPH_INPUTS_H
#define SLIPSTREAM_TRACING_GRAPH_INPUTS_H

#include <babeltrace2/babeltrace.h>

#include "trace_find.h"
#include "tracing/analysis/graph.h"

/* Component classes. Each branch of a graph has its own: references to them are counted without locks. */
struct graph_classes {
	const bt_plugin *ctf, *utils;
	const bt_component_class_source *text;
};

/* 0 or -errno with one line in *reterr_text (the caller frees). Ended by graph_classes_done(), also then. */
int graph_classes_find(struct graph_classes *classes, char **reterr_text);
void graph_classes_done(struct graph_classes *classes);
const bt_component_class_source *graph_source_class(const struct graph_classes *classes,
						    enum trace_kind kind);

/* A trace that is read. */
struct graph_input {
	enum trace_kind kind;
	const char *name; /* the path of the place */
	const char *path; /* the same, or `salvage` */
	char *salvage;    /* temporary folder with what can be read of it; NULL: all can */
	char *group;      /* of folders: those of one group are one trace; NULL: alone */
	bool added;
};

struct graph_inputs {
	struct graph_input *items;
	size_t count;
	size_t failures; /* left out, or read in part */
	size_t streams;  /* in folders */
	struct graph_span span;
};

/*
 * Those of `places` that can be read, into zeroed `inputs`; of others one line goes to `say` and to the sink. 0, or -ENODATA: none
 * can. The places must outlive them.
 */
int graph_inputs_find(struct graph_inputs *inputs, const struct graph_classes *classes,
		      const struct trace_places *places, struct sink *sink,
		      void (*say)(const char *line));
void graph_inputs_done(struct graph_inputs *inputs);

/* Parameters of the library's trace reader: one path, to which others can be added. The caller puts the reference. */
bt_value *graph_input_paths(const char *path);

#endif
