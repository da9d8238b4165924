// SPDX-License-Identifier: MIT
/*
 * What `slipstream calibrate` makes of the figures of staged copies: which are as fast as the driver's, and from which size on all are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calibrate/staging.h"
#include "sync/calibration.h"

#define US 1000

static bool is_as_fast(uint64_t staged_call, uint64_t driver_call, uint64_t staged_whole,
		       uint64_t driver_whole, uint64_t kernel)
{
	return staging_is_as_fast((struct staging_figures){staged_call, staged_whole},
				  (struct staging_figures){driver_call, driver_whole}, kernel);
}

static void test_margin(void **state)
{
	assert_true(is_as_fast(100 * US, 100 * US, 100 * US, 100 * US, 0));
	assert_true(is_as_fast(105 * US, 100 * US, 105 * US, 100 * US, 0));
	assert_false(is_as_fast(105 * US + 1, 100 * US, 100 * US, 100 * US, 0));
	assert_false(is_as_fast(100 * US, 100 * US, 105 * US + 1, 100 * US, 0));
	/* Of the smallest, 5 % are less than a call differs by from one to the next. */
	assert_true(is_as_fast(3300, 3000, 3300, 3000, 0));
	assert_false(is_as_fast(3301, 3000, 3301, 3000, 0));
}

/* What both waited for gives no margin. */
static void test_kernel(void **state)
{
	assert_true(is_as_fast(210 * US, 200 * US, 210 * US, 200 * US, 0));
	assert_false(is_as_fast(210 * US, 200 * US, 210 * US, 200 * US, 150 * US));
	assert_true(is_as_fast(202 * US, 200 * US, 202 * US, 200 * US, 150 * US));
	/* A call that did not wait for it. */
	assert_true(is_as_fast(63 * US, 60 * US, 200 * US, 200 * US, 150 * US));
	/* The kernel alone took longer than with a copy behind it: as little margin as there is. */
	assert_true(is_as_fast(10 * US, 10 * US, 140 * US + 300, 140 * US, 150 * US));
	assert_false(is_as_fast(10 * US, 10 * US, 140 * US + 301, 140 * US, 150 * US));
	/* Where a wait is left out only the call counts. */
	assert_true(staging_is_call_as_fast(10 * US, 155 * US, 150 * US));
	assert_false(staging_is_call_as_fast(156 * US, 155 * US, 150 * US));
}

static void test_from(void **state)
{
	static const size_t sizes[] = {4096, 8192, 16384, 32768};

	assert_int_equal(staging_from(sizes, (bool[]){true, true, true, true}, 4), 4096);
	assert_int_equal(staging_from(sizes, (bool[]){false, false, true, true}, 4), 16384);
	/* One that is slower in between: from behind it. */
	assert_int_equal(staging_from(sizes, (bool[]){true, true, false, true}, 4), 32768);
	assert_true(staging_from(sizes, (bool[]){true, true, true, false}, 4) == CALIBRATION_NEVER);
	assert_true(staging_from(sizes, NULL, 0) == CALIBRATION_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_margin),
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
