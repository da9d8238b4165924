// SPDX-License-Identifier: MIT
/*
 * The catalogue as C tables: what is known of every driver function before it is called. Written
 * from functions.yaml and rules.yaml by tools/gen/catalogue.py (FORMAT.md says what a row may
 * hold); this file owns the types, catalogue_generated.h the numbers.
 *
 * Read by entry (counts, hand-out), state (scopes), sync (rules), emit and driver (names). All of it is
 * constant data: no lock, no initialisation, valid in a process that never uses CUDA.
 */
#ifndef SLIPSTREAM_CATALOGUE_CATALOGUE_H
#define SLIPSTREAM_CATALOGUE_CATALOGUE_H

#include <stdbool.h>
#include <stdint.h>

#include "emit/record.h"

/*
 * enum function_number: FUNCTION_<exported name> for every export known. First those with a
 * prototype in the headers (they have a wrapper), FUNCTION_WRAPPED_COUNT of them in the order of
 * their names; then the exported names without, counted by thunks. enum rule_number: RULE_<SLUG>,
 * `-` as `_`, in the order of rules.yaml. FUNCTION_WRAPPED_COUNT, FUNCTION_COUNT, RULE_COUNT.
 */
#include "catalogue/catalogue_generated.h"

struct call;

enum catalogue_kind {
	CATALOGUE_KIND_MISC = 0, /* also: names without a row */
	CATALOGUE_KIND_ALLOC,
	CATALOGUE_KIND_CAPTURE,
	CATALOGUE_KIND_CONTEXT,
	CATALOGUE_KIND_COPY,
	CATALOGUE_KIND_EVENT,
	CATALOGUE_KIND_EXTERNAL,
	CATALOGUE_KIND_FREE,
	CATALOGUE_KIND_GRAPH,
	CATALOGUE_KIND_GRAPHICS,
	CATALOGUE_KIND_HOSTFUNC,
	CATALOGUE_KIND_INIT,
	CATALOGUE_KIND_IPC,
	CATALOGUE_KIND_LAUNCH,
	CATALOGUE_KIND_LIMIT,
	CATALOGUE_KIND_MEMOP,
	CATALOGUE_KIND_MEMSET,
	CATALOGUE_KIND_MODULE,
	CATALOGUE_KIND_PEER,
	CATALOGUE_KIND_POOL,
	CATALOGUE_KIND_PREFETCH,
	CATALOGUE_KIND_QUERY,
	CATALOGUE_KIND_REGISTER,
	CATALOGUE_KIND_STREAM,
	CATALOGUE_KIND_TEXTURE,
	CATALOGUE_KIND_VMM,
	CATALOGUE_KIND_WAIT,
};

enum catalogue_level {
	CATALOGUE_LEVEL_COUNT = 0, /* counted only */
	CATALOGUE_LEVEL_TIMED = 1, /* and timed, operands looked up, rules applied */
	CATALOGUE_LEVEL_FULL = 2,  /* and what was pending at entry is noted */
};

enum catalogue_flag {
	CATALOGUE_ASYNC = 1 << 0, /* has a stream argument and puts work on it: sets CALL_ASYNC */
	/* On a capturing stream it submits nothing and waits for nothing. */
	CATALOGUE_CAPTURABLE = 1 << 1,
	CATALOGUE_HAS_BEFORE = 1 << 2, /* has a `before` hook */
	CATALOGUE_HAS_AFTER = 1 << 3,
	CATALOGUE_HAS_RESULT = 1 << 4,
	CATALOGUE_SEVERAL =
		1
		<< 5, /* a batch: several operations, of which some may be submitted when it fails */
	CATALOGUE_SIZED = 1 << 6, /* its bytes are known: without any it puts nothing on a stream */
};

enum catalogue_barrier {
	CATALOGUE_BARRIER_NONE = 0,
	CATALOGUE_BARRIER_STREAM, /* orders its own stream only */
	CATALOGUE_BARRIER_JOIN,   /* on the legacy stream: joins the context's blocking streams */
	CATALOGUE_BARRIER_JOIN_PEERS, /* same, in the contexts of both operands */
	CATALOGUE_BARRIER_CONTEXT,    /* all streams of the context */
};

/* What a rule waits for: which of the pending streams can be the reason. */
enum catalogue_scope {
	/* No GPU work: pinning, compiling, driver locks; candidates are not looked at. */
	CATALOGUE_SCOPE_HOST = 0,
	CATALOGUE_SCOPE_STREAM, /* the call's own stream; if that is the legacy stream, every
				   blocking stream of the context too */
	CATALOGUE_SCOPE_LEGACY, /* legacy stream and all blocking streams of the context, whatever
				   the call's stream */
	CATALOGUE_SCOPE_JOIN, /* legacy order, other streams only: on the legacy stream all blocking
				 streams of the context; on a blocking or per-thread stream the
				 legacy stream; on a non-blocking one nothing */
	CATALOGUE_SCOPE_CONTEXT, /* all streams of the context */
	CATALOGUE_SCOPE_DEVICE,  /* all streams of all contexts */
	CATALOGUE_SCOPE_EVENT,   /* the record of the event named by call->subject */
};

/* One exported function. Constant for a build; indexed by enum function_number. */
struct catalogue_row {
	uint8_t kind;        /* enum catalogue_kind */
	uint8_t level;       /* enum catalogue_level */
	uint8_t stream_form; /* enum call_stream */
	uint8_t flags;       /* enum catalogue_flag */
	uint8_t submits;     /* enum operation_kind; OPERATION_UNKNOWN: nothing */
	uint8_t barrier;     /* enum catalogue_barrier */
	uint8_t makes; /* enum memory_kind of what it allocates, maps or pins; MEMORY_NONE: nothing */
	uint8_t padding;
	uint32_t idle_fixed_ns;    /* host time of the call with an idle device; 0: not known */
	uint32_t idle_ps_per_byte; /* and for each byte moved */
	const uint8_t *rules; /* rule numbers plus one, in the order they are tried, ended by 0;
				 never NULL */
	/* Which of `rules` hold of this very call: enum catalogue_held; never NULL. */
	uint32_t (*held)(const struct call *call);
};

/* What catalogue_row.held() says; never 0. */
enum catalogue_held {
	CATALOGUE_HELD_RULES = 0xffff,   /* bit i: the condition of the i-th of `rules` holds */
	CATALOGUE_HELD_SCOPE_SHIFT = 16, /* from here on: bits 1 << enum catalogue_scope of these */
	CATALOGUE_HELD_SCOPES = 0xff,    /* shifted */
	CATALOGUE_HELD_EXPLICIT = 1 << 24, /* one of them is explicit */
	CATALOGUE_HELD_KNOWN = 1 << 25,
};

struct catalogue_rule {
	const char *slug, *cause;
	uint8_t wait_class; /* enum wait_class */
	uint8_t scope;      /* enum catalogue_scope */
	uint8_t flags;      /* enum record_rule_flag */
	bool measured; /* confidence is measured or documented: the wait is to be expected, not only
			  possible */
	uint32_t minimum_ns;                   /* report above this only; 0: the shim's threshold */
	bool (*when)(const struct call *call); /* never NULL; reads the filled-in call only */
};

extern const char *const function_names[FUNCTION_COUNT];
extern const struct catalogue_row catalogue_rows[FUNCTION_COUNT];
extern const struct catalogue_rule catalogue_rules[RULE_COUNT];

/* FNV-1a of both data files: two builds with the same id classify alike. */
extern const uint64_t catalogue_id;

/* Number of an exported name, or -1. Binary search over a sorted index, no allocation. */
int catalogue_function(const char *name);

#endif
