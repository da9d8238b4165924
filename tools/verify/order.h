// SPDX-License-Identifier: MIT
/*
 * Order: the proof for one context (verify.h). Takes its records one after the other, without gaps, and
 * keeps for each lane what it is known to be behind. Called by records.c; one thread.
 */
#ifndef SLIPSTREAM_TOOLS_VERIFY_ORDER_H
#define SLIPSTREAM_TOOLS_VERIFY_ORDER_H

#include "verify/verify.h"

struct order_record {
	uint64_t sequence;
	enum trace_event event; /* one of order_*, not order_end */
	union {
		struct trace_order_turn turn;
		struct trace_order_barrier barrier;
		struct trace_order_submit submit;
		struct trace_order_stream stream;
		struct trace_order_return returned;
	};
};

/* What definitions say of a stream at this time. */
struct order_stream {
	uint32_t number, kind; /* enum stream_kind */
	uint32_t
		version; /* another one: it is another stream, unless order_stream tells of those */
};

struct order;

/* Findings and counts go to `result`, which stays the caller's. */
struct order *order_new(struct verify_result *result, uint32_t process, uint32_t context);
struct order *order_free(struct order *order);

/* Before a record that names the stream, unless it is an order_stream. */
void order_define(struct order *order, uint64_t sequence, const struct order_stream *stream);

/* order_stream told what this number stands for, so that no definition is needed. */
bool order_knows(const struct order *order, uint32_t stream);

void order_take(struct order *order, const struct order_record *record);

/* No more records come. */
void order_finish(struct order *order);

#endif
