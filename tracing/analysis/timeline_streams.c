// SPDX-License-Identifier: MIT
/*
 * Timeline, streams (timeline_streams.h). An arrow is written together with the operation it goes to, when
 * that ends: the slices at both ends are then sure to be in the file, or to come.
 */
#include "tracing/analysis/timeline_streams.h"

#include <inttypes.h>

#include "memory.h"
#include "tracing/analysis/timeline_words.h"

#define NEVER UINT64_MAX /* number of an operation that no `completed` reaches */

static int64_t later(int64_t left, int64_t right)
{
	return left > right ? left : right;
}

static int64_t earlier(int64_t left, int64_t right)
{
	return left < right ? left : right;
}

static void write_edge(struct timeline_drawing *drawing, const struct timeline_edge *edge,
		       struct timeline_track track, int64_t begin_ns, int64_t end_ns)
{
	/* Inside both: after each has begun. */
	int64_t to = earlier(later(begin_ns, edge->earliest_ns) + 1, end_ns - 1);
	int64_t from = later(earlier(to, edge->latest_ns), edge->earliest_ns);

	timeline_flow(&drawing->file, edge->is_join ? "join" : "stream wait",
		      (struct timeline_point){edge->track, from},
		      (struct timeline_point){track, to});
}

static uint64_t since_origin(const struct timeline_drawing *drawing, int64_t ns)
{
	int64_t origin_ns = drawing->file.origin_ns;

	return ns > origin_ns ? (uint64_t)ns - (uint64_t)origin_ns : 0;
}

/* Draws the operation of a lane, from its submission to `ns`, and empties the lane. */
static void draw_operation(struct timeline_drawing *drawing, const struct model *model,
			   struct timeline_stream *stream, struct timeline_lane *lane, int64_t ns,
			   bool is_complete)
{
	const struct timeline_operation *operation = &lane->operation;
	int64_t end_ns = later(ns, operation->begin_ns + 2); /* room for arrows */
	struct timeline_track track = timeline_lane(&drawing->tracks, stream, lane);
	const struct timeline_value values[] = {
		{"number", operation->number},
		{"bytes", operation->submit.bytes},
		{"submitted_ns", since_origin(drawing, operation->begin_ns)},
		/* Device times are not measured: this is when the host knew, null if it never did. */
		{"known_complete_ns", is_complete ? since_origin(drawing, end_ns) : UINT64_MAX},
	};

	timeline_fixed_slice(&drawing->file, track, operation->begin_ns, end_ns,
			     timeline_fixed_operation(&drawing->texts, model, stream->process,
						      &operation->submit),
			     values, ARRAY_SIZE(values));
	if (operation->submitted.track.tid)
		timeline_flow(&drawing->file, "submission", operation->submitted,
			      (struct timeline_point){
				      track, later(operation->begin_ns,
						   earlier(operation->submitted.ns, end_ns - 1))});
	for (uint32_t i = 0; i < operation->edge_count; i++)
		write_edge(drawing, &operation->edges[i], track, operation->begin_ns, end_ns);
	lane->end_ns = end_ns;
	lane->operation.number = 0;
}

/* Draws the row of what found no lane, up to `ns`. */
static void draw_rest(struct timeline_drawing *drawing, const struct model *model,
		      struct timeline_stream *stream, uint64_t completed, int64_t ns)
{
	struct timeline_lane *rest = &stream->rest;
	uint64_t first = rest->operation.number, count = stream->rest_last - first + 1;
	int64_t end_ns = later(ns, rest->operation.begin_ns);
	_cleanup_free_ char *name = NULL;
	json_t *args;

	if (!first || completed < first)
		return;
	name = memory_format("%" PRIu64 " more operation%s", count, count == 1 ? "" : "s");
	args = memory_check(json_object());
	timeline_set(args, "operations", timeline_number(count));
	timeline_set(args, "first_number", timeline_number(first));
	timeline_set(args, "first",
		     timeline_text(operation_words(model, stream->process,
						   rest->operation.submit.operation,
						   rest->operation.submit.name)));
	timeline_set(args, "known",
		     timeline_text("in flight beyond the lanes above; not drawn one by one"));
	timeline_slice(&drawing->file, timeline_lane(&drawing->tracks, stream, rest),
		       rest->operation.begin_ns, end_ns, name, "operation", args);
	rest->end_ns = end_ns;
	rest->operation.number = 0;
	if (completed < stream->rest_last) {
		rest->operation.number = completed + 1;
		rest->operation.begin_ns = end_ns;
		rest->operation.submit.name = 0; /* that of the first one is not kept */
	}
}

static void add_edge(struct timeline_operation *operation, const struct timeline_edge *edge)
{
	if (operation->edge_count < TIMELINE_ARROWS)
		operation->edges[operation->edge_count++] = *edge;
}

