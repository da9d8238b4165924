// SPDX-License-Identifier: MIT
/*
 * Decoder: bt2 messages to events of the schema (tracing/events.yaml), without knowing what they
 * mean. What an event class has in which field is found out once, by name; an event then costs no
 * look-up by name and no allocation. Events of others are passed over. A field that is missing (an
 * older writer) reads 0; a class with a field of another type is left out, with one note.
 *
 * One thread at a time; several decoders may work at once, each on a graph of its own.
 */
#ifndef SLIPSTREAM_TRACING_DECODE_H
#define SLIPSTREAM_TRACING_DECODE_H

#include <stdbool.h>

#include <babeltrace2/babeltrace.h>

#include "tracing/event.h"

#define DECODER_NOTES_MAX 16 /* told one by one */

/* A trace, or several of one identity (a rotated session). Lives as long as the decoder. */
struct origin {
	char *identity; /* UUID and host */
	char *host;     /* "" unknown */
	bool has_pid;   /* a trace of one process: its environment says which */
	uint32_t pid;
	uint64_t lost; /* events that the tracer discarded */
	void *place;   /* the reader's; nobody else's */
};

struct decoded {
	int64_t ns; /* from the common origin */
	struct origin *origin;
	int64_t clock_offset_ns; /* its host's CLOCK_MONOTONIC is ns less this */
	uint32_t pid, thread;    /* thread 0: not known */
	enum trace_event id;
	const void *payload; /* struct trace_<event>; valid until the next message is taken */
};

/* What it came across besides events. */
struct decoder_account {
	struct origin **origins;
	size_t origin_count;
	uint64_t discarded, discarded_packets;
	char *notes[DECODER_NOTES_MAX]; /* one line each */
	size_t note_count;
};

struct decoder;

struct decoder *decoder_new(void);
struct decoder *decoder_free(struct decoder *decoder);

/*
 * One message. 1: *ret_event is filled; 0: nothing to see in it; -errno with one line in
 * *reterr_text (the caller frees): the trace cannot be analysed.
 */
int decoder_take(struct decoder *decoder, const bt_message *message, struct decoded *ret_event,
		 char **reterr_text);

/* Lives as long as the decoder and changes with every message. */
const struct decoder_account *decoder_account(const struct decoder *decoder);

#endif
