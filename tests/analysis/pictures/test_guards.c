// SPDX-License-Identifier: MIT
/*
 * The timeline's guards one by one: what a damaged trace, a hostile name or two clocks that disagree could do to the
 * file. No trace gets some of them there through the reader; the readers of the file would not forgive one that did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "memory.h"
#include "tracing/analysis/timeline_fixed.h"
#include "tracing/analysis/timeline_streams.h"
#include "tracing/analysis/timeline_words.h"

#define ORIGIN INT64_C(1000000)

static const struct timeline_track row = {.pid = 1, .tid = 2};
static struct timeline_fixed plain = {.head = (char *)",\"name\":\"busy\"",
				      .args = (char *)"\"a\":1"};

/* What is drawn between start() and finish(). */
static struct timeline_drawing drawing;
static struct model *model;
static char *text;
static size_t text_size;

static void start(void)
{
	drawing = (struct timeline_drawing){.file.origin_ns = ORIGIN};
	drawing.file.out = open_memstream(&text, &text_size);
	assert_non_null(drawing.file.out);
	model = model_new();
	(void)model_add_process(model, "", 1);
	timeline_tracks_begin(&drawing.tracks);
	timeline_fixed_begin(&drawing.texts);
	timeline_file_begin(&drawing.file);
}

/* The events; the caller puts the reference. */
static json_t *finish(void)
{
	json_t *document, *events;

	assert_int_equal(timeline_file_end(&drawing.file, json_object()), 0);
	(void)fclose(drawing.file.out);
	timeline_tracks_done(&drawing.tracks);
	timeline_fixed_done(&drawing.texts);
	model_free(model);
	document = json_loads(text, 0, NULL);
	assert_non_null(document);
	free(text);
	events = json_incref(json_object_get(document, "traceEvents"));
	json_decref(document);
	return events;
}

/* A number of an event in ns, from us with three decimals. */
static long long ns_of(const json_t *event, const char *key)
{
	double us = json_number_value(json_object_get(event, key));

	return (long long)(us * 1000 + (us < 0 ? -0.5 : 0.5));
}

/* The n-th event of a kind, from 0; NULL: there are fewer. */
static json_t *nth(json_t *events, const char *phase, size_t n)
{
	json_t *event;
	size_t i;

	json_array_foreach(
		events, i,
		event) if (!strcmp(json_string_value(json_object_get(event, "ph")), phase) &&
			   !n--) return event;
	return NULL;
}

/* ---- output ---- */

static void test_times_before_the_origin(void **state)
{
	const struct timeline_value none[1];
	json_t *events, *event;

	(void)state;
	start();
	timeline_fixed_slice(&drawing.file, row, ORIGIN - 5, ORIGIN + 7, &plain, none, 0);
	/* The difference would overflow. */
	timeline_fixed_slice(&drawing.file, row, INT64_MIN, INT64_MIN + 9, &plain, none, 0);
	/* It ends before it begins. */
	timeline_fixed_slice(&drawing.file, row, ORIGIN + 9, ORIGIN + 4, &plain, none, 0);
	timeline_slice(&drawing.file, row, ORIGIN + 9, ORIGIN + 4, "x", "operation", NULL);
	events = finish();
	event = nth(events, "X", 0);
	assert_int_equal(ns_of(event, "ts"), 0);
	assert_int_equal(ns_of(event, "dur"), 7);
	event = nth(events, "X", 1);
	assert_int_equal(ns_of(event, "ts"), 0);
	assert_int_equal(ns_of(event, "dur"), 0);
	for (size_t i = 2; i < 4; i++) {
		event = nth(events, "X", i);
		assert_int_equal(ns_of(event, "ts"), 9);
		assert_int_equal(ns_of(event, "dur"), 0);
	}
	json_decref(events);
}

static void test_arrows_do_not_go_back(void **state)
{
	json_t *events;

	(void)state;
	start();
	timeline_flow(&drawing.file, "join", (struct timeline_point){row, ORIGIN + 20},
		      (struct timeline_point){row, ORIGIN + 10});
	timeline_flow(&drawing.file, "join", (struct timeline_point){row, ORIGIN + 20},
		      (struct timeline_point){row, ORIGIN + 30});
	events = finish();
	assert_int_equal(ns_of(nth(events, "s", 0), "ts"), 20);
	assert_int_equal(ns_of(nth(events, "f", 0), "ts"), 20);
	assert_int_equal(ns_of(nth(events, "f", 1), "ts"), 30);
	json_decref(events);
}

