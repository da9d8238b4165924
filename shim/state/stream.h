// SPDX-License-Identifier: MIT
/*
 * Stream: the entry of a stream. internal.h tells who writes and who reads; outside this room only the short way of a launch
 * (launch.h), which is inlined into the wrappers, looks into the first cache line.
 */
#ifndef SLIPSTREAM_STATE_STREAM_H
#define SLIPSTREAM_STATE_STREAM_H

#include <stdint.h>

struct record_stream;
struct state_context;

struct state_stream {
	/* One cache line for launches (launch.c). */
	uint64_t handle;   /* 0: none (legacy, per-thread, destroyed) */
	uint64_t launcher; /* the thread that counts its plain launches in `launched`; 0 none */
	uint64_t launched;
	uint64_t submitted; /* all other operations; stream_submitted() is the number of both */
	uint64_t completed;
	uint64_t youngest; /* operation << 32 | string id */
	uint64_t capture;  /* capture it is part of (capture.c); 0 none */
	uint32_t kind;     /* enum stream_kind */
	uint32_t index;    /* bit in the lists; number in reports less one; constant */

	struct state_context *context;
	uint64_t joined;        /* the legacy stream is ordered behind this stream up to here ... */
	uint64_t joined_by;     /* ... from its own operation with this number on */
	uint64_t legacy_joined; /* this stream is ordered behind the legacy stream up to here ... */
	uint64_t legacy_at;     /* ... from its own operation with this number on */
	uint32_t joining;
	uint32_t capture_sequence; /* odd: this stream began a capture that goes on (capture.c) */
	uint64_t owner;            /* serial of the thread of a per-thread stream */
	uint64_t host_function;    /* number of its youngest host function (live.c) */
	/* The legacy room's own, 0 for each new stream: state_legacy_epoch(), state_legacy_told(). */
	uint64_t legacy_epoch;
	uint32_t legacy_told;
	struct state_stream *next; /* in the list of entries to take over; under LOCK_STATE */
	/* What it is, in the record file; NULL: not written. Under LOCK_STATE. */
	struct record_stream *record;
} __attribute__((aligned(64)));

#endif
