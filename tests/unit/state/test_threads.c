// SPDX-License-Identifier: MIT
/*
 * State under many threads: no race (run this with -fsanitize=thread), no false claim, no growth,
 * and what a launch costs.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "emit/emit.h"
#include "emit/file.h"
#include "fake/records.h"
#include "fake/world.h"
#include "state/internal.h"
#include "state/state.h"

#define THREADS 4

/* Sanitizers are here for races and bounds, not for figures. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define LAUNCHES 100000
#define CHURN    30000
#else
#define LAUNCHES 10000000
#define CHURN    400000
#endif

static int stop;

static void run(void *(*body)(void *), unsigned int threads)
{
	pthread_t thread[THREADS];
	unsigned int i;

	for (i = 0; i < threads; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, body, (void *)(uintptr_t)(i + 1)),
				 0);
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
}

/* Everything at once, on shared and own objects. */
static void *everything(void *argument)
{
	unsigned int self = (unsigned int)(uintptr_t)argument;
	CUstream own = STREAM(10 + self);
	struct call call;
	int i;

	world_context = 1 + self % 2;
	for (i = 0; i < 3000; i++) {
		world_create_stream(own, self % 2 ? 0 : CU_STREAM_NON_BLOCKING);
		world_launch(own, KERNEL(i % 50));
		world_launch(STREAM(1), KERNEL(i % 50));
		world_launch(LEGACY, KERNEL(1));
		world_launch(PER_THREAD_, KERNEL(2));
		world_create_event(EVENT(self));
		world_record(EVENT(self), own);
		world_record(EVENT(9), STREAM(1));
		world_event_synchronize(EVENT(9));
		world_wait_event(own, EVENT(9));
		world_event_synchronize(EVENT(self));
		call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
		state_before(&call);
		state_function_named(&call, (CUfunction)KERNEL(i % 50), "name");
		state_allocated(&call, MEMORY_DEVICE, 0x100000 * self + i % 100 * 256, 256);
		call = world_call(FUNCTION_cuMemFree_v2, NULL);
		state_before(&call);
		state_freeing(&call, 0x100000 * self + i % 100 * 256);
		state_freed(&call, i % 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
		if (i % 10 == 0)
			world_context_synchronize();
		world_synchronize(LEGACY);
		world_destroy_stream(own);
	}
	state_thread_exit();
	return NULL;
}

static void test_everything_at_once(void **state)
{
	world_create_stream(STREAM(1), 0);
	run(everything, THREADS);
	world_create_stream(STREAM(50), 0);
	assert_int_equal(stream_kind(stream_find((uintptr_t)STREAM(50))), STREAM_BLOCKING);
}

static void test_everything_with_attribute(void **state)
{
	config.attribute = true;
	world_create_stream(STREAM(1), 0);
	run(everything, 2);
	assert_true(world_queries > 0);
	assert_int_equal(world_unrelaxed_queries, 0);
}

/*
 * A stream never has pending work that a snapshot does not see, whatever the scan does at the same
 * moment: submitters leave work, then stop; the bits must say so.
 */
static void *submit_and_wait(void *argument)
{
	CUstream own = STREAM(20 + (unsigned int)(uintptr_t)argument);
	int i;

	for (i = 0; i < 20000; i++) {
		world_launch(own, KERNEL(0));
		world_synchronize(own);
		world_launch(own, KERNEL(0));
		assert_int_equal(world_pending(&own, 1), 1);
	}
	return NULL;
}

static void *scan(void *argument)
{
	CUstream streams[1] = {STREAM(21)};

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		world_pending(streams, 1);
	return NULL;
}

static void test_no_pending_work_is_overlooked(void **state)
{
	pthread_t scanner;

	for (unsigned int i = 1; i <= THREADS; i++)
		world_create_stream(STREAM(20 + i), 0);
	stop = 0;
	assert_int_equal(pthread_create(&scanner, NULL, scan, NULL), 0);
	run(submit_and_wait, THREADS);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(scanner, NULL);
}

static void *per_thread_work(void *argument)
{
	struct call call = world_call(FUNCTION_cuStreamSynchronize, PER_THREAD_);

	world_launch(PER_THREAD_, KERNEL(0));
	state_before(&call);
	assert_int_equal(stream_kind(call.stream), STREAM_PER_THREAD);
	assert_int_equal(call.pending_count, 1);
	/* Left pending, and the thread ends. */
	state_thread_exit();
	return call.stream;
}

static void test_per_thread_streams(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamSynchronize, PER_THREAD_);
	struct call plain = world_call(FUNCTION_cuStreamSynchronize, LEGACY);
	uint32_t before;
	pthread_t thread;
	void *other;
	int i;

	plain.flags |= CALL_PER_THREAD; /* stream 0 under a _ptsz name */
	world_launch(PER_THREAD_, KERNEL(0));
	assert_int_equal(pthread_create(&thread, NULL, per_thread_work, NULL), 0);
	pthread_join(thread, &other);
	state_before(&call);
	state_before(&plain);
	assert_ptr_not_equal(call.stream, other);
	assert_ptr_equal(call.stream, plain.stream);
	assert_int_equal(call.pending_count, 1);
	/* Only its own: the other thread's is not waited for. */
	state_stream_observed(&call, CUDA_SUCCESS);
	assert_false(stream_is_pending(call.stream));
	assert_true(stream_is_pending(other));
	/* But the legacy stream stands for both. */
	world_synchronize(LEGACY);
	assert_false(stream_is_pending(other));
	/* Threads that come and go use no more entries. */
	before = stream_count();
	for (i = 0; i < 500; i++) {
		assert_int_equal(pthread_create(&thread, NULL, per_thread_work, NULL), 0);
		pthread_join(thread, NULL);
		world_synchronize(LEGACY);
	}
	assert_true(stream_count() <= before + 1);
}

