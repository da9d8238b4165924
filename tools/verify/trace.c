// SPDX-License-Identifier: MIT
/*
 * CTF to verify.h, through the analysis (tracing/analysis/sink.h), as a consumer of its events. Called
 * by main.c. Relies on babeltrace2.
 */
#include "verify/verify.h"

#include <errno.h>
#include <inttypes.h>

#include "command.h"
#include "memory.h"
#include "text.h"
#include "tracing/analysis/graph.h"

static int take(void *data, const struct model *model, const struct analysis_event *event,
		char **reterr_text)
{
	(void)model;
	(void)reterr_text;
	verify_take(data, event->process, event->id, event->payload);
	return 0;
}

static void say_lost(struct verify *verify, uint64_t count, const char *what)
{
	if (count)
		verify_incomplete(verify,
				  memory_format("incomplete: the tracer lost %" PRIu64 " %s%s",
						count, what, count == 1 ? "" : "s"));
}

static int finish(void *data, const struct model *model, const struct analysis_end *end,
		  char **reterr_text)
{
	(void)reterr_text;
	say_lost(data, end->discarded, "event");
	say_lost(data, end->discarded_packets, "packet");
	for (size_t i = 0; i < end->note_count; i++)
		verify_incomplete(data, memory_format("incomplete: %s", end->notes[i]));
	for (size_t i = 0; i < model_process_count(model); i++) {
		const struct model_process *process = model_process(model, (uint32_t)i);
		_cleanup_free_ char *name = memory_format("%s%sprocess %" PRIu32, process->host,
							  *process->host ? ", " : "", process->pid);

		verify_name_process(data, (uint32_t)i, name);
	}
	return 0;
}

/* What it works on is the caller's. */
static void leave(void *data)
{
	(void)data;
}

/* Foreign text may be in it. */
static void say(const char *line)
{
	_cleanup_free_ char *text = text_printable(line, false);

	command_say("%s", text);
}

static int run(struct graph *graph, const struct sink *sink, char **reterr_text)
{
	enum sink_status status;

	do
		status = graph_step(graph);
	while (status == SINK_OK || status == SINK_AGAIN);
	graph_stop(graph);
	if (status == SINK_END && !graph_failures(graph))
		return 0;
	*reterr_text = memory_copy(sink_error(sink) ?: "a part of the trace cannot be read");
	return -EBADMSG;
}

int verify_read_trace(struct verify *verify, const char *path, char **reterr_text)
{
	static const struct consumer_ops ops = {
		.name = "verify", .event = take, .finish = finish, .free = leave};
	struct trace_places places = {0};
	struct sink *sink = sink_new();
	struct graph *graph;
	int status;

	trace_find(path, &places);
	sink_add(sink, (struct consumer){.ops = &ops, .state = verify});
	status = graph_new(&places, sink, say, &graph, reterr_text);
	if (!status) {
		status = run(graph, sink, reterr_text);
		sink_free(sink); /* its reader looks at what is the graph's */
		graph_free(graph);
	} else {
		if (!*reterr_text)
			*reterr_text = memory_format("%s: no trace can be read", path);
		sink_free(sink);
	}
	trace_places_done(&places);
	return status;
}
