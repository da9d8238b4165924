// SPDX-License-Identifier: MIT
/*
 * Reader: bt2 messages to events of the schema (tracing/events.yaml), and the model kept up to
 * date. Knows how a trace comes from LTTng: who sent an event (context fields, or the environment
 * of a per-process trace), on which host, what was lost. Used by the sinks and the filter; one
 * thread.
 *
 * What an event class has in which field is found out once, by name; an event then costs no look-up
 * by name and no allocation. Events of others are passed over. A field that is missing (an older
 * writer) reads 0; a class with a field of another type is left out, with one note.
 *
 * A process is (trace and host, pid). A def_process with another start time makes a new one of it.
 */
#ifndef SLIPSTREAM_TRACING_READ_H
#define SLIPSTREAM_TRACING_READ_H

#include <babeltrace2/babeltrace.h>

#include "tracing/analysis/consumer.h"

struct reader;

/* The model stays the caller's and must outlive the reader. */
struct reader *reader_new(struct model *model);
struct reader *reader_free(struct reader *reader);

/*
 * One message. 1: *ret_event is filled (payload valid until the next call), the model knows it; 0:
 * nothing to see in it; -errno with one line in *reterr_text (the caller frees): the trace cannot
 * be analysed.
 */
int reader_take(struct reader *reader, const bt_message *message, struct analysis_event *ret_event,
		char **reterr_text);

/* Fills what the reader knows of the trace so far; the notes live as long as the reader. Leaves
 * `interrupted` and `broken` to the caller. */
void reader_describe(const struct reader *reader, struct analysis_end *end);

#endif
