// SPDX-License-Identifier: MIT
/*
 * Calls of other threads that submit and have not their number yet (state/flight.h): what is proven waits for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "fake/world.h"
#include "state/flight.h"
#include "state/internal.h"
#include "state/launch.h"
#include "state/proof.h"
#include "state/state.h"

#define N STREAM(2)

static pthread_barrier_t step;

static int begin(void **state)
{
	if (world_begin(state))
		return 1;
	config.mode = CONFIG_FIX;
	world_create_stream(N, CU_STREAM_NON_BLOCKING);
	state_flights_start();
	return pthread_barrier_init(&step, NULL, 2);
}

static int end(void **state)
{
	config.mode = CONFIG_OBSERVE;
	return 0;
}

static void meet(void)
{
	pthread_barrier_wait(&step);
}

/* A launch the long way that is in the driver between two meetings; then another that is begun and ended. */
static void *launch_slowly(void *data)
{
	struct call call = world_call(FUNCTION_cuLaunchKernel, N);

	call.subject = KERNEL(0);
	call.operation = OPERATION_KERNEL;
	state_before(&call);
	meet(); /* the device may have it */
	meet();
	state_after(&call, CUDA_SUCCESS);
	meet(); /* it has its number */
	meet();
	call = world_call(FUNCTION_cuLaunchKernel, N);
	call.subject = KERNEL(0);
	call.operation = OPERATION_KERNEL;
	state_before(&call);
	meet();
	meet();
	state_after(&call, CUDA_SUCCESS);
	state_thread_ends();
	state_thread_exit();
	return NULL;
}

static void test_long_way(void **state)
{
	struct state_flight flights[2], later[2];
	uint32_t count = 9;
	pthread_t thread;

	assert_true(state_is_idle());
	assert_int_equal(pthread_create(&thread, NULL, launch_slowly, NULL), 0);
	meet();
	/* No stream has work by its number. */
	assert_true(state_is_flying());
	assert_false(state_is_idle());
	assert_int_equal(state_at_a_glance(), STATE_WORKS);
	assert_true(state_flights(flights, 2, &count));
	assert_int_equal(count, 1);
	assert_false(state_flights(flights, 0, &count));
	assert_true(state_flights(flights, 2, &count));
	assert_false(state_flight_is_over(&flights[0]));
	meet();
	meet();
	assert_true(state_flight_is_over(&flights[0]));
	assert_false(state_is_flying());
	assert_false(state_is_idle()); /* by its number */
	world_synchronize(N);
	assert_true(state_is_idle());
	meet();
	meet();
	/* The next one is another, and the first over all the same. */
	assert_true(state_flight_is_over(&flights[0]));
	assert_true(state_flights(later, 2, &count));
	assert_int_equal(count, 1);
	assert_false(state_flight_is_over(&later[0]));
	meet();
	pthread_join(thread, NULL);
	/* Its thread has ended. */
	assert_true(state_flight_is_over(&later[0]));
	assert_false(state_is_flying());
}

/* A short launch that is timed, and one of a row. */
static void *launch_shortly(void *data)
{
	struct launch_row *row = &launch_thread.row;

	assert_true(flight_has_row(row));
	launch_count(&row->entered);
	meet();
	meet();
	launch_count(&row->numbered);
	state_launch_begins();
	meet();
	meet();
	state_launch_is_over();
	meet();
	meet();
	state_thread_ends();
	return NULL;
}

static void test_short_way(void **state)
{
	pthread_t thread;
	int i;

	assert_int_equal(pthread_create(&thread, NULL, launch_shortly, NULL), 0);
	for (i = 0; i < 2; i++) {
		meet();
		assert_true(state_is_flying());
		meet();
	}
	meet();
	assert_false(state_is_flying());
	meet();
	pthread_join(thread, NULL);
}

/* What the own thread is inside does not count: a call that finds no memory asks from within itself. */
static void test_own(void **state)
{
	struct call call = world_call(FUNCTION_cuLaunchKernel, N);

	call.operation = OPERATION_KERNEL;
	call.subject = KERNEL(0);
	state_before(&call);
	assert_false(state_is_flying());
	state_after(&call, CUDA_SUCCESS);
}

static void *come_and_go(void *data)
{
	world_context = 1;
	world_launch(N, KERNEL(0));
	state_thread_ends();
	state_thread_exit();
	return NULL;
}

static uint32_t stop;

static void *look_on(void *data)
{
	struct state_flight flights[8];
	uint32_t count, i;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (!state_flights(flights, 8, &count))
			continue;
		for (i = 0; i < count; i++)
			(void)state_flight_is_over(&flights[i]);
	}
	state_thread_ends();
	return NULL;
}

/* Rows lie on stacks of threads that end: who looks has gone before (a sanitizer, or a signal, tells). */
static void test_threads_come_and_go(void **state)
{
	pthread_t lookers[2], thread;
	int i;

	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&lookers[i], NULL, look_on, NULL), 0);
	for (i = 0; i < 2000; i++) {
		assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
		pthread_join(thread, NULL);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		pthread_join(lookers[i], NULL);
	assert_false(state_is_flying());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_long_way, begin, end),
		cmocka_unit_test_setup_teardown(test_short_way, begin, end),
		cmocka_unit_test_setup_teardown(test_own, begin, end),
		cmocka_unit_test_setup_teardown(test_threads_come_and_go, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
