// SPDX-License-Identifier: MIT
/*
 * Sink: messages of a graph to any number of consumers, through one reader and one model. Behind
 * every sink component of the plugin, and behind `slipstream-analyze`. One thread.
 */
#ifndef SLIPSTREAM_TRACING_SINK_H
#define SLIPSTREAM_TRACING_SINK_H

#include <babeltrace2/babeltrace.h>

#include "tracing/analysis/consumer.h"
#include "tracing/analysis/decode.h"

/* A consumer with its state, which sink_free() frees. */
struct consumer {
	const struct consumer_ops *ops;
	void *state;
};

enum sink_status {
	SINK_OK,
	SINK_AGAIN, /* a live trace has nothing new */
	SINK_END,   /* all read; the consumers have finished */
	SINK_ERROR, /* the trace broke off or a consumer failed: sink_error(); as SINK_END */
};

struct sink;

struct sink *sink_new(void);
struct sink *sink_free(struct sink *sink);
void sink_add(struct sink *sink, struct consumer consumer);

/* Takes the next batch. An error of the library stays with the thread, as the library wants it. */
enum sink_status sink_consume(struct sink *sink, bt_message_iterator *iterator);

/*
 * Lets the consumers write what they have; nothing if they did. `interrupted`: the user stopped.
 * `broken`: as in struct analysis_end. 0, or -errno: sink_error().
 */
int sink_finish(struct sink *sink, bool interrupted, const char *broken);

/*
 * For events that were decoded elsewhere: the account of each decoder first, then all events in
 * order of time, then the end; `broken` as in struct analysis_end.
 */
void sink_add_account(struct sink *sink, const struct decoder_account *account);
enum sink_status sink_place(struct sink *sink, const struct decoded *decoded);
enum sink_status sink_end(struct sink *sink, const char *broken);

/*
 * The thread's error broke the trace off before a batch could be taken: as sink_consume() does it
 * then.
 */
void sink_break(struct sink *sink);

/* Known before it is read: a part of the trace is missing. One line, for the consumers' end. */
void sink_incomplete(struct sink *sink, const char *why);

/* What is known of the trace's parts before it is read: to be filled then. */
struct trace_parts *sink_trace_parts(struct sink *sink);

/* What went wrong first, one line; NULL: nothing. Valid as long as the sink. */
const char *sink_error(const struct sink *sink);

const struct model *sink_model(const struct sink *sink);
uint64_t sink_events(const struct sink *sink);
int64_t sink_time(const struct sink *sink); /* of the last event */

/*
 * The deepest cause of the thread's error in one line, which stays the thread's; never NULL. The
 * caller frees.
 */
char *sink_thread_error(void);

/* The same with the trace in front of it, as its source component is called, where it is known. */
char *sink_thread_error_of_trace(void);

#endif
