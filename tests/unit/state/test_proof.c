// SPDX-License-Identifier: MIT
/*
 * What rewrites may rely on (state/proof.h): what is unfinished, and when nothing can be known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"
#include "fake/world.h"
#include "state/internal.h"
#include "state/proof.h"
#include "state/state.h"

#define A STREAM(0) /* blocking */
#define N STREAM(2) /* non-blocking */

static int begin(void **state)
{
	if (world_begin(state))
		return 1;
	config.mode = CONFIG_FIX;
	world_create_stream(A, 0);
	world_create_stream(N, CU_STREAM_NON_BLOCKING);
	return 0;
}

static int end(void **state)
{
	config.mode = CONFIG_OBSERVE;
	return 0;
}

static uint32_t unfinished(struct state_mark marks[8])
{
	uint32_t count = 99;

	assert_true(state_unfinished(marks, 8, &count));
	return count;
}

static void test_unfinished(void **state)
{
	struct state_mark marks[8];

	assert_int_equal(unfinished(marks), 0);
	assert_true(state_is_idle());
	world_launch(A, KERNEL(0));
	assert_false(state_is_idle());
	world_launch(A, KERNEL(0));
	world_context = 2; /* streams of all contexts */
	world_launch(LEGACY, KERNEL(0));
	assert_int_equal(unfinished(marks), 2);
	assert_false(state_is_complete(&marks[0]));
	assert_false(state_unfinished(marks, 1, &(uint32_t){0}));
	world_context = 1;
	assert_int_equal(unfinished(marks), 2);
	world_synchronize(A);
	assert_true(state_is_complete(&marks[0]));
	assert_false(state_is_complete(&marks[1]));
	/* What comes later does not unmake it. */
	world_launch(A, KERNEL(0));
	assert_true(state_is_complete(&marks[0]));
}

static void *launch_there(void *data)
{
	world_launch(data, KERNEL(0));
	return NULL;
}

/* Never more often than state_is_idle(); less often only where many streams would have to be looked at. */
static void test_glance(void **state)
{
	struct call call = world_call(FUNCTION_cuCtxCreate_v4, NULL);
	pthread_t thread;
	int i;

	assert_int_equal(state_at_a_glance(), STATE_IDLE);
	/* On each kind of stream, by this thread and another; and behind a wait. */
	for (i = 0; i < 6; i++) {
		CUstream stream = i % 3 == 0 ? A : i % 3 == 1 ? N : LEGACY;

		if (i < 3)
			world_launch(stream, KERNEL(0));
		else if (!pthread_create(&thread, NULL, launch_there, stream))
			pthread_join(thread, NULL);
		assert_int_equal(state_at_a_glance(), STATE_WORKS);
		world_synchronize(stream);
		assert_int_equal(state_at_a_glance(), STATE_IDLE);
	}
	world_context = 2;
	world_launch(LEGACY, KERNEL(0));
	world_context = 1;
	assert_int_equal(state_at_a_glance(), STATE_WORKS);
	world_context = 2;
	world_synchronize(LEGACY);
	world_context = 1;
	assert_int_equal(state_at_a_glance(), STATE_IDLE);
	/* Idle streams that nobody has taken off the list are many. */
	for (i = 0; i < 30; i++) {
		world_create_stream(STREAM(10 + i), CU_STREAM_NON_BLOCKING);
		world_launch(STREAM(10 + i), KERNEL(0));
	}
	for (i = 0; i < 30; i++)
		world_synchronize(STREAM(10 + i));
	assert_true(state_is_idle());
	/* More than a short call has time for. */
	assert_int_equal(state_at_a_glance(), STATE_UNCLEAR);
	/* A scan takes them off: any call that waits for all. */
	world_context_synchronize();
	assert_int_equal(state_at_a_glance(), STATE_IDLE);
	world_launch(STREAM(35), KERNEL(0));
	assert_int_equal(state_at_a_glance(), STATE_WORKS);
	world_synchronize(STREAM(35));
	state_before(&call);
	state_context_destroying(&call, (CUcontext)(uintptr_t)1);
	assert_int_equal(state_at_a_glance(), STATE_UNCLEAR);
	state_after(&call, CUDA_SUCCESS);
	assert_int_equal(state_at_a_glance(), STATE_IDLE);
}

static void test_current(void **state)
{
	assert_int_equal(state_current_context(), 1);
	world_context = 7;
	assert_int_equal(state_current_context(), 7);
	world_context = 0;
	assert_int_equal(state_current_context(), 0);
	world_context = 1;
	driver.cuCtxGetId = NULL;
	assert_int_equal(state_current_context(), 0);
}

/* A context's streams are forgotten before it has ended: for that time nothing is complete. */
static void test_ending(void **state)
{
	struct call call = world_call(FUNCTION_cuCtxCreate_v4, NULL);
	struct state_mark marks[8];

	world_launch(N, KERNEL(0));
	assert_int_equal(unfinished(marks), 1);
	state_before(&call);
	state_context_destroying(&call, (CUcontext)(uintptr_t)1);
	assert_false(state_is_complete(&marks[0]));
	assert_non_null(state_objection());
	assert_false(state_is_idle());
	state_after(&call, CUDA_SUCCESS);
	assert_true(state_is_idle());
	assert_true(state_is_complete(&marks[0]));
	assert_null(state_objection());
	assert_false(state_context_lives(1));
}