static void check_text(const char *raw, size_t length)
{
	json_t *value = timeline_text(raw);

	assert_non_null(value); /* else it was no UTF-8 */
	assert_int_equal(json_string_length(value), length);
	json_decref(value);
}

/* 512 bytes and an ellipsis of three, cut between characters. */
static void test_long_texts(void **state)
{
	char raw[4096];

	(void)state;
	memset(raw, 'k', sizeof(raw));
	raw[TIMELINE_TEXT] = '\0';
	check_text(raw, TIMELINE_TEXT);
	raw[TIMELINE_TEXT] = 'k';
	raw[sizeof(raw) - 1] = '\0';
	check_text(raw, TIMELINE_TEXT + 3);
	memset(raw, '\a', sizeof(raw) - 1); /* shown by four characters each */
	check_text(raw, TIMELINE_TEXT + 3);
	raw[0] = 'k';
	for (size_t i = 1; i + 2 < sizeof(raw); i += 2)
		memcpy(raw + i, "\xc3\xbc", 2);
	raw[sizeof(raw) - 2] = '\0';
	check_text(raw, TIMELINE_TEXT - 1 + 3);
}

static void test_numbers_and_names(void **state)
{
	const struct timeline_value values[] = {{"large", UINT64_MAX - 1}, {"unknown", UINT64_MAX}};
	json_t *number = timeline_number(UINT64_MAX), *events, *args;

	(void)state;
	assert_true(json_integer_value(number) == INT64_MAX);
	json_decref(number);
	start();
	timeline_fixed_slice(&drawing.file, row, ORIGIN, ORIGIN + 1, &plain, values, 2);
	timeline_instant(&drawing.file, (struct timeline_point){row, ORIGIN}, "", "record", NULL);
	events = finish();
	args = json_object_get(nth(events, "X", 0), "args");
	assert_true(json_integer_value(json_object_get(args, "large")) == INT64_MAX);
	assert_true(json_is_null(json_object_get(args, "unknown")));
	assert_string_equal(json_string_value(json_object_get(nth(events, "i", 0), "name")),
			    "(empty name)");
	json_decref(events);
}

/* ---- operations of a stream ---- */

/* A submission that took from begin_ns to end_ns, since the origin. */
static void submit(uint32_t stream, uint64_t number, int64_t begin_ns, int64_t end_ns)
{
	struct timeline_call call = {
		.track = row,
		.begin_ns = ORIGIN + begin_ns,
		.end_ns = ORIGIN + end_ns,
		.event.submit = {.stream = stream, .number = number, .operation = 1},
	};

	timeline_submit(&drawing, model, &call);
}

static struct timeline_stream *stream(uint64_t number)
{
	return timeline_stream(&drawing.tracks, 0, number);
}

static void complete(uint64_t number, uint64_t up_to, int64_t ns)
{
	timeline_completed(&drawing, model, stream(number), up_to, ORIGIN + ns);
}

/* Both ends of the n-th arrow. */
static void check_arrow(json_t *events, size_t n, long long from, long long to)
{
	assert_int_equal(ns_of(nth(events, "s", n), "ts"), from);
	assert_int_equal(ns_of(nth(events, "f", n), "ts"), to);
}

static void test_operations_that_are_no_numbers(void **state)
{
	json_t *events;

	(void)state;
	start();
	submit(1, 0, 10, 20);
	submit(1, UINT64_MAX, 10, 20);
	assert_int_equal(stream(1)->submissions, 0);
	timeline_end_stream(&drawing, model, stream(1), ORIGIN + 100);
	events = finish();
	assert_null(nth(events, "X", 0));
	json_decref(events);
}

