/* SPDX-License-Identifier: MIT */
/*
 * How a call was answered that the driver did not get as it was made: `how` of the probe `rewrite` (usdt.h) and of the event `claimed`. Apart from
 * the probes for who only reads the number (tools/witness_summary.c).
 */
#ifndef SLIPSTREAM_EMIT_USDT_HOW_H
#define SLIPSTREAM_EMIT_USDT_HOW_H

/* What a rewrite did in the driver's place. The first three as in a trace (tracing/events.yaml); tools/witness_summary.c has the words for all. */
enum usdt_how {
	USDT_REWRITE_HIT = 1,
	USDT_REWRITE_PARKED,
	USDT_REWRITE_STAGED,
	USDT_REWRITE_REDIRECTED,    /* the operation went to the legacy stream's substitute */
	USDT_REWRITE_PARKED_WAITED, /* parked behind the wait that strict-free asks for */
};

#endif
