// SPDX-License-Identifier: MIT
/* What is known of the lanes of one context: shared by order.c, whose head tells what it means, and barrier.c. */
#ifndef SLIPSTREAM_TOOLS_VERIFY_INTERNAL_H
#define SLIPSTREAM_TOOLS_VERIFY_INTERNAL_H

#include "tracing/analysis/table.h"
#include "verify/order.h"

/* The last barrier of a kind, where it is older than its record. */
struct stale {
	uint64_t sequence, recorded;
};

struct lane {
	uint32_t stream, kind, version;
	bool is_told; /* by order_stream: definitions say nothing new */
	bool is_gone;
	bool is_dirty; /* in the list of lanes that had an operation since the last one of L */
	struct lane *next_dirty, *next_gone;
	uint64_t native, substitute; /* S, N: what it is behind */
	uint64_t handed;             /* N: what its last operation was behind, of L */
	uint64_t
		begun; /* S: the last record of an operation that has returned; it is behind N up to there */
	uint64_t joined;              /* L is behind it up to there */
	uint64_t active;              /* legacy operations before its last one, plus one */
	struct verify_operation last; /* the one that is covered last */
	struct stale to_substitute, from_substitute;
};

/*
 * A call that has not returned. What was found of it counts only if the driver took it, so it waits: that it is not behind the substitute,
 * and who else began meanwhile.
 */
struct open_call {
	struct verify_operation operation;
	struct lane *lane; /* NULL: L */
	uint64_t native,
		substitute; /* what it is behind; others are so only once it has returned */
	struct verify_finding edge, flight; /* after.sequence 0: none */
};

struct order {
	struct verify_result *result;
	uint32_t process, context;
	struct table lanes;  /* struct lane *, by number of the stream */
	struct lane *legacy; /* N; NULL: not known yet */
	struct lane *dirty, *gone;
	uint64_t native;              /* of L */
	struct verify_operation last; /* of L */
	uint64_t any_substitute;      /* what any S was behind */
	uint64_t legacy_count,
		active; /* legacy operations; lanes with operations since the last one */
	uint32_t place; /* the turn */
	struct open_call *open;
	size_t open_count, open_capacity;
};

static inline uint64_t larger(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

static inline void advance(uint64_t *value, uint64_t to)
{
	*value = larger(*value, to);
}

/* order.c: the record says what cannot be. */
void order_contradict(struct order *order, uint64_t sequence, const char *what);

/* order.c: NULL: no record has named the stream so far. */
struct lane *order_find_lane(const struct order *order, uint32_t stream);

/* barrier.c */
void order_take_barrier(struct order *order, const struct order_record *record);

#endif
