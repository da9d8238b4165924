// SPDX-License-Identifier: MIT
/*
 * Rows of launches by threads that come and go, on streams that come and go with them: entries and
 * claims pass from thread to thread, and no launch is lost or counted twice. Run this with
 * -fsanitize=thread, too.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "clock.h"
#include "fake/world.h"
#include "state/internal.h"
#include "state/launch.h"
#include "state/state.h"

#define THREADS     4
#define GENERATIONS 30
#define STEPS       400
#define SHARED      4 /* streams that all use */
#define OWN         3 /* of each thread */
#define FUNCTIONS   6
#define NUMBER      (FUNCTION_cuLaunchKernel + 1)

static uint64_t seed;
static uint64_t submitted, launched, counted; /* atomic adds */

struct walker {
	uint64_t random;
	uint64_t submitted, launched;
	uint64_t calls; /* what the remembered launches count */
	CUstream own[OWN];
};

/* splitmix64 */
static unsigned int below(struct walker *walker, unsigned int bound)
{
	uint64_t z = walker->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (unsigned int)((z ^ z >> 31) % bound);
}

static void real(void)
{
}

/* As a wrapper makes it. One in 16 fails. */
static void launch(struct walker *walker, CUstream stream, uint64_t function)
{
	CUfunction handle = (CUfunction)(uintptr_t)function;
	bool fails = below(walker, 16) == 0, is_plain;
	struct launch_ready ready;
	struct state_launch plain;
	struct call call;
	uint64_t entered;

	walker->launched++;
	walker->submitted += !fails;
	if (state_launch_remembered(NUMBER, stream, handle, &ready)) {
		if (!fails)
			state_launch_succeeded(&ready);
		return;
	}
	counter_add(&walker->calls);
	is_plain = state_launch_is_plain(stream, handle, false, &plain);
	call = world_call(FUNCTION_cuLaunchKernel, stream);
	call.subject = function;
	if (!is_plain)
		state_before(&call);
	entered = clock_ticks();
	if (is_plain && !fails && state_launch_done(&plain, entered, clock_ticks())) {
		state_launch_remember(&plain, NUMBER, &walker->calls, real);
		return;
	}
	if (is_plain) {
		call.flags |= CALL_LATE;
		state_before(&call);
	}
	state_after(&call, fails ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

static CUstream a_stream(struct walker *walker)
{
	unsigned int n = below(walker, SHARED + OWN + 1);

	if (n < SHARED)
		return STREAM(n);
	return n < SHARED + OWN ? walker->own[n - SHARED] : LEGACY;
}

static void *walk(void *argument)
{
	unsigned int self = (unsigned int)(uintptr_t)argument;
	struct walker walker = {.random = seed * 1000 + self};
	CUstream stream;
	unsigned int i;

	for (i = 0; i < OWN; i++) {
		/* The handles of the threads of the generation before. */
		walker.own[i] = STREAM(SHARED + OWN * (self % THREADS) + i);
		world_create_stream(walker.own[i], below(&walker, 2) ? CU_STREAM_NON_BLOCKING : 0);
	}
	for (i = 0; i < STEPS; i++) {
		stream = a_stream(&walker);
		switch (below(&walker, 24)) {
		case 0:
			world_synchronize(stream);
			break;
		case 1:
			stream = walker.own[below(&walker, OWN)];
			world_destroy_stream(stream);
			world_create_stream(stream, below(&walker, 2) ? CU_STREAM_NON_BLOCKING : 0);
			break;
		case 2:
			world_context_synchronize();
			break;
		default:
			for (unsigned int j = below(&walker, 60); j; j--)
				launch(&walker, stream, KERNEL(j % (1 + i % FUNCTIONS)));
			break;
		}
	}
	for (i = 0; i < OWN; i++)
		world_destroy_stream(walker.own[i]);
	state_thread_exit();
	__atomic_fetch_add(&submitted, walker.submitted, __ATOMIC_RELAXED);
	__atomic_fetch_add(&launched, walker.launched, __ATOMIC_RELAXED);
	__atomic_fetch_add(&counted, walker.calls, __ATOMIC_RELAXED);
	return NULL;
}

static void test_threads_come_and_go(void **state)
{
	pthread_t thread[THREADS];
	uint64_t sum = 0;
	unsigned int i, j;

	state_launch_limits(UINT64_C(1) << 40, UINT64_C(1) << 46);
	for (i = 0; i < SHARED; i++)
		world_create_stream(STREAM(i), i % 2 ? CU_STREAM_NON_BLOCKING : 0);
	for (i = 0; i < GENERATIONS; i++) {
		for (j = 0; j < THREADS; j++)
			assert_int_equal(pthread_create(&thread[j], NULL, walk,
							(void *)(uintptr_t)(i * THREADS + j)),
					 0);
		for (j = 0; j < THREADS; j++)
			assert_int_equal(pthread_join(thread[j], NULL), 0);
	}
	for (i = 0; i < stream_count(); i++) {
		sum += stream_submitted(stream_at(i));
		assert_int_equal(stream_at(i)->launcher, 0);
	}
	assert_int_equal(counted, launched);
	assert_int_equal(sum, submitted);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_threads_come_and_go, world_begin),
	};

	seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	print_message("seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
