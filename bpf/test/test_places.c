// SPDX-License-Identifier: MIT
/* Which file stood behind an address of which process, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "places.h"

static int start(void **state)
{
	*state = places_new();
	return !*state;
}

static int stop(void **state)
{
	places_done(*state);
	return 0;
}

static void map(struct places *places, pid_t process, uint64_t ns, uint64_t start, uint64_t end,
		const char *path)
{
	struct place place = {.since_ns = ns,
			      .start = start,
			      .end = end,
			      .device = 1,
			      .inode = (ino_t)path[0],
			      .path = (char *)path};

	assert_int_equal(places_map(places, process, &place, strlen(path)), 0);
}

static const char *at(struct places *places, pid_t process, uint64_t address, uint64_t ns)
{
	const struct place *place = places_find(places, process, address, ns);

	return place ? place->path : "none";
}

static void ends_are_exclusive(void **state)
{
	map(*state, 1, 10, 0x1000, 0x2000, "a");
	assert_string_equal(at(*state, 1, 0x1000, 10), "a");
	assert_string_equal(at(*state, 1, 0x1fff, 10), "a");
	assert_string_equal(at(*state, 1, 0x2000, 10), "none");
	assert_string_equal(at(*state, 1, 0xfff, 10), "none");
	assert_string_equal(at(*state, 2, 0x1000, 10), "none");
}

static void later_mapping_replaces_the_earlier_from_its_time_on(void **state)
{
	/* In the wrong order of coming, as from two processors. */
	map(*state, 1, 20, 0x1000, 0x3000, "b");
	map(*state, 1, 10, 0x1000, 0x2000, "a");
	assert_string_equal(at(*state, 1, 0x1000, 9), "none");
	assert_string_equal(at(*state, 1, 0x1000, 19), "a");
	assert_string_equal(at(*state, 1, 0x1000, 20), "b");
	assert_string_equal(at(*state, 1, 0x1000, UINT64_MAX), "b");
}

static void child_has_what_its_parent_had_when_it_began(void **state)
{
	map(*state, 1, 10, 0x1000, 0x2000, "a");
	map(*state, 1, 30, 0x5000, 0x6000, "late");
	map(*state, 2, 40, 0x1000, 0x2000, "own");
	assert_int_equal(places_fork(*state, 2, 1, 20), 0);
	assert_string_equal(at(*state, 2, 0x1000, 25), "a");
	assert_string_equal(at(*state, 2, 0x1000, 40), "own");
	assert_string_equal(at(*state, 2, 0x5000, 50), "none");
	assert_int_equal(places_fork(*state, 3, 2, 45), 0);
	assert_string_equal(at(*state, 3, 0x1000, 50), "own");
}

static void started_program_has_nothing_of_what_was(void **state)
{
	map(*state, 1, 10, 0x1000, 0x2000, "a");
	map(*state, 1, 21, 0x8000, 0x9000, "program");
	assert_int_equal(places_exec(*state, 1, 20), 0);
	assert_string_equal(at(*state, 1, 0x1000, 19), "a");
	assert_string_equal(at(*state, 1, 0x1000, 25), "none");
	assert_string_equal(places_program(*state, 1, 25), "program");
	assert_int_equal(places_fork(*state, 2, 1, 30), 0);
	assert_string_equal(places_program(*state, 2, 35), "program");
	/* The same mapping once more, in the next program. */
	assert_int_equal(places_exec(*state, 1, 40), 0);
	map(*state, 1, 41, 0x8000, 0x9000, "program");
	assert_string_equal(at(*state, 1, 0x8000, 45), "program");
}

static void id_that_is_used_again_is_another_process(void **state)
{
	map(*state, 1, 5, 0x9000, 0xa000, "parent");
	assert_int_equal(places_fork(*state, 7, 1, 10), 0);
	map(*state, 7, 11, 0x1000, 0x2000, "first");
	assert_int_equal(places_fork(*state, 7, 1, 20), 0);
	assert_string_equal(at(*state, 7, 0x1000, 15), "first");
	assert_string_equal(at(*state, 7, 0x1000, 25), "none");
	assert_string_equal(at(*state, 7, 0x9000, 25), "parent");
}

static void forks_in_a_circle_end(void **state)
{
	assert_int_equal(places_fork(*state, 1, 2, 10), 0);
	assert_int_equal(places_fork(*state, 2, 1, 10), 0);
	assert_string_equal(at(*state, 1, 0x1000, 10), "none");
	assert_null(places_program(*state, 1, 10));
}

static bool none(pid_t process, void *data)
{
	return process != 1;
}

static void forgotten_process_is_gone_and_changes_are_told(void **state)
{
	uint64_t before;

	map(*state, 1, 10, 0x1000, 0x2000, "a");
	map(*state, 4097, 10, 0x1000, 0x2000, "b");
	before = places_changes(*state);
	places_prune(*state, none, NULL);
	assert_true(places_changes(*state) > before);
	assert_string_equal(at(*state, 1, 0x1000, 10), "none");
	assert_string_equal(at(*state, 4097, 0x1000, 10), "b");
}

static void own_mappings_are_read(void **state)
{
	const struct place *place;

	assert_int_equal(places_scan(*state, getpid(), NULL, NULL), 0);
	place = places_find(*state, getpid(), (uint64_t)(uintptr_t)&own_mappings_are_read, 1);
	assert_non_null(place);
	assert_non_null(strstr(place->path, "test-places"));
	assert_true(places_scan(*state, 0x7fffffff, NULL, NULL) < 0);
}

static void one_that_maps_for_ever_is_cut_off(void **state)
{
	struct place place = {.since_ns = 1, .inode = 1, .path = "a"};
	int r = 0;

	for (uint64_t i = 0; i < 100000 && !r; i++) {
		place.start = i * 0x1000;
		place.end = place.start + 0x1000;
		r = places_map(*state, 1, &place, 1);
	}
	assert_true(r < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ends_are_exclusive, start, stop),
		cmocka_unit_test_setup_teardown(later_mapping_replaces_the_earlier_from_its_time_on,
						start, stop),
		cmocka_unit_test_setup_teardown(child_has_what_its_parent_had_when_it_began, start,
						stop),
		cmocka_unit_test_setup_teardown(started_program_has_nothing_of_what_was, start,
						stop),
		cmocka_unit_test_setup_teardown(id_that_is_used_again_is_another_process, start,
						stop),
		cmocka_unit_test_setup_teardown(forks_in_a_circle_end, start, stop),
		cmocka_unit_test_setup_teardown(forgotten_process_is_gone_and_changes_are_told,
						start, stop),
		cmocka_unit_test_setup_teardown(own_mappings_are_read, start, stop),
		cmocka_unit_test_setup_teardown(one_that_maps_for_ever_is_cut_off, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