static void test_did_not_end(void **state)
{
	struct call call = world_call(FUNCTION_cuCtxCreate_v4, NULL);
	struct state_mark marks[8];

	world_launch(N, KERNEL(0));
	assert_int_equal(unfinished(marks), 1);
	state_before(&call);
	state_primary_resetting(&call, 0);
	state_after(&call, CUDA_ERROR_INVALID_DEVICE);
	assert_false(state_is_complete(&marks[0]));
	assert_non_null(state_objection());
}

/* Another device's, or none that was used: nothing was forgotten. */
static void test_nothing_ends(void **state)
{
	struct call call = world_call(FUNCTION_cuCtxCreate_v4, NULL);

	world_launch(N, KERNEL(0));
	state_before(&call);
	state_primary_resetting(&call, 5);
	assert_null(state_objection());
	state_after(&call, CUDA_ERROR_INVALID_DEVICE);
	assert_null(state_objection());
}

static void test_captures(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamSynchronize, N);

	state_before(&call);
	state_capture_beginning(&call);
	assert_non_null(state_objection());
	assert_false(state_asking_begin());
	state_capture_began(&call, CUDA_ERROR_ILLEGAL_STATE);
	assert_null(state_objection());
	state_capture_beginning(&call);
	state_capture_begun(&call, N, CU_STREAM_CAPTURE_MODE_GLOBAL);
	state_capture_began(&call, CUDA_SUCCESS);
	assert_non_null(state_objection());
	state_capture_ending(&call);
	state_capture_result(&call, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	assert_non_null(state_objection());
	state_capture_result(&call, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(state_objection());
	assert_true(state_asking_begin());
	assert_false(state_asking_begin()); /* a signal handler */
	state_asking_end();
}

static void begin_capture(CUstream stream)
{
	struct call call = world_call(FUNCTION_cuStreamQuery, stream);

	state_before(&call);
	state_capture_beginning(&call);
	state_capture_begun(&call, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	state_capture_began(&call, CUDA_SUCCESS);
}

/* A thread that was too late for a capture does not end the next one of the stream. */
static void test_end_behind_the_end(void **state)
{
	struct call first = world_call(FUNCTION_cuStreamQuery, N), second = first;

	begin_capture(N);
	state_before(&first);
	state_capture_ending(&first);
	state_before(&second);
	state_capture_ending(&second);
	state_capture_result(&first, CUDA_SUCCESS);
	assert_null(state_objection());
	begin_capture(N);
	state_capture_result(&second, CUDA_ERROR_ILLEGAL_STATE);
	assert_non_null(state_objection());
	state_before(&first);
	state_capture_ending(&first);
	state_capture_result(&first, CUDA_SUCCESS);
	assert_null(state_objection());
}

static pthread_barrier_t together;

static void *end_once(void *data)
{
	struct call call = world_call(FUNCTION_cuStreamQuery, N);

	state_before(&call);
	state_capture_ending(&call);
	pthread_barrier_wait(&together);
	/* Close to each other, as threads that come out of a barrier are not. */
	__atomic_sub_fetch((int *)data, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n((int *)data, __ATOMIC_SEQ_CST))
		;
	state_capture_result(&call, CUDA_SUCCESS);
	pthread_barrier_wait(&together);
	return NULL;
}

static void *end_again_and_again(void *data)
{
	int *waiting = data;

	for (int i = 0; i < 2000; i++) {
		pthread_barrier_wait(&together); /* a capture has begun */
		end_once(&waiting[i]);
	}
	return NULL;
}

/* Two threads end one capture; the other one that goes on is still counted. */
static void test_ended_by_two_threads(void **state)
{
	static int waiting[2000];
	pthread_t threads[2];
	const char *objection;
	int i;

	pthread_barrier_init(&together, NULL, 3);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, end_again_and_again, waiting),
				 0);
	begin_capture(A);
	for (i = 0; i < 2000; i++) {
		waiting[i] = 2;
		begin_capture(N);
		pthread_barrier_wait(&together);
		pthread_barrier_wait(&together); /* both have entered */
		pthread_barrier_wait(&together); /* both have ended it */
		objection = state_objection();
		assert_non_null(objection);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&together);
}

static void fails(unsigned int function, CUstream stream, CUresult result)
{
	struct call call = world_call(function, stream);

	call.subject = KERNEL(0);
	state_before(&call);
	state_after(&call, result);
}

