// SPDX-License-Identifier: MIT
/*
 * What-if on traces made by hand: figures that can be worked out on paper, what there are no figures for, and
 * traces that lie. Uses the model of the synthetic programs (synthetic_model.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "by_hand.h"
#include "emit/record.h"
#include "synthetic.h"
#include "tracing/analysis/whatif.h"

/* A wait of [ns - call, ns] for the stream up to `number`. */
static void stream_sync(struct whatif *whatif, int64_t ns, int64_t call_ns, uint32_t site,
			uint32_t stream, uint64_t number)
{
	struct trace_wait wait = {.wait = synthetic_wait_id(ACTION_STREAM_SYNC, site),
				  .candidates = synthetic_candidates_id(1U << (stream - 1)),
				  .stream = stream,
				  .blocked_ns = (uint64_t)(call_ns - 2 * US),
				  .call_ns = (uint64_t)call_ns};
	struct trace_completed completed = {stream, number};

	feed(whatif, 1, ns, TRACE_WAIT, &wait);
	feed(whatif, 1, ns + US, TRACE_COMPLETED, &completed);
}

/*
 * Site 1: a kernel of 10 ms, waited for, then 6 ms of host work; ten times: without the wait the work runs
 * beside the kernels, which saves 60 ms. Site 2: one kernel of 200 ms, waited for at the end: nothing
 * is saved, though it blocks longest.
 */
static void feed_ranking(struct whatif *whatif)
{
	int64_t now = 1 * MS;
	uint64_t number = 0;

	mark(whatif, now);
	for (int i = 0; i < 10; i++) {
		launch(whatif, now, 2, ++number);
		stream_sync(whatif, now + 10 * MS, 10 * MS, 1, 2, number);
		now += 16 * MS;
	}
	launch(whatif, now, 2, ++number);
	stream_sync(whatif, now + 200 * MS, 200 * MS, 2, 2, number);
	mark(whatif, now + 200 * MS + 10 * US);
}

static void test_ranked_by_saving(void **state)
{
	struct whatif *whatif = whatif_new(NULL);
	const struct whatif_result *result;
	const struct whatif_row *row;
	size_t place;

	feed_ranking(whatif);
	result = finish(whatif, 0);
	assert_null(result->why_none);
	assert_int_equal(result->row_count, 2);
	row = row_of(result, 1, &place);
	assert_int_equal(place, 0);
	assert_int_equal(row->count, 10);
	assert_int_equal(row->blocked_ns, 10 * (10 * MS - 2 * US));
	assert_true(row->low_ns <= 60 * MS && row->high_ns >= 60 * MS);
	assert_about(row->low_ns, 60 * MS, 3 * MS);
	assert_about(row->high_ns, 60 * MS, 3 * MS);
	row = row_of(result, 2, &place);
	assert_int_equal(place, 1);
	assert_true(row->blocked_ns > 199 * MS);
	assert_true(row->low_ns <= 10 * US); /* the host's last ones, beside the kernel */
	assert_true(row->high_ns < 3 * MS);
	assert_int_equal(result->rule_count, 1);
	assert_int_equal(result->rules[0].count, 11);
	assert_true(result->rules[0].low_ns <= 60 * MS && result->rules[0].high_ns >= 60 * MS);
	assert_int_equal(result->processes[0].unexplained_ns, 0);
	assert_int_equal(result->processes[0].contradictions, 0);
	assert_int_equal(result->processes[0].run_ns, 10 * 16 * MS + 200 * MS + 10 * US);
	whatif_free(whatif);
}

/* Beyond those replayed: bounds only, told so, and not above the others. */
static void test_few_sites(void **state)
{
	struct whatif_settings settings = {.sites = 1, .wake_ns = 50000};
	struct whatif *whatif = whatif_new(&settings);
	const struct whatif_result *result;
	const struct whatif_row *row;
	int64_t now = 1 * MS;
	size_t place;

	mark(whatif, now);
	for (uint32_t i = 0; i < 4; i++) {
		launch(whatif, now, 2, i + 1);
		stream_sync(whatif, now + (int64_t)(i + 1) * MS, (int64_t)(i + 1) * MS,
			    i == 3 ? 1 : 2, 2, i + 1);
		now += 10 * MS;
	}
	mark(whatif, now);
	result = finish(whatif, 0);
	row = row_of(result, 1, &place);
	assert_false(row->replayed);
	assert_int_equal(row->low_ns, 0);
	assert_int_equal(row->high_ns, row->blocked_ns);
	row = row_of(result, 2, &place);
	assert_int_equal(place, 0);
	assert_true(row->replayed);
	assert_true(row->low_ns <= 6 * MS && row->high_ns >= 6 * MS);
	whatif_free(whatif);
}

