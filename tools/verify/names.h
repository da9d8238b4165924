/* SPDX-License-Identifier: MIT */
/* Names: what functions of a process are called, as its definitions say. Called by records.c and operations.c; one thread. */
#ifndef SLIPSTREAM_TOOLS_VERIFY_NAMES_H
#define SLIPSTREAM_TOOLS_VERIFY_NAMES_H

#include "tracing/analysis/table.h"
#include "tracing/event.h"

struct names {
	struct table functions, strings; /* uint32_t: its name; char * */
};

void names_start(struct names *names);
void names_done(struct names *names);

void names_take_string(struct names *names, const struct trace_def_string *string);
void names_take_function(struct names *names, const struct trace_def_function *function);

/* The caller frees it. */
char *names_words(const struct names *names, uint32_t function);

#endif
