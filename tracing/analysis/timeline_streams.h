// SPDX-License-Identifier: MIT
/* Timeline, streams: operations, joins and busy times on the rows of streams (timeline_tracks.h). */
#ifndef SLIPSTREAM_TRACING_TIMELINE_STREAMS_H
#define SLIPSTREAM_TRACING_TIMELINE_STREAMS_H

#include "tracing/analysis/model.h"
#include "tracing/analysis/timeline_fixed.h"
#include "tracing/analysis/timeline_tracks.h"

struct timeline_drawing {
	struct timeline_file file;
	struct timeline_tracks tracks;
	struct timeline_fixed_texts texts;
};

/* An operation was submitted by the call. */
void timeline_submit(struct timeline_drawing *drawing, const struct model *model,
		     const struct timeline_call *call);
/* All operations of the stream up to `number` are known complete. */
void timeline_completed(struct timeline_drawing *drawing, const struct model *model,
			struct timeline_stream *stream, uint64_t number, int64_t ns);
/* Operation `number` of `stream` runs after `of_number` of `of`. */
void timeline_ordered(struct timeline_drawing *drawing, struct timeline_stream *stream,
		      uint64_t number, const struct timeline_stream *of, uint64_t of_number,
		      int64_t ns, bool is_join);
/* The stream had work that was not known complete during the wait (level waits, where no operations are known). */
void timeline_busy(struct timeline_drawing *drawing, struct timeline_stream *stream,
		   int64_t begin_ns, int64_t end_ns, const struct timeline_fixed *text);
/* The last submission to the stream that had returned before `ns`. False: none known. */
bool timeline_last_submission(const struct timeline_stream *stream, int64_t ns,
			      struct timeline_point *ret_point);
/* What is still in flight at the end of the trace. */
void timeline_end_stream(struct timeline_drawing *drawing, const struct model *model,
			 struct timeline_stream *stream, int64_t ns);

#endif
