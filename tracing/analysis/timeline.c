// SPDX-License-Identifier: MIT
/*
 * Timeline (timeline.h): takes the events of a trace and draws them. Rows get their names at the end,
 * when all definitions have come; a slice whose definitions have not come yet (a session that
 * started late) is held back until then, as long as there are not too many.
 *
 * Called by the reader's thread only.
 */
#include "tracing/analysis/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "emit/record.h"
#include "memory.h"
#include "report.h"
#include "tracing/analysis/consumers.h"
#include "tracing/analysis/timeline_sites.h"
#include "tracing/analysis/timeline_streams.h"
#include "tracing/analysis/timeline_words.h"
#include "tracing/event_table.h"

/* Slices held back for their definitions. */
#define HELD_MAX 4096
/*
 * The file's time 0 lies this much before the first call drawn. Times must not be negative: of a call that began still earlier
 * the part before is cut.
 */
#define SLACK_NS INT64_C(1000000000)
/* A day: no call lasts longer, whatever a damaged trace says. */
#define CALL_MAX_NS UINT64_C(86400000000000)

struct timeline {
	char *path;
	struct timeline_drawing drawing;
	struct sites *sites;
	struct timeline_call *held;
	size_t held_count, held_capacity;
	uint64_t undefined;        /* slices written without all their definitions */
	struct table with_streams; /* processes that have rows of streams */
	struct table full;         /* processes that emit level full */
	const struct model *model; /* during a call */
	bool is_begun, is_ending;
};

static void timeline_free(void *consumer)
{
	struct timeline *timeline = consumer;

	if (!timeline)
		return;
	timeline_tracks_done(&timeline->drawing.tracks);
	timeline_fixed_done(&timeline->drawing.texts);
	table_done(&timeline->full);
	table_done(&timeline->with_streams);
	sites_free(timeline->sites);
	if (timeline->drawing.file.out)
		(void)fclose(timeline->drawing.file.out);
	free(timeline->path);
	free(timeline->held);
	free(timeline);
}

static int write_error(const struct timeline *timeline, int error, char **reterr_text)
{
	*reterr_text = memory_format("the timeline %s cannot be written: %s", timeline->path,
				     strerror(error));
	return -error;
}

/* ---- threads ---- */

static void draw_wait(struct timeline *timeline, const struct timeline_call *call)
{
	struct timeline_drawing *drawing = &timeline->drawing;
	const struct trace_wait *wait = &call->event.wait;
	const struct timeline_value values[] = {{"blocked_ns", wait->blocked_ns},
						{"call_ns", wait->call_ns},
						{"bytes", wait->bytes}};
	int64_t last_ns = call->end_ns - (call->end_ns > call->begin_ns);

	timeline_fixed_slice(&drawing->file, call->track, call->begin_ns, call->end_ns,
			     timeline_fixed_wait(&drawing->texts, timeline->model, timeline->sites,
						 call->process, wait),
			     values, ARRAY_SIZE(values));
	for (uint32_t i = 0; i < call->from_count; i++)
		timeline_flow(&drawing->file, "waited for", call->from[i],
			      (struct timeline_point){call->track, last_ns});
}

static void draw_submission(struct timeline *timeline, const struct timeline_call *call)
{
	struct timeline_drawing *drawing = &timeline->drawing;
	const struct trace_submit *submit = &call->event.submit;
	const struct timeline_value values[] = {{"number", submit->number},
						{"bytes", submit->bytes}};

	timeline_fixed_slice(
		&drawing->file, call->track, call->begin_ns, call->end_ns,
		timeline_fixed_submit(&drawing->texts, timeline->model, call->process, submit),
		values, ARRAY_SIZE(values));
}

static void draw_call(void *context, const struct timeline_call *call)
{
	struct timeline *timeline = context;
	bool is_defined =
		call->is_wait
			? wait_is_defined(timeline->model, call->process, &call->event.wait)
			: submit_is_defined(timeline->model, call->process, &call->event.submit);

	if (!is_defined && !timeline->is_ending && timeline->held_count < HELD_MAX) {
		timeline->held = memory_grow(timeline->held, timeline->held_count,
					     &timeline->held_capacity, sizeof(*call));
		timeline->held[timeline->held_count++] = *call;
		return;
	}
	timeline->undefined += !is_defined;
	if (call->is_wait)
		draw_wait(timeline, call);
	else
		draw_submission(timeline, call);
}

