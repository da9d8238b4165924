// SPDX-License-Identifier: MIT
/*
 * A call that finds no memory waits for what other threads are about to give back (rewrite/room.c), and no longer than that.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "clock.h"
#include "config.h"
#include "fake/world.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "state/proof.h"
#include "state/state.h"

#define LATER_US 100000
#define MANY     1000

static int begin(void **state)
{
	if (world_begin(state))
		return 1;
	config.mode = CONFIG_FIX;
	config.fix = CONFIG_FIX_PINNED | CONFIG_FIX_FREES;
	return 0;
}

static struct call failed_call(void)
{
	struct call call = world_call(FUNCTION_cuMemAlloc_v2, NULL);

	state_before(&call);
	call.entered = clock_ticks();
	return call;
}

/* NULL: nothing came of it. */
static void *end_giving(void *some)
{
	usleep(LATER_US);
	room_giving_end(some);
	return NULL;
}

static bool make_room_beside(void *some, struct call *call, struct rewrite_room *room)
{
	pthread_t thread;
	bool found;

	room_giving_begin();
	assert_int_equal(pthread_create(&thread, NULL, end_giving, some), 0);
	found = rewrite_make_room(call, room);
	/* Not before that thread was done. */
	assert_true(clock_duration_ns(call->entered, clock_ticks()) >= UINT64_C(1000) * LATER_US);
	pthread_join(thread, NULL);
	return found;
}

static void test_others_give_back(void **state)
{
	struct call call = failed_call();
	struct rewrite_room room = {0};

	assert_true(make_room_beside(state, &call, &room));
	/* What came back then is gone, if the driver has no memory still. */
	assert_false(rewrite_make_room(&call, &room));
}

static void test_others_have_nothing(void **state)
{
	struct call call = failed_call();
	struct rewrite_room room = {0};

	assert_false(make_room_beside(NULL, &call, &room));
}

/* Others may take each time what comes back. */
static void test_not_for_ever(void **state)
{
	struct call call = failed_call();
	struct rewrite_room room = {0};
	int times = 0;

	while (times < MANY) {
		room_giving_begin();
		room_giving_end(true);
		if (!rewrite_make_room(&call, &room))
			break;
		times++;
		/* The driver's answer took some time. */
		room_giving_begin();
		room_giving_end(true);
	}
	assert_in_range(times, 2, MANY - 1);
}

static void *end_context(void *data)
{
	usleep(LATER_US);
	state_after(data, CUDA_SUCCESS);
	return NULL;
}

static struct call ending_call(void)
{
	struct call call = world_call(FUNCTION_cuCtxCreate_v4, NULL);

	state_before(&call);
	state_context_destroying(&call, (CUcontext)(uintptr_t)1);
	return call;
}

static void test_a_context_ends(void **state)
{
	struct call call = failed_call(), ending = ending_call();
	struct rewrite_room room = {0};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, end_context, &ending), 0);
	assert_true(rewrite_make_room(&call, &room));
	assert_false(state_context_is_ending());
	pthread_join(thread, NULL);
	assert_false(rewrite_make_room(&call, &room));
}

/* Its work may wait for this very thread. */
static void test_a_context_does_not_end(void **state)
{
	struct call call = failed_call(), ending = ending_call();
	struct rewrite_room room = {0};

	assert_false(rewrite_make_room(&call, &room));
	assert_true(clock_duration_ns(call.entered, clock_ticks()) < UINT64_C(20000000000));
	state_after(&ending, CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_others_give_back, begin),
		cmocka_unit_test_setup(test_others_have_nothing, begin),
		cmocka_unit_test_setup(test_not_for_ever, begin),
		cmocka_unit_test_setup(test_a_context_ends, begin),
		cmocka_unit_test_setup(test_a_context_does_not_end, begin),
	};

	return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