/* A site that comes late and blocks far more takes the place; what it blocked before is in its bound. */
static void test_late_site_takes_slot(void **state)
{
	struct whatif_settings settings = {.sites = 1, .wake_ns = 50000};
	struct whatif *whatif = whatif_new(&settings);
	const struct whatif_result *result;
	const struct whatif_row *row;
	int64_t now = 1 * MS;
	uint64_t number = 0;
	size_t place;

	mark(whatif, now);
	for (int i = 0; i < 40; i++) {
		launch(whatif, now, 2, ++number);
		stream_sync(whatif, now + 1 * MS, 1 * MS, i < 4 ? 1 : 2, 2, number);
		now += 2 * MS;
	}
	mark(whatif, now);
	result = finish(whatif, 0);
	row = row_of(result, 2, &place);
	assert_true(row->replayed);
	/* 36 waits: without them each round takes the 1 ms of host work only. */
	assert_true(row->high_ns >= 36 * MS);
	assert_true(row->low_ns >= 20 * MS);
	assert_false(row_of(result, 1, &place)->replayed);
	whatif_free(whatif);
}

static void assert_no_numbers(const struct whatif_result *result, const char *why)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	json_t *json = whatif_json(result, NULL, NULL);

	assert_non_null(strstr(result->why_none, why));
	assert_int_equal(result->row_count, 0);
	assert_int_equal(result->rule_count, 0);
	whatif_text(out, result, 0, NULL, NULL);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, "no numbers: "));
	assert_non_null(strstr(text, why));
	assert_string_equal(json_string_value(json_object_get(json, "why_none")), result->why_none);
	json_decref(json);
	free(text);
}

static void test_lost_events(void **state)
{
	struct whatif *whatif = whatif_new(NULL);

	feed_ranking(whatif);
	assert_no_numbers(finish(whatif, 1), "events were lost");
	whatif_free(whatif);
}

static void test_level_waits(void **state)
{
	struct whatif *whatif = whatif_new(NULL);

	mark(whatif, 1 * MS);
	stream_sync(whatif, 20 * MS, 10 * MS, 1, 2, 5);
	mark(whatif, 30 * MS);
	assert_no_numbers(finish(whatif, 0), "SLIPSTREAM_LEVEL=full");
	whatif_free(whatif);
}

static void test_nothing(void **state)
{
	struct whatif *whatif = whatif_new(NULL);

	assert_null(whatif_result(whatif));
	assert_no_numbers(finish(whatif, 0), "no events");
	whatif_free(whatif);
}

/* A wait that nothing in the trace explains is told as the baseline's error, and makes the interval wide. */
static void test_unexplained(void **state)
{
	struct whatif *whatif = whatif_new(NULL);
	struct trace_wait wait = {.wait = synthetic_wait_id(ACTION_FREE, 1),
				  .blocked_ns = (uint64_t)(8 * MS),
				  .call_ns = (uint64_t)(8 * MS + 2 * US)};
	const struct whatif_result *result;
	size_t place;

	mark(whatif, 1 * MS);
	launch(whatif, 2 * MS, 2, 1);
	stream_sync(whatif, 4 * MS, 2 * MS, 2, 2, 1);
	feed(whatif, 1, 20 * MS, TRACE_WAIT, &wait);
	mark(whatif, 21 * MS);
	result = finish(whatif, 0);
	assert_about(result->processes[0].unexplained_ns, 8 * MS, 100 * US);
	/* Had site 2 not waited, that wait may still have ended when it did. */
	assert_int_equal(row_of(result, 2, &place)->low_ns, 0);
	assert_about(row_of(result, 2, &place)->high_ns, 2 * MS, 100 * US);
	whatif_free(whatif);
}

/* Of several processes each line says whose it is, and the JSON by what number. */
static void test_several_processes(void **state)
{
	struct whatif_row rows[] = {
		{.process = 1,
		 .site = 7,
		 .rule_slug = "d2h",
		 .function_name = "cuMemcpyDtoH_v2",
		 .overtaken = true},
		{.process = 0, .site = 7, .rule_slug = "d2h", .function_name = "cuMemcpyDtoH_v2"},
	};
	struct whatif_process processes[] = {
		{.process = 0, .pid = 100, .rank = -1, .host = ""},
		{.process = 1, .pid = 200, .rank = 3, .host = "alpha"},
	};
	struct whatif_result result = {
		.rows = rows, .row_count = 2, .processes = processes, .process_count = 2};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	json_t *json = whatif_json(&result, NULL, NULL), *process;

	whatif_text(out, &result, 0, NULL, NULL);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, "site 7, rank 3, alpha, process 200\n"));
	assert_non_null(strstr(text, "site 7, process 100\n"));
	assert_non_null(strstr(text, "\n  rank 3, alpha, process 200: ran "));
	assert_non_null(strstr(text, "\n  t: "));
	process = json_array_get(json_object_get(json, "processes"), 1);
	assert_int_equal(json_integer_value(json_object_get(process, "process")), 1);
	assert_int_equal(json_integer_value(json_object_get(process, "pid")), 200);
	assert_int_equal(json_integer_value(json_object_get(process, "rank")), 3);
	assert_string_equal(json_string_value(json_object_get(process, "host")), "alpha");
	process = json_array_get(json_object_get(json, "processes"), 0);
	assert_true(json_is_null(json_object_get(process, "rank")));
	assert_true(json_is_null(json_object_get(process, "host")));
	json_decref(json);
	free(text);
}

