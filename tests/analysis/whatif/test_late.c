// SPDX-License-Identifier: MIT
/*
 * What-if on the shape of a run on an H200 (twin `pageable`, 20 rounds): the copies of 4 KiB return before they are
 * known to be complete, and the last call of all waits by name for what was done long before, which takes the real
 * driver longer than any idle cost that is known of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "by_hand.h"
#include "emit/record.h"
#include "synthetic.h"

#define ROUNDS    20
#define KERNEL_NS (10 * MS)
#define WORK_NS   (6130 * US)
#define COPY_SITE 1
#define LEGACY    1 /* streams */
#define BLOCKING  2

static void completed(struct whatif *whatif, int64_t ns, uint32_t stream, uint64_t number)
{
	struct trace_completed event = {stream, number};

	if (number)
		feed(whatif, 1, ns, TRACE_COMPLETED, &event);
}

/* A launch, and behind it the copy, which returns at `end`; the events as the run had them. */
static void feed_round(struct whatif *whatif, uint64_t number, int64_t begin, int64_t end)
{
	uint64_t call_ns = (uint64_t)(end - begin - 12 * US);
	struct trace_join launch_join = {BLOCKING, number, LEGACY, number - 1};
	struct trace_join copy_join = {LEGACY, number, BLOCKING, number};
	struct trace_wait wait = {.wait = synthetic_wait_id(ACTION_COPY_THERE, COPY_SITE),
				  .candidates = synthetic_candidates_id(number > 1 ? 3 : 2),
				  .stream = LEGACY,
				  .bytes = 4096,
				  .blocked_ns = call_ns - (uint64_t)(7 * US),
				  .call_ns = call_ns};
	struct trace_submit copy = {.stream = LEGACY,
				    .operation = OPERATION_COPY,
				    .number = number,
				    .bytes = 4096,
				    .call_ns = call_ns};

	launch(whatif, begin, BLOCKING, number);
	if (number > 1)
		feed(whatif, 1, begin + 1 * US, TRACE_JOIN, &launch_join);
	feed(whatif, 1, end, TRACE_WAIT, &wait);
	feed(whatif, 1, end + 1 * US, TRACE_SUBMIT, &copy);
	feed(whatif, 1, end + 2 * US, TRACE_JOIN, &copy_join);
	completed(whatif, end + 3 * US, LEGACY, number - 1);
	completed(whatif, end + 3 * US, BLOCKING, number);
	completed(whatif, end + 3 * US, LEGACY, number - 1);
}

/* Ends with a wait by name that took so long, 6 ms after all it waits for was done; the row of the copies. */
static struct whatif_row told(int64_t last_call_ns, int64_t *ret_unexplained_ns)
{
	struct whatif *whatif = whatif_new(NULL);
	struct trace_wait wait = {.wait = synthetic_wait_id(ACTION_CONTEXT_SYNC, 2),
				  .candidates = synthetic_candidates_id(1),
				  .blocked_ns = (uint64_t)last_call_ns,
				  .call_ns = (uint64_t)last_call_ns};
	const struct whatif_result *result;
	struct whatif_row row;
	int64_t now = 1 * MS;
	size_t place;

	mark(whatif, now);
	for (uint64_t number = 1; number <= ROUNDS; number++) {
		now += 20 * US;
		feed_round(whatif, number, now, now + KERNEL_NS);
		now += KERNEL_NS + WORK_NS;
	}
	now += last_call_ns;
	feed(whatif, 1, now, TRACE_WAIT, &wait);
	completed(whatif, now + 1 * US, LEGACY, ROUNDS);
	mark(whatif, now + 100 * US);
	result = finish(whatif, 0);
	row = *row_of(result, COPY_SITE, &place);
	*ret_unexplained_ns = result->processes[0].unexplained_ns;
	whatif_free(whatif);
	return row;
}

/* 13.7 us, as in the run: the thread goes on late, and what was saved before is still saved. */
static void test_late(void **state)
{
	int64_t unexplained_ns;
	struct whatif_row row = told(13720, &unexplained_ns);

	assert_int_equal(row.count, ROUNDS);
	assert_int_equal(unexplained_ns, 0);
	/* The host's work then runs beside the kernels, in all rounds. */
	assert_true(row.low_ns <= ROUNDS * WORK_NS && ROUNDS * WORK_NS <= row.high_ns);
	assert_true(row.high_ns - row.low_ns < 3 * ROUNDS * WORK_NS / 10);
}

/* Later than a thread goes on: something else was waited for, which may have ended then anyway. It is told. */
static void test_too_late(void **state)
{
	int64_t unexplained_ns;
	struct whatif_row row = told(whatif_defaults.wake_ns + 10 * US, &unexplained_ns);

	assert_int_equal(row.low_ns, 0);
	assert_true(unexplained_ns > 0 && unexplained_ns <= 10 * US);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_too_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
