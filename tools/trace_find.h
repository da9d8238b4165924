// SPDX-License-Identifier: MIT
/*
 * Traces among the places that `slipstream report` is given: CTF folders, golden traces, live
 * sessions. Looks at names and the first bytes of `metadata` files only; whether a trace can be
 * read is for the analysis to say.
 */
#ifndef SLIPSTREAM_TOOLS_TRACE_FIND_H
#define SLIPSTREAM_TOOLS_TRACE_FIND_H

#include <stddef.h>

enum trace_kind {
	TRACE_CTF,  /* a folder with metadata */
	TRACE_TEXT, /* a file *.trace */
	TRACE_LIVE, /* net://HOST/host/HOST/SESSION */
};

struct trace_place {
	enum trace_kind kind;
	char *path;
};

struct trace_places {
	struct trace_place *places; /* of one call by name */
	size_t count, capacity;
};

/*
 * Adds what is at `path` or, for a folder, in and below it (links are not followed). Not an error
 * if there is none.
 */
void trace_find(const char *path, struct trace_places *places);
void trace_places_done(struct trace_places *places);

#endif
