// SPDX-License-Identifier: MIT
/*
 * By hand: feeds the consumer of what-if with events that a test makes up, with the model of the synthetic programs
 * (synthetic_model.c). What fails, fails the test.
 */
#ifndef BY_HAND_H
#define BY_HAND_H

#include <stddef.h>
#include <stdint.h>

#include "tracing/analysis/whatif.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

void feed(struct whatif *whatif, uint32_t thread, int64_t ns, enum trace_event id,
	  const void *payload);
/* The end of the trace; lives as long as `whatif`. */
const struct whatif_result *finish(struct whatif *whatif, uint64_t discarded);

/* A kernel that thread 1 launched. */
void launch(struct whatif *whatif, int64_t ns, uint32_t stream, uint64_t number);
/* An event of thread 1 that says nothing, for where the run begins and ends. */
void mark(struct whatif *whatif, int64_t ns);

const struct whatif_row *row_of(const struct whatif_result *result, uint32_t site,
				size_t *ret_place);
void assert_about(int64_t value, int64_t expected, int64_t error);

#endif
