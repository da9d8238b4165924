/* SPDX-License-Identifier: MIT */
/*
 * Operations: does each operation that the trace itself has on a legacy, blocking or per-thread stream of one context have its record of
 * legacy order, and each such record its operation? Without that, an operation that the rewrite never saw would be proved.
 *
 * `submit` and `record` are what the wrappers of driver calls tell of each call that the driver took, whatever the rewrite did; they name their
 * order_submit, if there is one. Called by records.c; one thread.
 */
#ifndef SLIPSTREAM_TOOLS_VERIFY_OPERATIONS_H
#define SLIPSTREAM_TOOLS_VERIFY_OPERATIONS_H

#include "verify/names.h"
#include "verify/verify.h"

/* One without a record. */
struct bare_operation {
	bool is_event; /* the record of one, behind operation `number` */
	bool is_peer;  /* a copy between contexts, in the one that its stream is not of */
	uint32_t stream, function;
	uint64_t number;
};

struct operations {
	/*
	 * Records and operations that wait for each other: by number of the record; of copies between contexts by that of the record in the other context,
	 * and that context.
	 */
	struct table pairs;
	uint64_t paired; /* in the table */
	struct bare_operation *bare;
	size_t bare_count, bare_capacity;
	uint64_t bare_all; /* more than VERIFY_FINDINGS_MAX are only counted */
	struct verify_submissions counts;
};

void operations_start(struct operations *operations);
void operations_done(struct operations *operations);

/* In any order. */
void operations_take_submit(struct operations *operations, const struct trace_submit *submit);
void operations_take_event(struct operations *operations, const struct trace_record *record);
/* In the context that it names first. */
void operations_take_peer(struct operations *operations, const struct trace_submit_peer *peer);
void operations_take_order(struct operations *operations, const struct trace_order_submit *order);
/* Behind its order_submit. */
void operations_take_return(struct operations *operations,
			    const struct trace_order_return *returned);

/*
 * No more comes: what is left is found. `is_whole`: no record of the context is missing, else what has none may have had one, and the gap is
 * told anyway.
 */
void operations_finish(const struct operations *operations, struct verify_result *result,
		       uint32_t process, uint32_t context, const struct names *names,
		       bool is_whole);

#endif
