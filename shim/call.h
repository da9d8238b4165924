// SPDX-License-Identifier: MIT
/*
 * struct call: one driver call of the program, on its way through the rooms.
 *
 * A generated wrapper (entry) fills it from its arguments as the catalogue row says, then the rooms
 * read it in this order:
 *
 *	entry_begin()    entry   counts the call, finds the thread; false: pass through untouched
 *	state_before()   state   context, stream, kinds of memory, what is pending (the snapshot)
 *	state_<event>()  state   what must be known before the call (the row's `before`)
 *	check_before()   check   rules of order, then guard; if `check_on`
 *	driver.cuX()     driver  the real call; in mode fix the row's rewrite may take its place
 *	sync_after()     sync    what it waited for: rule, cause, blocked time; hands it to emit
 *	state_<event>()  state   what the call told (the row's `result`), whatever the status; then what
 *	                         it changed (its `after`), only on success
 *	state_after()    state   numbers: submission, completion
 *	check_after()    check   rules of order, then guard, by what is known now; if `check_on`
 *
 * A plain kernel launch takes the short way past all of this (state/launch.h), and so may pinned memory in mode fix (rewrite/short.h).
 *
 * It lives on the caller's stack and belongs to the calling thread alone. Nothing in it is
 * allocated.
 */
#ifndef SLIPSTREAM_CALL_H
#define SLIPSTREAM_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "emit/record.h"

struct state_context;
struct state_event;
struct state_stream;

/* How a row says which stream the call works on. */
enum call_stream {
	CALL_STREAM_NONE = 0, /* works on no stream */
	CALL_STREAM_ARGUMENT, /* a CUstream; 0: legacy, or per-thread under a _ptsz name */
	CALL_STREAM_IMPLICIT, /* a synchronous copy or memset: the same as 0, by its name */
	CALL_STREAM_CONTEXT,  /* all streams of the current context */
};

enum call_flag {
	CALL_PER_THREAD = 1 << 0,   /* entered under a _ptds/_ptsz name */
	CALL_ASYNC = 1 << 1,        /* the row calls itself asynchronous */
	CALL_FIRST_USE = 1 << 2,    /* first launch of this function handle in this process */
	CALL_SYNC_MEMOPS = 1 << 3,  /* an operand or the context has SYNC_MEMOPS */
	CALL_CAPTURED = 1 << 4,     /* the stream is capturing: no submission, no wait */
	CALL_TWO_CONTEXTS = 1 << 5, /* peer copy: `peer_context` and `peer_to` are set */
	/*
	 * The operand may be host memory (a `void *` parameter, or the unified addresses of
	 * cuMemcpy): an address in no known range is then pageable. Without the flag (a
	 * CUdeviceptr) such an address is MEMORY_UNKNOWN. Set by the wrapper.
	 */
	CALL_SOURCE_HOST = 1 << 6,
	CALL_DESTINATION_HOST = 1 << 7,
	CALL_EVENT_RECORDING = 1 << 8, /* these two are state's own: a record has begun, ... */
	CALL_EVENT_RECORDED = 1 << 9,  /* ... has succeeded; state_after() settles it */
	/*
	 * state_before() ran after the real call (a plain launch that took long: state/launch.h).
	 */
	CALL_LATE = 1 << 10,
	CALL_CONTEXT_ENDING =
		1 << 11,          /* state's own: its streams are forgotten already (proof.c) */
	CALL_REWRITTEN = 1 << 12, /* a rewrite made the result; the driver was not called */
	CALL_UNWAITED = 1 << 13,  /* a rewrite left out the wait that the copy is known for */
	CALL_STAGED =
		1
		<< 14, /* a copy that a rewrite made in the driver's place, at a cost of its own */
	/* Not known to have been launched in this context: a kernel of a library is loaded in each. */
	CALL_FIRST_HERE = 1 << 15,
};

/* A stream that had work not known complete when the call began. */
struct call_pending {
	struct state_stream *stream;
	uint64_t submitted; /* its newest submission number at entry */
	uint64_t name;      /* the youngest operation, for state_operation_name() */
	uint32_t operation; /* enum operation_kind */
	uint32_t certain;   /* 1: found unfinished by a query (--attribute) */
};

#define CALL_PENDING_MAX 64

struct call {
	uint16_t function;                     /* enum function_number (generated) */
	uint16_t flags;                        /* enum call_flag */
	uint8_t stream_form;                   /* enum call_stream */
	uint8_t source_kind, destination_kind; /* enum memory_kind; state_before() fills */
	uint8_t flight;                        /* state's own (state/flight.h) */
	uint8_t operation; /* enum operation_kind of what it submits; OPERATION_UNKNOWN: nothing */

	/* From the arguments. */
	CUstream stream_handle;       /* as given; 0 for CALL_STREAM_IMPLICIT */
	uint64_t source, destination; /* addresses; 0: no such operand, or an array */
	uint64_t bytes;               /* moved or allocated; 0 unknown */
	uint64_t subject; /* what it is about: function launched, event waited for, pointer freed */
	uint64_t ended; /* id of a context that this very call ends, 0 none; of several the last */
	uint64_t peer_context, peer_to; /* of a peer copy: the source's, and the destination's */

	/* Filled by state_before(). */
	struct state_context *context; /* NULL unknown */
	struct state_stream *stream;   /* NULL none */
	uint32_t stream_kind;          /* enum stream_kind; STREAM_UNKNOWN where `stream` is NULL */
	uint64_t backlog;              /* operations of `stream` not known complete at entry */
	uint64_t submission; /* number this call's own operation got on its stream, 0 none */
	uint64_t order;      /* of its record of legacy order (legacy/tell.c), its number; 0 none */
	/* What catalogue_row.held() said; 0: not asked. Nothing that it goes by changes behind state_before(). */
	uint32_t held;

	/* State's own, from state_before() and the `before` hooks to state_after(). */
	uint64_t entry_number;  /* `stream`'s newest at entry: covered by a record, or a wait */
	uint64_t legacy_number; /* same of the legacy stream, where `stream` is ordered behind it */
	struct state_event *event;           /* of an event call; NULL: not known */
	uint64_t event_record;               /* what the event had recorded at entry */
	uint64_t event_recordings;           /* records of it begun until then */
	uint64_t freed_address, freed_bytes; /* range taken out by state_freeing(); bytes 0: none */
	uint32_t freed_kind, freed_flags;
	uint32_t name;    /* string id of what this call submits: kernel, kind of copy */
	uint32_t capture; /* of the call that ends one: state_stream.capture_sequence at entry */

	/* Time: raw clock ticks (see clock.h), and ns once sync_after() converted them. */
	uint64_t entered, left;

	const void *return_address; /* of the wrapper: innermost frame of the call site */
	const void *frame;          /* stack pointer at entry, to find that frame again */

	uint32_t pending_count; /* length of pending[]; CALL_PENDING_MAX + 1: more than fit */
	struct call_pending pending[CALL_PENDING_MAX];
};

/* Does the handle name a stream that each context has of its own, and nobody created: 0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD? */
static inline bool call_is_own_handle(CUstream handle)
{
	return (uintptr_t)handle <= (uintptr_t)CU_STREAM_PER_THREAD;
}

#endif
