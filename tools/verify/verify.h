// SPDX-License-Identifier: MIT
/*
 * Verify: does what was recorded of the rewrite of the legacy default stream keep legacy order? Fed
 * with the events of one trace by text.c or trace.c; main.c writes the result.
 *
 * What is demanded, in each context, of its records in the order of their numbers: an operation of the
 * legacy stream runs after all operations of blocking, per-thread and legacy streams before it and
 * before all of them after it. What may be used, and no more: operations of one lane (a stream, or the
 * substitute of the legacy stream) run in their order; a barrier that was recorded; the driver's own
 * rule between operations that are where the program put them. Nothing here is shared with the preload
 * library but the schema of events and the kinds of streams in them. Which operations there are is not left to the
 * rewrite's own records: the trace has each call that the driver took (operations.h).
 *
 * A trace is hostile. One thread.
 */
#ifndef SLIPSTREAM_TOOLS_VERIFY_H
#define SLIPSTREAM_TOOLS_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracing/event.h"

/* Findings that are kept with their words; more are only counted. */
#define VERIFY_FINDINGS_MAX 1000

enum verify_finding_kind {
	VERIFY_EDGE,          /* an ordering that is demanded does not follow */
	VERIFY_FLIGHT,        /* nor can it: the earlier call had not returned */
	VERIFY_INCOMPLETE,    /* records are missing */
	VERIFY_CONTRADICTION, /* records say what cannot be */
	VERIFY_OPERATION,     /* an operation has no record of legacy order */
	VERIFY_FINDING_KINDS,
};

struct verify_operation {
	uint64_t sequence; /* of its record; 0: none */
	uint64_t
		covered; /* what is behind all records up to this one is behind it; grows until its call returns */
	uint32_t stream, place, function;
	bool is_gone; /* its stream's number was given to another one since */
};

struct verify_finding {
	enum verify_finding_kind kind;
	uint32_t process, context;             /* context 0: the process as a whole */
	struct verify_operation before, after; /* VERIFY_EDGE, VERIFY_FLIGHT */
	uint64_t stale,
		stale_recorded; /* VERIFY_EDGE: a barrier that is too old; 0: there is none */
	char *text; /* one line, in words that may be foreign; verify_finish() fills those of edges */
};

/* What the wrappers of driver calls tell, apart from the rewrite. */
struct verify_submissions {
	uint64_t
		ordered; /* operations and records of events of legacy, blocking and per-thread streams */
	uint64_t elsewhere;      /* of other streams */
	uint64_t without_effect; /* that put nothing on a stream, as they say, without a record */
};

struct verify_result {
	struct verify_submissions submissions;
	uint64_t contexts, records, operations, legacy, refused, orderings, turns;
	uint64_t barriers[TRACE_ORDER_HOST + 1]; /* by kind */
	uint64_t elisions[TRACE_ORDER_ORDERED + 1];
	/* Legacy operations by reason; 0: on the substitute. */
	uint64_t natives[TRACE_ORDER_DENIED + 1];
	uint64_t counts[VERIFY_FINDING_KINDS]; /* all findings */
	struct verify_finding *findings;
	size_t finding_count, finding_capacity;
};

struct verify;

struct verify *verify_new(void);
struct verify *verify_free(struct verify *verify);

/* Processes are numbered by the caller; a name is for messages and copied. */
void verify_name_process(struct verify *verify, uint32_t process, const char *name);

/* One event, of the order or not; `payload` is a struct trace_<event>. */
void verify_take(struct verify *verify, uint32_t process, enum trace_event event,
		 const void *payload);

/* The trace as a whole lacks something: one line, which is verify's from now on. */
void verify_incomplete(struct verify *verify, char *text);

/* No more comes: what is missing is a finding. */
void verify_finish(struct verify *verify);

/* Valid as long as `verify`. */
const struct verify_result *verify_result(const struct verify *verify);

/* All of it holds, and it was not nothing unless `may_be_empty`. After verify_finish(). */
bool verify_is_proved(const struct verify *verify, bool may_be_empty);

/* For a finding of the trace; "" where there is one process only. */
const char *verify_process_name(const struct verify *verify, uint32_t process);

/* text.c: a golden trace or journal. 0, or -errno with one line in *reterr_text (the caller frees). */
int verify_read_text(struct verify *verify, const char *path, char **reterr_text);

/*
 * trace.c: CTF, from a folder. As verify_read_text(); what was read before an error is taken in.
 * -ENOSYS: this build has no reader.
 */
int verify_read_trace(struct verify *verify, const char *path, char **reterr_text);

#endif
