// SPDX-License-Identifier: MIT
/*
 * Model: what the definitions of a trace said so far, by process. Fed with every event by the reader
 * (read.h) before any consumer sees it; consumers only look up. One thread.
 *
 * A trace is hostile: ids that an event names may be unknown, for good (lost) or until later (a session
 * that started late); every look-up then answers NULL or "".
 */
#ifndef SLIPSTREAM_TRACING_MODEL_H
#define SLIPSTREAM_TRACING_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracing/event.h"

/* One process of one host. Numbered from 0 in order of appearance; a pid used again is another process. */
struct model_process {
	uint32_t number;
	uint32_t pid;
	const char *host; /* of the trace's environment; "" unknown */
	int32_t rank;     /* -1: none */
	uint64_t lost;    /* events that the tracer discarded, as far as the process is known; else see the reader */
};

struct model;

struct model *model_new(void);
struct model *model_free(struct model *model);

size_t model_process_count(const struct model *model);
const struct model_process *model_process(const struct model *model, uint32_t process);

/*
 * The definition of type `event` with this key in the process: a struct trace_<event>, whose strings
 * live as long as the model. NULL: not (yet) known. Not for def_string and definitions in parts.
 */
const void *model_find(const struct model *model, uint32_t process, enum trace_event event, uint64_t key);

/*
 * The parts of a key (frames of a site, members of a candidate set): an array of struct trace_<event>
 * by part number. A part that is missing has all fields 0. *ret_count 0: none known.
 */
const void *model_parts(const struct model *model, uint32_t process, enum trace_event event, uint64_t key,
			size_t *ret_count);

/* The text of a string id, as the program wrote it: escape it before showing. NULL: not known, or id 0. */
const char *model_string(const struct model *model, uint32_t process, uint32_t id);

/* All definitions of a type in the process, by key; stops when `take` answers false. */
void model_each(const struct model *model, uint32_t process, enum trace_event event,
		bool (*take)(void *context, const void *definition), void *context);

#endif
