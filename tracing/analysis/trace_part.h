// SPDX-License-Identifier: MIT
/*
 * Trace parts: what the heads of the packets in a folder tell of the part of the run that the trace
 * holds, which no event says. A snapshot is known by its folder, as the session daemon names it;
 * buffers that were overwritten by the number of a stream's first packet. Filled before the trace is
 * read, then only looked up. One thread.
 */
#ifndef SLIPSTREAM_TRACING_TRACE_PART_H
#define SLIPSTREAM_TRACING_TRACE_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_UUID_DIGITS 32

/* Of one trace: all folders with its UUID. Times are CLOCK_MONOTONIC of its host. */
struct trace_part {
	char uuid[TRACE_UUID_DIGITS + 1];
	bool is_snapshot;
	uint64_t whole_since_ns; /* events before it were overwritten, or lie elsewhere; 0: none */
	uint64_t end_ns;         /* of the last packet: of a snapshot, when it was saved */
};

/* A stream: where its first packet is. */
struct trace_part_stream {
	char uuid[TRACE_UUID_DIGITS + 1];
	uint64_t stream; /* its class and its number in it */
	uint64_t first, begin_ns;
};

struct trace_parts {
	struct trace_part *parts;
	size_t count, capacity;
	struct trace_part_stream *streams;
	size_t stream_count, stream_capacity;
};

/* Adds what the stream files of a folder tell, `name` being its path as given. Files of other writers tell nothing. */
void trace_parts_add(struct trace_parts *parts, const char *folder, const char *name);
/* `identity` begins with the UUID. NULL: nothing is known of it. */
const struct trace_part *trace_parts_find(const struct trace_parts *parts, const char *identity);
void trace_parts_done(struct trace_parts *parts);

#endif