/* The call that an event tells of; NULL: its thread has no row. */
static struct timeline_thread *call_of(struct timeline *timeline,
				       const struct analysis_event *event, uint64_t call_ns,
				       struct timeline_call *ret_call)
{
	const struct model_process *process = model_process(timeline->model, event->process);
	int64_t since_origin;
	struct timeline_thread *thread = timeline_thread(&timeline->drawing.tracks, event->process,
							 process ? process->pid : 0, event->thread);

	*ret_call = (struct timeline_call){.process = event->process, .end_ns = event->ns};
	if (!thread)
		return NULL;
	ret_call->track = thread->track;
	if (__builtin_sub_overflow(event->ns, timeline->drawing.file.origin_ns, &since_origin) ||
	    since_origin < 0)
		since_origin = 0;
	if (call_ns < 1)
		call_ns = 1;
	ret_call->begin_ns =
		event->ns - (call_ns > (uint64_t)since_origin ? since_origin : (int64_t)call_ns);
	return thread;
}

/* Streams that the call waited for: arrows from their last submissions, or what is known to have been busy. */
static void take_candidates(struct timeline *timeline, struct timeline_call *call)
{
	struct timeline_drawing *drawing = &timeline->drawing;
	const struct model *model = timeline->model;
	const struct trace_wait *wait = &call->event.wait;
	bool is_full = table_find(&timeline->full, call->process, 0) != NULL;
	const struct trace_def_candidate *members[CANDIDATES_MAX];
	size_t count = wait_candidates(model, call->process, wait->candidates, members);

	for (size_t i = 0; i < count; i++) {
		struct timeline_stream *stream =
			timeline_stream(&drawing->tracks, call->process,
					candidate_stream(model, call->process, members[i]));

		if (!stream)
			continue;
		if (is_full && call->from_count < TIMELINE_ARROWS)
			call->from_count += timeline_last_submission(stream, call->begin_ns,
								     &call->from[call->from_count]);
		else if (!is_full)
			timeline_busy(drawing, stream, call->begin_ns, call->end_ns,
				      timeline_fixed_busy(&drawing->texts, model, call->process,
							  wait->wait, members[i]));
	}
}

static void take_wait(struct timeline *timeline, const struct analysis_event *event)
{
	const struct trace_wait *wait = event->payload;
	struct timeline_call call;
	struct timeline_thread *thread = call_of(timeline, event, wait->call_ns, &call);

	if (!thread)
		return;
	call.is_wait = true;
	call.event.wait = *wait;
	take_candidates(timeline, &call);
	timeline_add_call(thread, &call, draw_call, timeline);
}

static void take_submit(struct timeline *timeline, const struct analysis_event *event)
{
	const struct trace_submit *submit = event->payload;
	struct timeline_call call;
	struct timeline_thread *thread = call_of(timeline, event, submit->call_ns, &call);
	bool is_new;

	(void)table_add(&timeline->full, event->process, 0, &is_new);
	if (!thread)
		return;
	call.event.submit = *submit;
	timeline_submit(&timeline->drawing, timeline->model, &call);
	timeline_add_call(thread, &call, draw_call, timeline);
}

/* ---- streams ---- */

static struct timeline_stream *stream_of(struct timeline *timeline,
					 const struct analysis_event *event, uint32_t number)
{
	return timeline_stream(&timeline->drawing.tracks, event->process, number);
}

static void draw_instant(struct timeline *timeline, struct timeline_stream *stream, int64_t ns,
			 const char *name, const char *category, json_t *args)
{
	struct timeline_point at = {
		timeline_lane(&timeline->drawing.tracks, stream, &stream->lanes[0]), ns};

	timeline_instant(&timeline->drawing.file, at, name, category, args);
}

static void take_completed(struct timeline *timeline, const struct analysis_event *event)
{
	const struct trace_completed *completed = event->payload;
	struct timeline_stream *stream = stream_of(timeline, event, completed->stream);

	if (stream)
		timeline_completed(&timeline->drawing, timeline->model, stream, completed->number,
				   event->ns);
}

static void take_record(struct timeline *timeline, const struct analysis_event *event)
{
	const struct trace_record *record = event->payload;
	struct timeline_stream *stream = stream_of(timeline, event, record->stream);
	_cleanup_free_ char *handle = memory_format("0x%" PRIx64, record->event);
	json_t *args;

	if (!stream)
		return;
	args = memory_check(json_object());
	timeline_set(args, "event", timeline_text(handle));
	timeline_set(args, "up_to", timeline_number(record->number));
	draw_instant(timeline, stream, event->ns, "event recorded", "record", args);
}