static void test_text_and_json(void **state)
{
	struct whatif *whatif = whatif_new(NULL);
	const struct whatif_result *result;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	json_t *json, *row;

	feed_ranking(whatif);
	result = finish(whatif, 0);
	whatif_text(out, result, 1, NULL, NULL);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(strncmp(text, "What each wait costs the run\n", 29), 0);
	assert_non_null(strstr(text, "stream-synchronize"));
	assert_non_null(strstr(text, "site 1"));
	assert_null(strstr(text, "site 2"));
	assert_non_null(strstr(text, "and 1 more site"));
	json = whatif_json(result, NULL, NULL);
	assert_int_equal(json_array_size(json_object_get(json, "sites")), 2);
	assert_int_equal(json_array_size(json_object_get(json, "rules")), 1);
	row = json_array_get(json_object_get(json, "sites"), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "site")), 1);
	assert_non_null(strstr(text, "\n     #  saving  "));
	assert_int_equal(json_integer_value(json_object_get(row, "place")), 1);
	assert_null(json_object_get(row, "rank")); /* of MPI, everywhere */
	assert_int_equal(json_integer_value(json_object_get(row, "saving_low_ns")),
			 result->rows[0].low_ns);
	assert_int_equal(json_integer_value(json_object_get(row, "saving_high_ns")),
			 result->rows[0].high_ns);
	assert_int_equal(json_integer_value(json_object_get(row, "saving_middle_ns")),
			 result->rows[0].middle_ns);
	assert_true(json_is_false(json_object_get(row, "overtaken")));
	assert_true(json_is_null(json_object_get(json, "why_none")));
	json_decref(json);
	free(text);
	whatif_free(whatif);
}

/* ---- traces that lie ---- */

static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint64_t odd_number(void)
{
	static const uint64_t numbers[] = {
		0, 1, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_C(1) << 63, 1000000000};

	if (random_next() % 16 == 0)
		return numbers[random_next() % (sizeof(numbers) / sizeof(numbers[0]))];
	return random_next() % 200;
}

static uint32_t odd_stream(void)
{
	return random_next() % 64 ? (uint32_t)(random_next() % 8) : (uint32_t)random_next();
}

static void feed_odd(struct whatif *whatif, int64_t *now)
{
	union trace_payload payload = {0};
	enum trace_event id = TRACE_DUMP_END;

	switch (random_next() % 6) {
	case 0:
		id = TRACE_WAIT;
		payload.wait = (struct trace_wait){(uint32_t)random_next() % 100,
						   (uint32_t)random_next(),
						   odd_stream(),
						   odd_number(),
						   odd_number() * 1000,
						   odd_number() * 1000};
		break;
	case 1:
	case 2:
		id = TRACE_SUBMIT;
		payload.submit = (struct trace_submit){odd_stream(),
						       (uint32_t)random_next() % 12,
						       0,
						       0,
						       odd_number(),
						       odd_number(),
						       odd_number(),
						       0,
						       0,
						       0,
						       0};
		break;
	case 3:
		id = TRACE_STREAM_WAIT;
		payload.stream_wait = (struct trace_stream_wait){odd_stream(), odd_number(),
								 odd_stream(), odd_number(), 0};
		break;
	case 4:
		id = TRACE_JOIN;
		payload.join =
			(struct trace_join){odd_stream(), odd_number(), odd_stream(), odd_number()};
		break;
	case 5:
		id = TRACE_COMPLETED;
		payload.completed = (struct trace_completed){odd_stream(), odd_number()};
		break;
	}
	*now += random_next() % 100 ? (int64_t)(random_next() % 30000) : -500000;
	feed(whatif, (uint32_t)random_next() % 4, *now, id, &payload);
}

static void test_hostile(void **state)
{
	uint64_t seed = (uint64_t)time(NULL) << 8 | 1;

	printf("seed %llu\n", (unsigned long long)seed);
	random_state = seed;
	for (int round = 0; round < 40; round++) {
		struct whatif *whatif = whatif_new(NULL);
		const struct whatif_result *result;
		int64_t now = round % 2 ? 0 : INT64_C(1800000000000000000);

		for (int i = 0; i < 5000; i++)
			feed_odd(whatif, &now);
		result = finish(whatif, 0);
		for (size_t i = 0; i < result->row_count; i++) {
			assert_true(result->rows[i].low_ns >= 0);
			assert_true(result->rows[i].high_ns >= result->rows[i].low_ns);
			assert_true(result->rows[i].high_ns <= result->processes[0].run_ns);
		}
		whatif_free(whatif);
	}
}

