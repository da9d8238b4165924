// SPDX-License-Identifier: MIT
/*
 * Event table: the schema (events.yaml) as data, for readers and writers that treat all events alike:
 * the decoder of the analysis, its model, the text form of golden traces. Constant.
 */
#ifndef SLIPSTREAM_TRACING_EVENT_TABLE_H
#define SLIPSTREAM_TRACING_EVENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracing/event.h"

#define TRACE_PROVIDER "slipstream"

enum trace_field_type {
	TRACE_FIELD_U32,
	TRACE_FIELD_U64,
	TRACE_FIELD_I32,
	TRACE_FIELD_X64, /* as U64, shown in hexadecimal */
	TRACE_FIELD_STRING,
};

struct trace_field {
	const char *name;
	enum trace_field_type type;
	size_t offset; /* in struct trace_<event> */
};

struct trace_event_type {
	const char *name; /* without the provider's */
	size_t size;      /* of struct trace_<event> */
	const struct trace_field *fields;
	unsigned int field_count;
	int key, part; /* indices of fields; -1 none */
	bool dumped;   /* a definition */
	bool full;     /* only at level full */
};

extern const struct trace_event_type trace_event_types[TRACE_EVENT_COUNT]; /* by enum trace_event */

#endif
