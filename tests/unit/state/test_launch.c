// SPDX-License-Identifier: MIT
/*
 * The short way of a launch: taken only where the long way would have nothing to say, and what it
 * counts is what the long way counts. Each "not plain" case fails when the check that refuses it is
 * off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "fake/world.h"
#include "state/internal.h"
#include "state/launch.h"
#include "state/state.h"

#define A STREAM(0) /* blocking */
#define B STREAM(1) /* blocking */
#define N STREAM(2) /* non-blocking */

static struct state_launch launch;

static bool is_plain(CUstream stream, uint64_t function)
{
	return state_launch_is_plain(stream, (CUfunction)(uintptr_t)function, false, &launch);
}

/* The first launch on a stream, of a function, is never plain; it fills the caches. */
static int begin(void **state)
{
	if (world_begin(state))
		return 1;
	world_create_stream(A, 0);
	world_create_stream(N, CU_STREAM_NON_BLOCKING);
	return 0;
}

static void test_first_use(void **state)
{
	uint64_t other;

	assert_false(is_plain(N, KERNEL(0)));
	world_launch(N, KERNEL(0));
	assert_true(is_plain(N, KERNEL(0)));
	other = KERNEL(1);
	while (thread_slot(other, THREAD_KERNELS) == thread_slot(KERNEL(0), THREAD_KERNELS))
		other += 0x80;
	assert_false(is_plain(N, other));
	world_launch(N, other);
	assert_true(is_plain(N, other));
	assert_true(is_plain(N, KERNEL(0)));
	assert_false(is_plain(STREAM(7), KERNEL(0)));
}

static void test_counts(void **state)
{
	const CUstream all[] = {N};
	struct state_stream *stream;

	world_launch(N, KERNEL(0));
	world_synchronize(N);
	assert_int_equal(world_pending(all, 1), 0);
	stream = stream_find((uintptr_t)N);
	assert_true(is_plain(N, KERNEL(0)));
	assert_int_equal(stream->submitted, 1);
	state_launch_submitted(&launch);
	assert_int_equal(stream->submitted, 2);
	assert_int_equal(stream->youngest >> 32, OPERATION_KERNEL);
	assert_int_equal(world_pending(all, 1), 1);
	world_synchronize(N);
	assert_int_equal(world_pending(all, 1), 0);
}

static void test_capture(void **state)
{
	struct call call;

	world_launch(N, KERNEL(0));
	assert_true(is_plain(N, KERNEL(0)));
	call = world_call(FUNCTION_cuStreamQuery, N);
	state_before(&call);
	state_capture_begun(&call, N, CU_STREAM_CAPTURE_MODE_RELAXED);
	state_after(&call, CUDA_SUCCESS);
	assert_false(is_plain(N, KERNEL(0)));
}

static void test_legacy_with_new_blocking_work(void **state)
{
	world_launch(LEGACY, KERNEL(0));
	assert_true(is_plain(LEGACY, KERNEL(0)));
	assert_true(is_plain(CU_STREAM_LEGACY, KERNEL(0)));
	world_launch(N, KERNEL(0));
	assert_true(is_plain(LEGACY, KERNEL(0)));
	world_launch(A, KERNEL(0));
	assert_false(is_plain(LEGACY, KERNEL(0)));
	/* Joined by the long way: the next one has nothing new to join. */
	world_launch(LEGACY, KERNEL(0));
	assert_true(is_plain(LEGACY, KERNEL(0)));
}

static void test_blocking_with_new_legacy_work(void **state)
{
	world_launch(A, KERNEL(0));
	assert_true(is_plain(A, KERNEL(0)));
	world_launch(LEGACY, KERNEL(0));
	assert_false(is_plain(A, KERNEL(0)));
	world_launch(A, KERNEL(0));
	assert_true(is_plain(A, KERNEL(0)));
}

static void test_per_thread_and_unseen(void **state)
{
	world_launch(PER_THREAD_, KERNEL(0));
	assert_false(is_plain(PER_THREAD_, KERNEL(0)));
	assert_false(state_launch_is_plain(NULL, (CUfunction)(uintptr_t)KERNEL(0), true, &launch));
	world_launch(STREAM(9), KERNEL(0));
	assert_false(is_plain(STREAM(9), KERNEL(0)));
}

static void test_handles_that_come_back(void **state)
{
	const struct state_stream *old;

	world_launch(N, KERNEL(0));
	assert_true(is_plain(N, KERNEL(0)));
	old = launch.stream;
	world_destroy_stream(N);
	assert_false(is_plain(N, KERNEL(0)));
	world_create_stream(N, 0);
	world_launch(N, KERNEL(0));
	assert_true(is_plain(N, KERNEL(0)));
	assert_ptr_equal(launch.stream, stream_find((uintptr_t)N));
	assert_true(launch.stream != old || stream_kind(launch.stream) == STREAM_BLOCKING);
}

static void test_another_context(void **state)
{
	world_launch(LEGACY, KERNEL(0));
	assert_true(is_plain(LEGACY, KERNEL(0)));
	world_context = 2;
	assert_true(is_plain(LEGACY, KERNEL(0)));
	assert_ptr_equal(launch.stream, context_current()->legacy);
	world_context = 0;
	assert_false(is_plain(LEGACY, KERNEL(0)));
}

/* A late look (CALL_LATE) may have missed what came first: nothing is concluded from it. */
static void test_late_concludes_nothing(void **state)
{
	const CUstream all[] = {A};
	struct call call;

	world_launch(A, KERNEL(0));
	call = world_call(FUNCTION_cuLaunchKernel, LEGACY);
	call.subject = KERNEL(0);
	call.flags |= CALL_LATE;
	state_before(&call);
	state_after(&call, CUDA_SUCCESS);
	/*
	 * The legacy operation is observed; had it joined, the blocking stream's work would be
	 * known complete.
	 */
	order_complete(call.stream, call.submission);
	assert_int_equal(world_pending(all, 1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_first_use, begin),
		cmocka_unit_test_setup(test_counts, begin),
		cmocka_unit_test_setup(test_capture, begin),
		cmocka_unit_test_setup(test_legacy_with_new_blocking_work, begin),
		cmocka_unit_test_setup(test_blocking_with_new_legacy_work, begin),
		cmocka_unit_test_setup(test_per_thread_and_unseen, begin),
		cmocka_unit_test_setup(test_handles_that_come_back, begin),
		cmocka_unit_test_setup(test_another_context, begin),
		cmocka_unit_test_setup(test_late_concludes_nothing, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