/* Known complete when it had just begun: there is room for arrows all the same. */
static void test_operation_of_no_time(void **state)
{
	json_t *events, *args;

	(void)state;
	start();
	submit(1, 1, 100, 101);
	complete(1, 1, 100);
	submit(2, 1, -50, 101); /* before the origin */
	complete(2, 1, 200);
	events = finish();
	assert_int_equal(ns_of(nth(events, "X", 0), "dur"), 2);
	check_arrow(events, 0, 100, 100);
	args = json_object_get(nth(events, "X", 1), "args");
	assert_int_equal(json_integer_value(json_object_get(args, "submitted_ns")), 0);
	json_decref(events);
}

/* The lane was taken for longer: its slice begins later, and the arrow ends in it. */
static void test_operation_that_begins_later(void **state)
{
	json_t *events;

	(void)state;
	start();
	for (uint64_t number = 1; number <= TIMELINE_LANES; number++)
		submit(1, number, 10, 20);
	complete(1, TIMELINE_LANES, 300);
	submit(1, TIMELINE_LANES + 1, 250, 290);
	complete(1, TIMELINE_LANES + 1, 400);
	events = finish();
	assert_int_equal(ns_of(nth(events, "X", TIMELINE_LANES), "ts"), 300);
	assert_int_equal(ns_of(nth(events, "X", TIMELINE_LANES), "dur"), 100);
	check_arrow(events, TIMELINE_LANES, 289, 300);
	json_decref(events);
}

/* The arrows of a stream that waits for more than it has room for. */
static void test_arrows_have_a_bound(void **state)
{
	json_t *events;
	size_t arrows = 0;

	(void)state;
	start();
	submit(1, 1, 0, 10);
	for (uint32_t i = 2; i < 12; i++) {
		submit(i, 1, 0, 10);
		timeline_ordered(&drawing, stream(1), 1, stream(i), 1, ORIGIN + 50, false);
		assert_in_range(stream(1)->lanes[0].operation.edge_count, 1, TIMELINE_ARROWS);
	}
	complete(1, 1, 100);
	events = finish();
	while (nth(events, "s", arrows))
		arrows++;
	assert_int_equal(arrows, 1 + TIMELINE_ARROWS); /* its submission */
	json_decref(events);
}

/* From inside the one operation to inside the other, whichever was there first. */
static void test_arrows_lie_in_both(void **state)
{
	json_t *events;
	size_t arrows = 0;

	(void)state;
	start();
	submit(1, 1, 0, 10);
	submit(2, 1, 40, 60);
	timeline_ordered(&drawing, stream(1), 1, stream(2), 1, ORIGIN + 45, true);
	complete(1, 1, 100);
	/* Known complete at the moment at which the other one began. */
	submit(3, 1, 200, 210);
	submit(4, 1, 300, 310);
	timeline_ordered(&drawing, stream(3), 1, stream(4), 1, ORIGIN + 300, true);
	complete(3, 1, 300);
	/* Into one that comes later, and only into that. */
	timeline_ordered(&drawing, stream(5), 1, stream(2), 1, ORIGIN + 400, true);
	submit(5, 1, 500, 510);
	submit(5, 2, 520, 530);
	complete(5, 2, 600);
	/* Not from what is not in flight, or has no number; all lanes were in use. */
	for (uint64_t number = 1; number <= TIMELINE_LANES; number++)
		submit(6, number, 610, 620);
	complete(6, TIMELINE_LANES, 650);
	timeline_ordered(&drawing, stream(5), 3, stream(1), 1, ORIGIN + 700, true);
	timeline_ordered(&drawing, stream(5), 3, stream(6), 0, ORIGIN + 700, true);
	submit(5, 3, 710, 720);
	complete(5, 3, 800);
	events = finish();
	check_arrow(events, 0, 9, 9); /* submissions take part too */
	check_arrow(events, 1, 41, 41);
	check_arrow(events, 2, 209, 209);
	check_arrow(events, 3, 300, 300);
	check_arrow(events, 4, 509, 509);
	check_arrow(events, 5, 399, 501);
	check_arrow(events, 6, 529, 529);
	while (nth(events, "s", arrows))
		arrows++;
	assert_int_equal(arrows, 7 + TIMELINE_LANES + 1);
	check_arrow(events, arrows - 1, 719, 719);
	json_decref(events);
}