static void test_handles_that_never_come_back(void **state)
{
	size_t mapped = 0;
	uint32_t streams = 0;
	uint64_t handle;
	int i;

	for (i = 0; i < CHURN; i++) {
		handle = 0x10000 + (uint64_t)i * 64;
		world_create_stream((CUstream)(uintptr_t)handle, 0);
		world_launch((CUstream)(uintptr_t)handle, KERNEL(0));
		world_synchronize((CUstream)(uintptr_t)handle);
		world_create_event((CUevent)(uintptr_t)handle);
		world_record((CUevent)(uintptr_t)handle, (CUstream)(uintptr_t)handle);
		world_destroy_stream((CUstream)(uintptr_t)handle);
		struct call call = world_call(FUNCTION_cuMemAlloc_v2, NULL);

		state_before(&call);
		state_event_destroying(&call, (CUevent)(uintptr_t)handle);
		if (i == 5000) {
			mapped = state_arena.mapped;
			streams = stream_count();
		}
	}
	assert_int_equal(stream_count(), streams);
	assert_int_equal(state_arena.mapped, mapped);
}

/* Create, use, destroy: the driver gives the same few handles again and again. `ring`: so many live at once. */
static void come_back(unsigned int ring)
{
	size_t mapped = 0;
	struct call call;
	uint64_t handle;
	unsigned int i;

	for (i = 0; i < CHURN; i++) {
		handle = 0x10000 + (uint64_t)(i % ring) * 64;
		if (i >= ring) {
			world_destroy_stream((CUstream)(uintptr_t)handle);
			call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
			state_before(&call);
			state_event_destroying(&call, (CUevent)(uintptr_t)handle);
		}
		world_create_stream((CUstream)(uintptr_t)handle, 0);
		world_create_event((CUevent)(uintptr_t)handle);
		world_record((CUevent)(uintptr_t)handle, (CUstream)(uintptr_t)handle);
		assert_non_null(stream_find(handle));
		assert_non_null(event_find(handle));
		if (i == 5000)
			mapped = state_arena.mapped;
		/* Early: what grows gets slower, too. */
		if (i % 5000 == 0 && i)
			assert_int_equal(state_arena.mapped, mapped);
	}
	assert_true(stream_count() < 2000);
	assert_int_equal(records_count(file_base(), 64 << 10, RECORD_NOTE), 0);
}

static void test_handles_that_come_back(void **state)
{
	come_back(1);
}

static void test_handles_that_come_back_in_turn(void **state)
{
	come_back(32);
}

static double time_launches(CUstream stream, unsigned int count)
{
	struct timespec from, to;
	unsigned int i;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (i = 0; i < count; i++)
		world_launch(stream, KERNEL(0));
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
	       count;
}

static void test_launches_take_no_memory(void **state)
{
	struct rusage before, after;
	unsigned int count = LAUNCHES;

	world_create_stream(STREAM(1), 0);
	world_create_stream(STREAM(2), CU_STREAM_NON_BLOCKING);
	world_launch(STREAM(1), KERNEL(0));
	world_launch(STREAM(2), KERNEL(0));
	getrusage(RUSAGE_SELF, &before);
	/* With the making of the call, 2.3 KiB of rubbish each, which wrappers do not do. */
	print_message("launch: blocking %.1f ns, non-blocking %.1f ns, legacy %.1f ns\n",
		      time_launches(STREAM(1), count), time_launches(STREAM(2), count),
		      time_launches(LEGACY, count));
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_maxrss - before.ru_maxrss <= 64);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(test_##name, world_begin)
	const struct CMUnitTest tests[] = {
		TEST(everything_at_once),
		TEST(everything_with_attribute),
		TEST(no_pending_work_is_overlooked),
		TEST(per_thread_streams),
		TEST(handles_that_never_come_back),
		TEST(handles_that_come_back),
		TEST(handles_that_come_back_in_turn),
		TEST(launches_take_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
