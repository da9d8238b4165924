// SPDX-License-Identifier: MIT
/*
 * Golden traces: a trace as a readable text file (tracing/README.md, "Golden traces"), line by
 * line. Used by source.slipstream.text and its fuzzer. Independent of babeltrace2; one thread.
 */
#ifndef SLIPSTREAM_TRACING_TEXT_PARSE_H
#define SLIPSTREAM_TRACING_TEXT_PARSE_H

#include <stdint.h>
#include <stdio.h>

#include "tracing/event.h"

enum text_kind {
	TEXT_EVENT,     /* one of the schema */
	TEXT_FOREIGN,   /* an event of another provider, without fields */
	TEXT_DISCARDED, /* events were lost since the line before of this host */
};

/* One line; texts are valid until the next one is asked for, the host as long as the parser. */
struct text_line {
	enum text_kind kind;
	int64_t ns;
	const char *host;
	uint32_t pid, thread;
	enum trace_event event; /* TEXT_EVENT */
	union trace_payload
		payload;  /* TEXT_EVENT; fields that the line does not name are 0 or "" */
	const char *name; /* TEXT_FOREIGN */
	uint64_t count;   /* TEXT_DISCARDED */
};

struct text_parser;

/* `name` is for messages and copied; the file belongs to the parser from now on. */
struct text_parser *text_parser_new(const char *name, FILE *file);
struct text_parser *text_parser_free(struct text_parser *parser);

/*
 * 1: *ret_line; 0: the end; -errno with one line in *reterr_text (the caller frees) that gives
 * file, line, column.
 */
int text_parser_next(struct text_parser *parser, struct text_line *ret_line, char **reterr_text);

#endif