static void begin_operation(struct timeline_stream *stream, struct timeline_lane *lane,
			    const struct timeline_call *call, int64_t begin_ns,
			    struct timeline_point submitted)
{
	lane->operation = (struct timeline_operation){
		.number = call->event.submit.number,
		.begin_ns = begin_ns,
		.submit = call->event.submit,
		.submitted = submitted,
	};
	for (size_t i = 0; i < TIMELINE_ARROWS; i++)
		if (stream->waiting[i].number &&
		    stream->waiting[i].number <= call->event.submit.number) {
			add_edge(&lane->operation, &stream->waiting[i]);
			stream->waiting[i].number = 0;
		}
}

void timeline_submit(struct timeline_drawing *drawing, const struct model *model,
		     const struct timeline_call *call)
{
	struct timeline_stream *stream =
		timeline_stream(&drawing->tracks, call->process, call->event.submit.stream);
	struct timeline_point submitted = {call->track, call->end_ns - 1};
	int64_t begin_ns = call->begin_ns;
	struct timeline_lane *lane;

	if (!stream || !call->event.submit.number || call->event.submit.number == NEVER)
		return;
	stream->submitted[stream->submissions++ % TIMELINE_ARROWS] = submitted;
	lane = timeline_free_lane(stream, &begin_ns);
	if (lane) {
		(void)timeline_lane(&drawing->tracks, stream,
				    lane); /* arrows from it name its row */
		begin_operation(stream, lane, call, begin_ns, submitted);
		return;
	}
	if (!stream->rest.operation.number) {
		begin_operation(stream, &stream->rest, call, later(begin_ns, stream->rest.end_ns),
				submitted);
		stream->rest_last = call->event.submit.number;
	} else if (call->event.submit.number > stream->rest_last) {
		stream->rest_last = call->event.submit.number;
	}
}

void timeline_completed(struct timeline_drawing *drawing, const struct model *model,
			struct timeline_stream *stream, uint64_t number, int64_t ns)
{
	for (size_t i = 0; i < TIMELINE_LANES; i++)
		if (stream->lanes[i].operation.number &&
		    stream->lanes[i].operation.number <= number)
			draw_operation(drawing, model, stream, &stream->lanes[i], ns, true);
	draw_rest(drawing, model, stream, number, ns);
}

void timeline_end_stream(struct timeline_drawing *drawing, const struct model *model,
			 struct timeline_stream *stream, int64_t ns)
{
	for (size_t i = 0; i < TIMELINE_LANES; i++)
		if (stream->lanes[i].operation.number)
			draw_operation(drawing, model, stream, &stream->lanes[i], ns, false);
	draw_rest(drawing, model, stream, NEVER, ns);
}

void timeline_ordered(struct timeline_drawing *drawing, struct timeline_stream *stream,
		      uint64_t number, const struct timeline_stream *of, uint64_t of_number,
		      int64_t ns, bool is_join)
{
	struct timeline_edge edge = {.number = number, .latest_ns = ns - 1, .is_join = is_join};
	const struct timeline_lane *source = NULL;

	for (size_t i = 0; i < TIMELINE_LANES && of_number; i++)
		if (of->lanes[i].operation.number == of_number)
			source = &of->lanes[i];
	if (!source || !source->track.tid)
		return; /* not in flight any more, or not drawn by itself */
	edge.track = source->track;
	edge.earliest_ns = source->operation.begin_ns;
	for (size_t i = 0; i < TIMELINE_LANES; i++)
		if (stream->lanes[i].operation.number == number) {
			add_edge(&stream->lanes[i].operation, &edge);
			return;
		}
	stream->waiting[stream->waiting_count++ % TIMELINE_ARROWS] = edge;
}

void timeline_busy(struct timeline_drawing *drawing, struct timeline_stream *stream,
		   int64_t begin_ns, int64_t end_ns, const struct timeline_fixed *text)
{
	struct timeline_lane *lane = timeline_free_lane(stream, &begin_ns);

	if (!lane || begin_ns >= end_ns)
		return;
	timeline_fixed_slice(&drawing->file, timeline_lane(&drawing->tracks, stream, lane),
			     begin_ns, end_ns, text, NULL, 0);
	lane->end_ns = end_ns;
}

bool timeline_last_submission(const struct timeline_stream *stream, int64_t ns,
			      struct timeline_point *ret_point)
{
	for (uint64_t i = 0; i < TIMELINE_ARROWS && i < stream->submissions; i++) {
		const struct timeline_point *point =
			&stream->submitted[(stream->submissions - 1 - i) % TIMELINE_ARROWS];

		if (point->ns < ns) {
			*ret_point = *point;
			return true;
		}
	}
	return false;
}