static void test_failures(void **state)
{
	static const CUresult harmless[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_READY,
					    CUDA_ERROR_OUT_OF_MEMORY,
					    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT};
	static const CUresult lasting[] = {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED,
					   CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_UNKNOWN};

	for (int i = 0; i < 4; i++) {
		fails(FUNCTION_cuLaunchKernel, A, harmless[i]);
		fails(FUNCTION_cuStreamQuery, A, harmless[i]);
		assert_null(state_objection());
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(begin(state), 0);
		fails(FUNCTION_cuStreamSynchronize, A, lasting[i]);
		assert_non_null(state_objection());
		assert_int_equal(begin(state), 0);
		fails(FUNCTION_cuLaunchKernel, A, lasting[i]);
		assert_non_null(state_objection());
	}
}

/* What found no memory, a graph or a batch, may be half submitted; a kernel is there or not. */
static void test_half_done(void **state)
{
	fails(FUNCTION_cuLaunchKernel, A, CUDA_ERROR_OUT_OF_MEMORY);
	assert_true(state_is_idle());
	fails(FUNCTION_cuMemcpyHtoDAsync_v2, A, CUDA_ERROR_OUT_OF_MEMORY);
	assert_null(state_objection());
	assert_false(state_is_idle());
	assert_int_equal(state_at_a_glance(), STATE_WORKS);
	world_synchronize(A);
	assert_true(state_is_idle());
	config.mode = CONFIG_OBSERVE;
	fails(FUNCTION_cuMemcpyHtoDAsync_v2, A, CUDA_ERROR_OUT_OF_MEMORY);
	config.mode = CONFIG_FIX;
	assert_true(state_is_idle());
}

static void test_unknown_stream(void **state)
{
	world_context = 0;
	world_launch(LEGACY, KERNEL(0));
	assert_non_null(state_objection());
	world_context = 1;
	assert_non_null(state_objection());
}

static void test_unseen(void **state)
{
	struct state_mark marks[8];

	world_launch(A, KERNEL(0));
	assert_int_equal(unfinished(marks), 1);
	world_synchronize(A);
	state_unseen();
	assert_non_null(state_objection());
	assert_false(state_is_complete(&marks[0]));
}

static void test_handles(void **state)
{
	struct state_mark marks[8];

	world_launch(A, KERNEL(0));
	assert_int_equal(unfinished(marks), 1);
	assert_ptr_equal(state_handle(marks[0].stream, 1), A);
	assert_null(state_handle(marks[0].stream, 2));
	world_destroy_stream(A);
	assert_null(state_handle(marks[0].stream, 1));
	world_context_synchronize();
	world_launch(STREAM(7), KERNEL(0)); /* nobody saw it made */
	assert_int_equal(unfinished(marks), 1);
	assert_null(state_handle(marks[0].stream, 1));
	world_context_synchronize();
	world_launch(LEGACY, KERNEL(0));
	assert_int_equal(unfinished(marks), 1);
	assert_ptr_equal(state_handle(marks[0].stream, 1), CU_STREAM_LEGACY);
	assert_null(state_handle(marks[0].stream, 2));
	world_context_synchronize();
	world_launch(PER_THREAD_, KERNEL(0));
	assert_int_equal(unfinished(marks), 1);
	assert_ptr_equal(state_handle(marks[0].stream, 1), CU_STREAM_PER_THREAD);
	state_thread.serial++;
	assert_null(state_handle(marks[0].stream, 1));
	state_thread.serial--;
}

/* A child has neither contexts that end nor captures, whatever its parent's other threads were doing. */
static void test_forked(void **state)
{
	struct call call = world_call(FUNCTION_cuCtxCreate_v4, NULL);

	world_launch(N, KERNEL(0));
	state_before(&call);
	state_context_destroying(&call, (CUcontext)(uintptr_t)1);
	assert_true(state_context_is_ending());
	state_forked();
	assert_false(state_context_is_ending());
	assert_null(state_objection());
	begin_capture(N);
	assert_non_null(state_objection());
	state_forked();
	assert_null(state_objection());
	state_unseen();
	assert_non_null(state_objection());
	state_forked();
	assert_null(state_objection());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_unfinished, begin, end),
		cmocka_unit_test_setup_teardown(test_glance, begin, end),
		cmocka_unit_test_setup_teardown(test_current, begin, end),
		cmocka_unit_test_setup_teardown(test_ending, begin, end),
		cmocka_unit_test_setup_teardown(test_did_not_end, begin, end),
		cmocka_unit_test_setup_teardown(test_nothing_ends, begin, end),
		cmocka_unit_test_setup_teardown(test_captures, begin, end),
		cmocka_unit_test_setup_teardown(test_end_behind_the_end, begin, end),
		cmocka_unit_test_setup_teardown(test_ended_by_two_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_half_done, begin, end),
		cmocka_unit_test_setup_teardown(test_failures, begin, end),
		cmocka_unit_test_setup_teardown(test_unknown_stream, begin, end),
		cmocka_unit_test_setup_teardown(test_unseen, begin, end),
		cmocka_unit_test_setup_teardown(test_handles, begin, end),
		cmocka_unit_test_setup_teardown(test_forked, begin, end),
	};

	return cmocka_run_group_tests_name("proof", tests, NULL, NULL);
}
