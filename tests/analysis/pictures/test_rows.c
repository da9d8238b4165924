// SPDX-License-Identifier: MIT
/*
 * The timeline's rows by themselves: how many there are, what they are numbered, and that the calls of a thread nest whatever
 * times a trace gives them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "memory.h"
#include "tracing/analysis/timeline_tracks.h"

/* ---- rows ---- */

static void test_rows_have_a_bound(void **state)
{
	struct timeline_tracks tracks;

	(void)state;
	timeline_tracks_begin(&tracks);
	for (uint32_t i = 0; i < TIMELINE_TRACKS; i++)
		assert_non_null(timeline_thread(&tracks, 0, 1, i + 1));
	assert_null(timeline_thread(&tracks, 0, 1, TIMELINE_TRACKS + 1));
	assert_null(timeline_stream(&tracks, 0, 1));
	assert_non_null(timeline_thread(&tracks, 0, 1, 1)); /* known before */
	assert_int_equal(tracks.left_out, 2);
	timeline_tracks_done(&tracks);
}

/* Readers take 31 bits; no two rows may be one. */
static void test_numbers_of_rows(void **state)
{
	static const uint64_t numbers[] = {0,
					   1,
					   2,
					   (1 << 20) - 1,
					   1 << 20,
					   1 << 29,
					   1 << 30,
					   UINT64_MAX >> 1,
					   TIMELINE_LEGACY | 1};
	struct timeline_tracks tracks;
	uint32_t seen[ARRAY_SIZE(numbers) * 2], count = 0;

	(void)state;
	timeline_tracks_begin(&tracks);
	assert_int_equal(timeline_pid(&tracks, 0, 7), 7);
	assert_int_equal(timeline_pid(&tracks, 0, 8), 7); /* once and for all */
	assert_int_not_equal(timeline_pid(&tracks, 1, 7), 7);
	assert_in_range(timeline_pid(&tracks, 2, UINT32_MAX), 4194305, INT32_MAX);
	assert_in_range(timeline_pid(&tracks, 3, 50000001), 50000002,
			INT32_MAX); /* that of process 1 */
	assert_in_range(timeline_thread(&tracks, 0, 7, UINT32_MAX)->track.tid, 4194305, INT32_MAX);
	assert_in_range(timeline_thread(&tracks, 0, 7, 0)->track.tid, 1, INT32_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct timeline_stream *stream = timeline_stream(&tracks, 0, numbers[i]);

		seen[count++] = timeline_lane(&tracks, stream, &stream->lanes[0]).tid;
		seen[count++] = timeline_lane(&tracks, stream, &stream->rest).tid;
	}
	for (uint32_t i = 0; i < count; i++) {
		assert_in_range(seen[i], 200000000, INT32_MAX);
		for (uint32_t k = 0; k < i; k++)
			assert_int_not_equal(seen[i], seen[k]);
	}
	timeline_tracks_done(&tracks);
}

/* ---- calls of a thread ---- */

#define CALLS 40

struct taken {
	struct timeline_call calls[CALLS];
	size_t count;
};

static void take(void *context, const struct timeline_call *call)
{
	struct taken *taken = context;

	assert_true(taken->count < CALLS);
	taken->calls[taken->count++] = *call;
}

static void add(struct timeline_thread *thread, struct taken *taken, int64_t begin_ns,
		int64_t end_ns)
{
	struct timeline_call call = {.begin_ns = begin_ns, .end_ns = end_ns};

	timeline_add_call(thread, &call, take, taken);
	assert_in_range(thread->pending_count, 1, TIMELINE_PENDING);
}

static void check_call(const struct taken *taken, size_t n, int64_t begin_ns, int64_t end_ns)
{
	assert_true(n < taken->count);
	assert_int_equal(taken->calls[n].begin_ns, begin_ns);
	assert_int_equal(taken->calls[n].end_ns, end_ns);
}

static void test_calls_nest(void **state)
{
	struct timeline_thread thread = {.floor_ns = 0};
	struct taken taken = {0};

	(void)state;
	/* One in another, sticking out at both sides; the end of the inner one is not that of the outer one. */
	add(&thread, &taken, 5, 110);
	add(&thread, &taken, 10, 100);
	timeline_flush_calls(&thread, take, &taken);
	check_call(&taken, 0, 10, 100);
	check_call(&taken, 1, 10, 99);
	/* Before what was written: cut. */
	taken.count = 0;
	add(&thread, &taken, 50, 120);
	timeline_flush_calls(&thread, take, &taken);
	check_call(&taken, 0, 100, 120);
	/* All of it before that, and one of no duration in an outer one of none. */
	taken.count = 0;
	add(&thread, &taken, 60, 70);
	timeline_flush_calls(&thread, take, &taken);
	assert_true(taken.calls[0].begin_ns <= taken.calls[0].end_ns);
	taken.count = 0;
	thread.floor_ns = 200;
	add(&thread, &taken, 300, 305);
	add(&thread, &taken, 300, 300);
	add(&thread, &taken, 300, 300);
	timeline_flush_calls(&thread, take, &taken);
	for (size_t i = 0; i < 3; i++)
		check_call(&taken, i, 300, 300);
}

static void test_calls_have_a_bound(void **state)
{
	struct timeline_thread thread = {.floor_ns = 0};
	struct taken taken = {0};

	(void)state;
	for (int i = 0; i < CALLS; i++)
		add(&thread, &taken, 1000 - i, 2000 + i); /* each encloses the one before */
	timeline_flush_calls(&thread, take, &taken);
	assert_int_equal(taken.count, CALLS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_have_a_bound),
		cmocka_unit_test(test_numbers_of_rows),
		cmocka_unit_test(test_calls_nest),
		cmocka_unit_test(test_calls_have_a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
