// SPDX-License-Identifier: MIT
/*
 * Reader: decoded events (decode.h) to those that consumers see, and the model kept up to date.
 * Knows which process an event is of: (trace and host, pid). A def_process with another start time
 * makes a new process of it. One thread.
 */
#ifndef SLIPSTREAM_TRACING_READ_H
#define SLIPSTREAM_TRACING_READ_H

#include "tracing/analysis/consumer.h"
#include "tracing/analysis/decode.h"

struct reader;

/* The model stays the caller's and must outlive the reader. */
struct reader *reader_new(struct model *model);
struct reader *reader_free(struct reader *reader);

/* One event, in order of time, from any decoder that lives as long as the reader. The payload of
 * *ret_event is that of the decoded one. */
void reader_place(struct reader *reader, const struct decoded *decoded,
		  struct analysis_event *ret_event);

/* One message through the reader's own decoder; as decoder_take(). */
int reader_take(struct reader *reader, const bt_message *message, struct analysis_event *ret_event,
		char **reterr_text);

/* The account of another decoder, to be told of too. Must live as long as the reader. */
void reader_add_account(struct reader *reader, const struct decoder_account *account);

/* Fills what is known of the trace so far; the notes live as long as the reader. Leaves
 * `interrupted` and `broken` to the caller. */
void reader_describe(struct reader *reader, struct analysis_end *end);

#endif
