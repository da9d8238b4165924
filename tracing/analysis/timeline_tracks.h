// SPDX-License-Identifier: MIT
/*
 * Timeline, rows: one for each thread, and lanes for each stream. On one row slices must nest or be
 * disjoint; this file sees to that.
 *
 * Thread: what one call gave (a submission, then its wait) overlaps: emitted one after the other with the
 * same duration. Slices are held back until the next one of the thread tells whether it encloses them.
 *
 * Stream: an operation is drawn from its submission to when the host knew it complete, since device
 * times are not measured. Operations in flight together take lanes; what the lanes cannot take is
 * one slice "N more operations" on a row of its own.
 *
 * Memory: by the number of threads and streams, which is capped. One thread.
 */
#ifndef SLIPSTREAM_TRACING_TIMELINE_TRACKS_H
#define SLIPSTREAM_TRACING_TIMELINE_TRACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "tracing/analysis/table.h"
#include "tracing/analysis/timeline_write.h"
#include "tracing/event.h"

enum {
	TIMELINE_PENDING = 8, /* slices of one call */
	TIMELINE_ARROWS = 4,  /* into one slice */
	TIMELINE_LANES = 6,   /* of one stream */
	TIMELINE_TRACKS = 65536,
};

/* A wait or a submission on its thread. */
struct timeline_call {
	int64_t begin_ns, end_ns;
	uint32_t process;
	struct timeline_track track;
	bool is_wait;
	union {
		struct trace_wait wait;
		struct trace_submit submit;
	} event;
	struct timeline_point from[TIMELINE_ARROWS]; /* submissions that a wait waited for */
	uint32_t from_count;
};

struct timeline_thread {
	struct timeline_track track;
	struct timeline_call pending[TIMELINE_PENDING];
	uint32_t pending_count;
	int64_t floor_ns; /* what was written ends here */
};

/* "must lie in [earliest, latest] of the slice of another operation" */
struct timeline_edge {
	uint64_t number; /* of the operation that the arrow goes to */
	struct timeline_track track;
	int64_t earliest_ns, latest_ns;
	bool is_join;
};

struct timeline_operation {
	uint64_t number; /* 0: none */
	int64_t begin_ns;
	struct trace_submit submit;
	struct timeline_point submitted; /* in the slice of the submission */
	struct timeline_edge edges[TIMELINE_ARROWS];
	uint32_t edge_count;
};

struct timeline_lane {
	struct timeline_track track; /* tid 0: not used yet */
	int64_t end_ns;
	struct timeline_operation operation; /* in flight */
};

struct timeline_stream {
	uint32_t process;
	uint64_t
		number; /* TIMELINE_LEGACY | context id: the legacy stream of a context, not defined yet */
	uint32_t first_tid; /* of its lanes; 0: none used yet */
	struct timeline_lane lanes[TIMELINE_LANES];
	struct timeline_lane rest; /* `operation` is the first of those that found no lane */
	uint64_t rest_last;
	struct timeline_point
		submitted[TIMELINE_ARROWS]; /* the last submissions, by number of submission */
	uint64_t submissions;
	struct timeline_edge waiting[TIMELINE_ARROWS]; /* into operations still to come */
	uint64_t waiting_count;
};

#define TIMELINE_LEGACY (UINT64_C(1) << 63)

struct timeline_tracks {
	struct table threads;   /* struct timeline_thread, by process and tid */
	struct table streams;   /* struct timeline_stream, by process and number */
	struct table pids;      /* uint32_t: process of that pid */
	struct table processes; /* uint32_t: pid of that process in the file */
	uint32_t unnumbered;    /* streams whose number is too large, or not known yet */
	uint64_t left_out;      /* events of threads and streams beyond the cap */
};

void timeline_tracks_begin(struct timeline_tracks *tracks);
void timeline_tracks_done(struct timeline_tracks *tracks);

/* The pid that stands for the process: its own, if no other process of the trace has it. */
uint32_t timeline_pid(struct timeline_tracks *tracks, uint32_t process, uint32_t pid);
/* The row group of its streams. */
uint32_t timeline_stream_pid(uint32_t process);

/* NULL: beyond the cap, counted. */
struct timeline_thread *timeline_thread(struct timeline_tracks *tracks, uint32_t process,
					uint32_t pid, uint32_t tid);
struct timeline_stream *timeline_stream(struct timeline_tracks *tracks, uint32_t process,
					uint64_t number);

/* The lane's row; made at its first use. */
struct timeline_track timeline_lane(struct timeline_tracks *tracks, struct timeline_stream *stream,
				    struct timeline_lane *lane);
/* A free lane from `*begin_ns` on, which is moved where all end later; NULL: operations hold all. */
struct timeline_lane *timeline_free_lane(struct timeline_stream *stream, int64_t *begin_ns);

typedef void timeline_take_call(void *context, const struct timeline_call *call);

/* Adds a call to its thread; those that are settled go to `take`, outer ones first. */
void timeline_add_call(struct timeline_thread *thread, const struct timeline_call *call,
		       timeline_take_call *take, void *context);
void timeline_flush_calls(struct timeline_thread *thread, timeline_take_call *take, void *context);

#endif