static void take_order(struct timeline *timeline, const struct analysis_event *event,
		       const struct trace_join *join, bool is_join)
{
	struct timeline_stream *stream = stream_of(timeline, event, join->stream);
	struct timeline_stream *of = stream_of(timeline, event, join->of_stream);
	_cleanup_free_ char *words = NULL, *name = NULL;
	json_t *args;

	if (!stream || !of)
		return;
	words = stream_words(timeline->model, event->process, join->of_stream);
	name = memory_format("%s: after %s", is_join ? "join" : "stream wait", words);
	args = memory_check(json_object());
	timeline_set(args, "operation", timeline_number(join->number));
	timeline_set(args, "runs_after", timeline_text(words));
	timeline_set(args, "up_to", timeline_number(join->of_number));
	timeline_set(args, "barrier",
		     timeline_text(is_join ? "legacy order" : "cuStreamWaitEvent"));
	draw_instant(timeline, stream, event->ns, name, is_join ? "join" : "stream-wait", args);
	timeline_ordered(&timeline->drawing, stream, join->number, of, join->of_number, event->ns,
			 is_join);
}

static void take_stream_wait(struct timeline *timeline, const struct analysis_event *event)
{
	const struct trace_stream_wait *wait = event->payload;
	struct trace_join order = {
		.stream = wait->stream,
		.number = wait->number + 1, /* it holds for what comes after it */
		.of_stream = wait->of_stream,
		.of_number = wait->of_number,
	};

	take_order(timeline, event, &order, false);
}

/* The first event that is drawn gives the origin of times. */
static void begin(struct timeline *timeline, const struct analysis_event *event)
{
	uint64_t call_ns =
		event->id == TRACE_WAIT     ? ((const struct trace_wait *)event->payload)->call_ns
		: event->id == TRACE_SUBMIT ? ((const struct trace_submit *)event->payload)->call_ns
					    : 0;
	int64_t origin_ns;

	if (timeline->is_begun || event->id < TRACE_WAIT || trace_event_types[event->id].dumped)
		return;
	timeline->is_begun = true;
	if (call_ns > CALL_MAX_NS)
		call_ns = 0;
	if (__builtin_sub_overflow(event->ns, (int64_t)call_ns + SLACK_NS, &origin_ns))
		origin_ns = event->ns;
	timeline->drawing.file.origin_ns = origin_ns;
	timeline_file_begin(&timeline->drawing.file);
}

static int timeline_event(void *consumer, const struct model *model,
			  const struct analysis_event *event, char **reterr_text)
{
	struct timeline *timeline = consumer;

	timeline->model = model;
	begin(timeline, event);
	timeline_fixed_event(&timeline->drawing.texts, event->id);
	switch (event->id) {
	case TRACE_WAIT:
		take_wait(timeline, event);
		break;
	case TRACE_SUBMIT:
		take_submit(timeline, event);
		break;
	case TRACE_COMPLETED:
		take_completed(timeline, event);
		break;
	case TRACE_RECORD:
		take_record(timeline, event);
		break;
	case TRACE_STREAM_WAIT:
		take_stream_wait(timeline, event);
		break;
	case TRACE_JOIN:
		take_order(timeline, event, event->payload, true);
		break;
	default:
		break;
	}
	return ferror(timeline->drawing.file.out)
		       ? write_error(timeline, errno ? errno : EIO, reterr_text)
		       : 0;
}

/* ---- the end ---- */

static void name_lane(struct timeline *timeline, uint32_t process, const struct timeline_lane *lane,
		      const char *stream, const char *suffix, int64_t index)
{
	_cleanup_free_ char *name = memory_format("%s%s", stream, suffix);
	bool is_new;

	if (!lane->track.tid)
		return;
	(void)table_add(&timeline->with_streams, process, 0, &is_new);
	timeline_name_track(&timeline->drawing.file, lane->track, "thread_name", name);
	timeline_sort_track(&timeline->drawing.file, lane->track, "thread_sort_index", index);
}

static void name_stream(struct timeline *timeline, const struct timeline_stream *stream)
{
	_cleanup_free_ char *words = stream_words(timeline->model, stream->process, stream->number);
	int64_t index = (int64_t)(stream->number & 0xffffff) * (TIMELINE_LANES + 1);

	for (int i = 0; i < TIMELINE_LANES; i++) {
		_cleanup_free_ char *suffix =
			i ? memory_format(", in flight (%d)", i + 1) : memory_copy("");

		name_lane(timeline, stream->process, &stream->lanes[i], words, suffix, index + i);
	}
	name_lane(timeline, stream->process, &stream->rest, words, ", more in flight",
		  index + TIMELINE_LANES);
}

