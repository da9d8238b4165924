// SPDX-License-Identifier: MIT
/*
 * Check, S03: a thread asks one stream or event again and again, and each time gets NOT_READY, with no other call and no time between. Who sleeps, or
 * works, between two queries is no busy poller.
 *
 * row	each thread's own
 */
#include "check/internal.h"

#include "check/kinds.h"
#include "clock.h"

/* So many in a row. */
#define LEAST_COUNT 256
/* Less than a wake-up from the shortest sleep. */
#define BETWEEN_NS 10000

struct row {
	uint16_t function;
	uint64_t subject;
	uint64_t left; /* ticks: when the last of them returned */
	uint32_t count;
};

static __thread struct row row __attribute__((tls_model("initial-exec")));

static bool is_query(const struct call *call)
{
	return check_queries_stream(call) || check_queries_event(call);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	if (result != CUDA_ERROR_NOT_READY || !is_query(call)) {
		row.count = 0;
		return;
	}
	if (row.count && row.function == call->function && row.subject == arguments[0] &&
	    clock_duration_ns(row.left, call->entered) < BETWEEN_NS)
		row.count++;
	else
		row.count = 1;
	row.function = call->function;
	row.subject = arguments[0];
	row.left = call->left;
	/* Once for each row. */
	if (row.count == LEAST_COUNT)
		check_remark(call, RULE_BUSY_POLLING, NULL);
}

static void forget(void)
{
	row.count = 0;
}

const struct check_rule check_polling_rule = {.after = after, .forget = forget};