/* A long chain of streams, each behind the next: no deep recursion. And a circle. */
static void test_chain_and_circle(void **state)
{
	struct whatif *whatif = whatif_new(NULL);
	int64_t now = 1 * MS;

	mark(whatif, now);
	for (uint32_t stream = 10000; stream >= 2; stream--) {
		struct trace_join join = {stream, 1, stream + 1, 1};

		launch(whatif, now += 10 * US, stream, 1);
		feed(whatif, 1, now, TRACE_JOIN, &join);
	}
	feed(whatif, 1, now, TRACE_JOIN, &(struct trace_join){10000, 1, 2, 1});
	stream_sync(whatif, now + 5 * MS, 5 * MS, 1, 2, 1);
	mark(whatif, now + 6 * MS);
	assert_null(finish(whatif, 0)->why_none);
	whatif_free(whatif);
}

static long resident_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* Of this process, whatever else the machine does. */
static double processor_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Memory does not grow with the length of the trace, whether waits come or (for long) none. */
static void test_flat_memory(void **state)
{
	struct whatif *whatif = whatif_new(NULL);
	int64_t now = 1 * MS;
	uint64_t number = 0;
	long before = 0;
	double begin, seconds;
	int rounds = 60000;

	mark(whatif, now);
	begin = processor_seconds();
	for (int i = 0; i < rounds; i++) {
		for (int j = 0; j < 10; j++)
			launch(whatif, now += 10 * US, 2, ++number);
		if (i % 3000 > 500) {
			stream_sync(whatif, now + 2 * MS, 2 * MS, (uint32_t)i % 7, 2, number);
			now += 3 * MS;
		}
		if (i == rounds / 4)
			before = resident_kib();
	}
	seconds = processor_seconds() - begin;
	printf("%.2f million events a second of processor time; %ld KiB resident after a quarter, "
	       "%ld KiB at the "
	       "end\n",
	       (double)rounds * 12 / seconds / 1e6, before, resident_kib());
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
	assert_true(resident_kib() - before < 4096);
#endif
	assert_null(finish(whatif, 0)->why_none);
	whatif_free(whatif);
}

#define QUARTERS        4
#define QUARTER_THREADS 5000

/* Threads that come and go: an event costs the same processor time, however many there were. */
static void test_many_threads(void **state)
{
	struct whatif *whatif = whatif_new(NULL);
	int64_t now = 1 * MS;
	double begin, seconds[QUARTERS];
	uint64_t number = 0;

	mark(whatif, now);
	for (uint32_t quarter = 0; quarter < QUARTERS; quarter++) {
		begin = processor_seconds();
		for (uint32_t i = 0; i < QUARTER_THREADS; i++) {
			uint32_t thread = 2 + quarter * QUARTER_THREADS + i;
			struct trace_submit submit = {
				.stream = 2, .number = ++number, .call_ns = 5000};
			struct trace_wait wait = {.wait = synthetic_wait_id(ACTION_CONTEXT_SYNC, 1),
						  .candidates = synthetic_candidates_id(2),
						  .blocked_ns = (uint64_t)(50 * US),
						  .call_ns = (uint64_t)(52 * US)};
			struct trace_completed completed = {2, number};

			feed(whatif, thread, now += 20 * US, TRACE_SUBMIT, &submit);
			feed(whatif, thread, now += 60 * US, TRACE_WAIT, &wait);
			feed(whatif, thread, now += 1 * US, TRACE_COMPLETED, &completed);
		}
		seconds[quarter] = processor_seconds() - begin;
	}
	printf("%d threads in %.3f s of processor time, as many after %d others in %.3f s\n",
	       QUARTER_THREADS, seconds[0], (QUARTERS - 1) * QUARTER_THREADS,
	       seconds[QUARTERS - 1]);
	/* 7 times as much, were all threads looked at for each event. */
	assert_true(seconds[QUARTERS - 1] < 3 * seconds[0] + 0.05);
	assert_null(finish(whatif, 0)->why_none);
	whatif_free(whatif);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranked_by_saving),
		cmocka_unit_test(test_few_sites),
		cmocka_unit_test(test_late_site_takes_slot),
		cmocka_unit_test(test_lost_events),
		cmocka_unit_test(test_level_waits),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_unexplained),
		cmocka_unit_test(test_several_processes),
		cmocka_unit_test(test_text_and_json),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_chain_and_circle),
		cmocka_unit_test(test_flat_memory),
		cmocka_unit_test(test_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
