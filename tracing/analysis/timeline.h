// SPDX-License-Identifier: MIT
/*
 * Timeline: the consumer that writes a trace in the Chrome trace format (JSON), for ui.perfetto.dev,
 * chrome://tracing and whatever else reads it. Streams: memory grows with threads, streams and
 * definitions, not with the length of the trace.
 *
 * Each process has a group of rows with its threads and one with its streams, sorted by rank. On threads: waits
 * and, at level full, submissions; on streams: operations from submission to when the host knew them
 * complete (level full), else what the waits say was busy; joins, stream waits and records as instants. Arrows go from
 * a submission to its operation and to the wait that waited for it, and along joins and stream waits.
 */
#ifndef SLIPSTREAM_TRACING_TIMELINE_H
#define SLIPSTREAM_TRACING_TIMELINE_H

struct consumer;

/* For the table of consumers (consumers.h), whose rules hold. An existing file is overwritten. */
int timeline_create(const char *path, struct consumer *ret_consumer, char **reterr_text);

#endif
