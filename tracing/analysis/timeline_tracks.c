// SPDX-License-Identifier: MIT
/* Timeline, rows (timeline_tracks.h). */
#include "tracing/analysis/timeline_tracks.h"

#include "memory.h"

/* Beyond what kernels give as pid (at most 2^22), within what readers take (31 bits). */
#define FIRST_PROCESS_PID UINT32_C(50000000)
#define FIRST_STREAM_PID  UINT32_C(100000000)
#define FIRST_LANE_TID    UINT32_C(200000000)
#define LANE_TIDS         8 /* for each stream; at least TIMELINE_LANES + 1 */
#define NUMBERED_STREAMS  (UINT32_C(1) << 20)
#define UNKNOWN_TID       UINT32_C(40000000)
#define LARGEST_PID       UINT32_C(4194304)

_Static_assert(LANE_TIDS > TIMELINE_LANES, "every lane and the rest have a row");

void timeline_tracks_begin(struct timeline_tracks *tracks)
{
	*tracks = (struct timeline_tracks){0};
	tracks->threads.data_size = sizeof(struct timeline_thread);
	tracks->streams.data_size = sizeof(struct timeline_stream);
	tracks->pids.data_size = sizeof(uint32_t);
	tracks->processes.data_size = sizeof(uint32_t);
}

void timeline_tracks_done(struct timeline_tracks *tracks)
{
	table_done(&tracks->threads);
	table_done(&tracks->streams);
	table_done(&tracks->pids);
	table_done(&tracks->processes);
}

uint32_t timeline_pid(struct timeline_tracks *tracks, uint32_t process, uint32_t pid)
{
	bool is_new, is_first = false;
	uint32_t *given = table_add(&tracks->processes, process, 0, &is_new);

	if (!is_new)
		return *given;
	if (pid && pid <= LARGEST_PID)
		(void)table_add(&tracks->pids, pid, 0, &is_first);
	*given = is_first ? pid : FIRST_PROCESS_PID + process;
	return *given;
}

uint32_t timeline_stream_pid(uint32_t process)
{
	return FIRST_STREAM_PID + process;
}

static bool has_room(struct timeline_tracks *tracks)
{
	if (tracks->threads.count + tracks->streams.count < TIMELINE_TRACKS)
		return true;
	tracks->left_out++;
	return false;
}

struct timeline_thread *timeline_thread(struct timeline_tracks *tracks, uint32_t process,
					uint32_t pid, uint32_t tid)
{
	struct timeline_thread *thread = table_find(&tracks->threads, process, tid);
	bool is_new;

	if (thread || !has_room(tracks))
		return thread;
	thread = table_add(&tracks->threads, process, tid, &is_new);
	thread->track.pid = timeline_pid(tracks, process, pid);
	thread->track.tid =
		tid && tid <= LARGEST_PID ? tid : UNKNOWN_TID + (tid % UNKNOWN_TID) % 1000000;
	thread->floor_ns = INT64_MIN;
	return thread;
}

struct timeline_stream *timeline_stream(struct timeline_tracks *tracks, uint32_t process,
					uint64_t number)
{
	struct timeline_stream *stream = table_find(&tracks->streams, process, number);
	bool is_new;

	if (stream || !has_room(tracks))
		return stream;
	stream = table_add(&tracks->streams, process, number, &is_new);
	stream->process = process;
	stream->number = number;
	for (size_t i = 0; i < TIMELINE_LANES; i++)
		stream->lanes[i].end_ns = INT64_MIN;
	stream->rest.end_ns = INT64_MIN;
	return stream;
}

/* Viewers sort by it: lanes of a stream side by side, streams by number. Unique in the process's group of streams. */
static uint32_t lane_tid(struct timeline_tracks *tracks, struct timeline_stream *stream,
			 const struct timeline_lane *lane)
{
	uint32_t number = lane == &stream->rest ? TIMELINE_LANES : (uint32_t)(lane - stream->lanes);

	if (!stream->first_tid && stream->number < NUMBERED_STREAMS)
		stream->first_tid = FIRST_LANE_TID + (uint32_t)stream->number * LANE_TIDS;
	else if (!stream->first_tid)
		stream->first_tid =
			FIRST_LANE_TID + (NUMBERED_STREAMS + tracks->unnumbered++) * LANE_TIDS;
	return stream->first_tid + number;
}

struct timeline_track timeline_lane(struct timeline_tracks *tracks, struct timeline_stream *stream,
				    struct timeline_lane *lane)
{
	if (!lane->track.tid)
		lane->track = (struct timeline_track){timeline_stream_pid(stream->process),
						      lane_tid(tracks, stream, lane)};
	return lane->track;
}

struct timeline_lane *timeline_free_lane(struct timeline_stream *stream, int64_t *begin_ns)
{
	struct timeline_lane *earliest = NULL;

	for (size_t i = 0; i < TIMELINE_LANES; i++) {
		struct timeline_lane *lane = &stream->lanes[i];

		if (lane->operation.number)
			continue;
		if (lane->end_ns <= *begin_ns)
			return lane;
		if (!earliest || lane->end_ns < earliest->end_ns)
			earliest = lane;
	}
	if (earliest)
		*begin_ns = earliest->end_ns;
	return earliest;
}

void timeline_flush_calls(struct timeline_thread *thread, timeline_take_call *take, void *context)
{
	int64_t outer_begin = thread->floor_ns, outer_end = INT64_MAX;

	/* The last one ends last: it encloses those it overlaps. */
	for (uint32_t i = thread->pending_count; i-- > 0;) {
		struct timeline_call *call = &thread->pending[i];

		if (outer_end == INT64_MAX)
			thread->floor_ns = call->end_ns;
		if (call->begin_ns < outer_begin)
			call->begin_ns = outer_begin;
		if (call->end_ns > outer_end)
			call->end_ns = outer_end;
		if (call->begin_ns > call->end_ns)
			call->begin_ns = call->end_ns;
		take(context, call);
		outer_begin = call->begin_ns;
		outer_end =
			call->end_ns - 1; /* so that an arrow at its very end is the outer one's */
		if (outer_end < outer_begin)
			outer_end = outer_begin;
	}
	thread->pending_count = 0;
}

void timeline_add_call(struct timeline_thread *thread, const struct timeline_call *call,
		       timeline_take_call *take, void *context)
{
	const struct timeline_call *last =
		thread->pending_count ? &thread->pending[thread->pending_count - 1] : NULL;

	if (last && (last->end_ns <= call->begin_ns || thread->pending_count == TIMELINE_PENDING))
		timeline_flush_calls(thread, take, context);
	thread->pending[thread->pending_count++] = *call;
}
