// SPDX-License-Identifier: MIT
/* Traces made by hand, and what what-if says of them (by_hand.h). */
#include "by_hand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "emit/record.h"
#include "synthetic.h"

void feed(struct whatif *whatif, uint32_t thread, int64_t ns, enum trace_event id,
	  const void *payload)
{
	struct analysis_event event = {.id = id, .thread = thread, .ns = ns, .payload = payload};
	char *error = NULL;

	assert_int_equal(whatif_ops.event(whatif, synthetic_model(), &event, &error), 0);
}

const struct whatif_result *finish(struct whatif *whatif, uint64_t discarded)
{
	struct analysis_end end = {.discarded = discarded};
	char *error = NULL;

	assert_int_equal(whatif_ops.finish(whatif, synthetic_model(), &end, &error), 0);
	return whatif_result(whatif);
}

void launch(struct whatif *whatif, int64_t ns, uint32_t stream, uint64_t number)
{
	struct trace_submit submit = {
		.stream = stream, .operation = OPERATION_KERNEL, .number = number, .call_ns = 5000};

	feed(whatif, 1, ns, TRACE_SUBMIT, &submit);
}

void mark(struct whatif *whatif, int64_t ns)
{
	struct trace_dump_end dump = {0};

	feed(whatif, 1, ns, TRACE_DUMP_END, &dump);
}

const struct whatif_row *row_of(const struct whatif_result *result, uint32_t site,
				size_t *ret_place)
{
	for (size_t i = 0; i < result->row_count; i++)
		if (result->rows[i].site == site) {
			*ret_place = i;
			return &result->rows[i];
		}
	fail_msg("no row of site %u", site);
	return NULL;
}

void assert_about(int64_t value, int64_t expected, int64_t error)
{
	if (value < expected - error || value > expected + error)
		fail_msg("%lld, expected %lld within %lld", (long long)value, (long long)expected,
			 (long long)error);
}