static void name_thread(struct timeline *timeline, const struct timeline_thread *thread)
{
	bool is_main = thread->track.tid == thread->track.pid;
	_cleanup_free_ char *name =
		memory_format("%s %" PRIu32, is_main ? "main thread" : "thread", thread->track.tid);

	timeline_name_track(&timeline->drawing.file, thread->track, "thread_name", name);
	timeline_sort_track(&timeline->drawing.file, thread->track, "thread_sort_index",
			    is_main ? -1 : (int64_t)thread->track.tid);
}

static void name_group(struct timeline *timeline, uint32_t pid, const char *name, int64_t index)
{
	struct timeline_track track = {.pid = pid};

	timeline_name_track(&timeline->drawing.file, track, "process_name", name);
	timeline_sort_track(&timeline->drawing.file, track, "process_sort_index", index);
}

/* By rank, then by appearance; the streams of a process come right after its threads. */
static void name_process(struct timeline *timeline, const struct model_process *process)
{
	_cleanup_free_ char *words = process_words(timeline->model, process->number);
	_cleanup_free_ char *streams = memory_format("CUDA streams of %s", words);
	int64_t index = process->rank >= 0 ? process->rank : INT64_C(1000000) + process->number;
	uint32_t *pid = table_find(&timeline->drawing.tracks.processes, process->number, 0);

	if (pid)
		name_group(timeline, *pid, words, 2 * index);
	if (table_find(&timeline->with_streams, process->number, 0))
		name_group(timeline, timeline_stream_pid(process->number), streams, 2 * index + 1);
}

static json_t *other_data(const struct timeline *timeline, const struct analysis_end *end)
{
	json_t *other = memory_check(json_object());

	timeline_set(other, "producer", timeline_text("slipstream " SLIPSTREAM_VERSION));
	timeline_set(other, "origin_ns",
		     memory_check(json_integer(timeline->drawing.file.origin_ns)));
	timeline_set(other, "discarded_events", timeline_number(end->discarded));
	timeline_set(
		other, "complete",
		memory_check(json_boolean(!end->interrupted && !end->broken && !end->discarded)));
	timeline_set(other, "broken_off", timeline_text(end->broken));
	timeline_set(other, "left_out_events", timeline_number(timeline->drawing.tracks.left_out));
	timeline_set(other, "undefined_slices", timeline_number(timeline->undefined));
	return other;
}

static int timeline_finish(void *consumer, const struct model *model,
			   const struct analysis_end *end, char **reterr_text)
{
	struct timeline *timeline = consumer;
	struct timeline_drawing *drawing = &timeline->drawing;
	int error;

	timeline->model = model;
	timeline->is_ending = true;
	if (!timeline->is_begun)
		timeline_file_begin(&drawing->file);
	for (size_t i = 0; i < timeline->held_count; i++)
		draw_call(timeline, &timeline->held[i]);
	for (size_t i = 0; i < drawing->tracks.threads.count; i++) {
		struct timeline_thread *thread = table_at(&drawing->tracks.threads, i);

		timeline_flush_calls(thread, draw_call, timeline);
		name_thread(timeline, thread);
	}
	for (size_t i = 0; i < drawing->tracks.streams.count; i++) {
		struct timeline_stream *stream = table_at(&drawing->tracks.streams, i);

		timeline_end_stream(drawing, model, stream, end->end_ns);
		name_stream(timeline, stream);
	}
	for (uint32_t i = 0; i < model_process_count(model); i++)
		name_process(timeline, model_process(model, i));
	error = timeline_file_end(&drawing->file, other_data(timeline, end));
	if (fclose(drawing->file.out) && !error)
		error = -errno;
	drawing->file.out = NULL;
	return error ? write_error(timeline, -error, reterr_text) : 0;
}

int timeline_create(const char *path, struct consumer *ret_consumer, char **reterr_text)
{
	static const struct consumer_ops ops = {
		.name = "timeline",
		.event = timeline_event,
		.finish = timeline_finish,
		.free = timeline_free,
	};
	struct timeline *timeline;
	FILE *out = fopen(path, "we");

	if (!out) {
		int error = errno;

		*reterr_text = memory_format("the timeline %s cannot be written: %s", path,
					     strerror(error));
		return -error;
	}
	timeline = memory_new(sizeof(*timeline));
	timeline->path = memory_copy(path);
	timeline->drawing.file.out = out;
	timeline->full.data_size = sizeof(char);
	timeline->with_streams.data_size = sizeof(char);
	timeline_tracks_begin(&timeline->drawing.tracks);
	timeline_fixed_begin(&timeline->drawing.texts);
	timeline->sites = sites_new();
	*ret_consumer = (struct consumer){&ops, timeline};
	return 0;
}