static void check_rest(json_t *events, size_t n, long long first, long long count, long long ts,
		       long long dur)
{
	json_t *slice = nth(events, "X", n), *args = json_object_get(slice, "args");

	assert_non_null(slice);
	assert_int_equal(json_integer_value(json_object_get(args, "first_number")), first);
	assert_int_equal(json_integer_value(json_object_get(args, "operations")), count);
	assert_int_equal(ns_of(slice, "ts"), ts);
	assert_int_equal(ns_of(slice, "dur"), dur);
}

/* What finds no lane is one slice, drawn when it is known complete, and again for what is left of it. */
static void test_rest(void **state)
{
	json_t *events;
	uint64_t number;

	(void)state;
	start();
	for (number = 1; number <= TIMELINE_LANES + 4; number++)
		submit(1, number, (int64_t)number * 10, (int64_t)number * 10 + 5);
	submit(1, TIMELINE_LANES + 1, 200, 205); /* a number that goes back does not shorten it */
	complete(1, TIMELINE_LANES, 300);        /* none of it */
	for (number = 20; number < 20 + TIMELINE_LANES; number++)
		submit(1, number, 305, 306);
	complete(1, TIMELINE_LANES + 2, 400);
	complete(1, TIMELINE_LANES + 4, 390); /* of another thread, with an older clock */
	submit(1, 40, 395, 396);              /* does not begin before what was drawn ended */
	timeline_end_stream(&drawing, model, stream(1), ORIGIN + 500);
	events = finish();
	check_rest(events, TIMELINE_LANES, TIMELINE_LANES + 1, 4, 70, 330);
	check_rest(events, TIMELINE_LANES + 1, TIMELINE_LANES + 3, 2, 400, 0);
	check_rest(events, 2 * TIMELINE_LANES + 2, 40, 1, 400, 100);
	assert_null(nth(events, "X", 2 * TIMELINE_LANES + 3));
	json_decref(events);
}

/* Level waits: rows that are taken have no room, and no slice of no time is drawn. */
static void test_busy(void **state)
{
	json_t *events;

	(void)state;
	start();
	for (int i = 0; i < TIMELINE_LANES; i++)
		timeline_busy(&drawing, stream(1), ORIGIN + 10, ORIGIN + 50, &plain);
	timeline_busy(&drawing, stream(1), ORIGIN + 20, ORIGIN + 40,
		      &plain); /* within all of them */
	timeline_busy(&drawing, stream(1), ORIGIN + 20, ORIGIN + 70, &plain); /* behind one */
	for (uint64_t number = 1; number <= TIMELINE_LANES; number++)
		submit(2, number, 10, 11);
	timeline_busy(&drawing, stream(2), ORIGIN + 20, ORIGIN + 40,
		      &plain); /* operations hold all */
	events = finish();
	assert_int_equal(ns_of(nth(events, "X", TIMELINE_LANES), "ts"), 50);
	assert_int_equal(ns_of(nth(events, "X", TIMELINE_LANES), "dur"), 20);
	assert_null(nth(events, "X", TIMELINE_LANES + 1));
	json_decref(events);
}

/* An arrow into a wait comes from a submission that had returned. */
static void test_last_submission(void **state)
{
	struct timeline_point point;

	(void)state;
	start();
	assert_false(timeline_last_submission(stream(1), INT64_MAX, &point));
	for (uint64_t number = 1; number <= 6; number++)
		submit(1, number, (int64_t)number * 100, (int64_t)number * 100 + 10);
	assert_true(timeline_last_submission(stream(1), ORIGIN + 450, &point));
	assert_int_equal(point.ns, ORIGIN + 409);
	assert_false(timeline_last_submission(stream(1), ORIGIN + 309, &point)); /* not before it */
	json_decref(finish());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times_before_the_origin),
		cmocka_unit_test(test_arrows_do_not_go_back),
		cmocka_unit_test(test_long_texts),
		cmocka_unit_test(test_numbers_and_names),
		cmocka_unit_test(test_operations_that_are_no_numbers),
		cmocka_unit_test(test_operation_of_no_time),
		cmocka_unit_test(test_operation_that_begins_later),
		cmocka_unit_test(test_arrows_have_a_bound),
		cmocka_unit_test(test_arrows_lie_in_both),
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_last_submission),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
