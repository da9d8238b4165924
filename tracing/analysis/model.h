// SPDX-License-Identifier: MIT
/*
 * Model: what the definitions of a trace said so far, by process. Fed with every event by the
 * reader (read.h) before any consumer sees it; consumers only look up. One thread.
 *
 * A trace is hostile: ids that an event names may be unknown, for good (lost) or until later (a
 * session that started late); every look-up then answers NULL or "".
 */
#ifndef SLIPSTREAM_TRACING_MODEL_H
#define SLIPSTREAM_TRACING_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracing/analysis/trace_part.h"
#include "tracing/event.h"

/* A dump of all definitions: it is whole if its begin, its end and as many definitions as that says were seen. */
struct model_dump {
	uint32_t number, reason; /* of dump_begin; 0: none was seen */
	uint64_t seen;           /* definitions since then */
	int64_t begin_ns;        /* analysis_event.ns */
	int64_t before_ns;       /* of the process's event before it */
	bool open, whole;
};

/*
 * One process of one host. Numbered from 0 in order of appearance; a pid used again is another
 * process. Processes of one pid are told apart by their start: events before it are of another one,
 * and what that one's definitions are nobody knows until its def_process has come.
 */
struct model_process {
	uint32_t number;
	uint32_t pid;
	const char *host; /* of the trace's environment; "" unknown */
	int32_t rank;     /* -1: none */
	/*
	 * CLOCK_MONOTONIC of its host = analysis_event.ns less this: for times inside definitions.
	 */
	int64_t clock_offset_ns;
	const char *trace;         /* which one: begins with its UUID, 32 digits, if it has one */
	int64_t first_ns, last_ns; /* its first and last event, analysis_event.ns */
	struct model_dump dump;    /* the last one; `before` the one before it */
	struct model_dump dump_before;
	int64_t asked_ns; /* when it last began a dump that was asked for; 0: never */
	/*
	 * What the trace does not have of its life: waits before the first dump (of which it is known
	 * that there were some: the session came late), the first dumps, times without a session.
	 */
	bool began_late, no_first_dump;
	uint64_t gap_ns;
	bool ended; /* its exit handlers ran: `end` is known */
	struct trace_process_end end;
	uint64_t lost; /* discarded by the tracer, where it says of which process */
};

struct model;

struct model *model_new(void);
struct model *model_free(struct model *model);

size_t model_process_count(const struct model *model);
const struct model_process *model_process(const struct model *model, uint32_t process);

/* Reader only. A new process; `host` must live as long as the model. Returns its number. */
uint32_t model_add_process(struct model *model, const char *host, uint32_t pid);
/* Reader only. The dump that `from` has begun turned out to be of `into`, which is new. */
void model_move_dump(struct model *model, uint32_t from, uint32_t into);
/*
 * Reader only, after a first dump: it knows of waits that came before it, and that were not the
 * very first call of their function.
 */
bool model_missed_waits(const struct model *model, uint32_t process);

/* What was found out about stream files before they were read; the caller fills it, before. */
struct trace_parts *model_trace_parts(struct model *model);
/* Of the process's trace; NULL: nothing is known (no folder of stream files). */
const struct trace_part *model_part(const struct model *model, uint32_t process);
/*
 * Reader only. Takes in one event, definition or not, of a process that model_add_process() gave.
 */
void model_take(struct model *model, uint32_t process, enum trace_event event, const void *payload);
/* Reader only. Its fields may change until the trace ends. */
struct model_process *model_change_process(struct model *model, uint32_t process);
/* A copy of a text that lives as long as the model; equal texts are kept once. */
const char *model_intern(struct model *model, const char *text);

/* What def_process said last; NULL: nothing yet, and nothing below is known of the process. */
const struct trace_def_process *model_process_definition(const struct model *model,
							 uint32_t process);

/*
 * The definition of type `event` with this key in the process: a struct trace_<event>, whose
 * strings live as long as the model. Allocations (def_allocation) go away with the dump that no
 * longer has them, all others stay where they are; a later definition of the key overwrites it.
 * NULL: not (yet) known. Not for def_string and definitions in parts.
 */
const void *model_find(const struct model *model, uint32_t process, enum trace_event event,
		       uint64_t key);

/*
 * The parts of a key (frames of a site, members of a candidate set): an array of struct
 * trace_<event> by part number, valid until the next event is taken in. A part that is missing has
 * all fields 0. *ret_count 0: none known.
 */
const void *model_parts(const struct model *model, uint32_t process, enum trace_event event,
			uint64_t key, size_t *ret_count);

/*
 * The text of a string id, as the program wrote it: escape it before showing. NULL: not known, or
 * id 0.
 */
const char *model_string(const struct model *model, uint32_t process, uint32_t id);

/*
 * All definitions of a type in the process, in order of appearance; not those in parts; stops when
 * `take` answers false.
 */
void model_each(const struct model *model, uint32_t process, enum trace_event event,
		bool (*take)(void *context, const void *definition), void *context);

/*
 * The same for parts: `parts` as from model_parts(). Not for def_string, whose texts
 * model_each_string() gives.
 */
void model_each_parts(const struct model *model, uint32_t process, enum trace_event event,
		      bool (*take)(void *context, uint64_t key, const void *parts, size_t count),
		      void *context);
void model_each_string(const struct model *model, uint32_t process,
		       bool (*take)(void *context, uint32_t id, const char *text), void *context);

#endif
