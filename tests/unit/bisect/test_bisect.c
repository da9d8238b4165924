// SPDX-License-Identifier: MIT
/*
 * The search of bisect on random sets of culprits, and the lines of a deny list. Seeds are printed; an argument is one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "bisect.h"
#include "deny_list.h"

#define ELEMENTS_MAX 200
#define ROUNDS       3000

static unsigned int seed;

static uint32_t random_below(uint32_t limit)
{
	return (uint32_t)rand_r(&seed) % limit;
}

/* ---- search ---- */

/* All culprits must be off; each may stand for several elements of which one will do. */
struct plan {
	size_t count, tests;
	bool culprit[ELEMENTS_MAX];
};

static enum bisect_answer all_culprits_off(void *context, const bool *off)
{
	struct plan *plan = context;
	enum bisect_answer answer = BISECT_GOOD;

	plan->tests++;
	for (size_t i = 0; i < plan->count; i++)
		if (plan->culprit[i] && !off[i])
			answer = BISECT_BAD;
	return answer;
}

static size_t bits(size_t count)
{
	size_t number = 0;

	while ((size_t)1 << number < count)
		number++;
	return number;
}

static void test_finds_exactly_the_culprits(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct plan plan = {.count = 1 + random_below(ELEMENTS_MAX)};
		bool off[ELEMENTS_MAX] = {0};
		size_t culprits = 0;

		plan.culprit[random_below((uint32_t)plan.count)] = true;
		for (uint32_t more = random_below(6); more; more--)
			plan.culprit[random_below((uint32_t)plan.count)] = true;
		for (size_t i = 0; i < plan.count; i++)
			culprits += plan.culprit[i];
		assert_int_equal(bisect_search(off, plan.count, SIZE_MAX, all_culprits_off, &plan),
				 culprits);
		assert_memory_equal(off, plan.culprit, plan.count * sizeof(*off));
		assert_true(plan.tests <= culprits * (bits(plan.count) + 1));
	}
}

static void test_gives_up(void **state)
{
	struct plan plan = {.count = 100};
	bool off[100];

	(void)state;
	for (size_t i = 10; i < 20; i++)
		plan.culprit[i] = true;
	assert_int_equal(bisect_search(off, 100, 3, all_culprits_off, &plan), 3);
	assert_true(plan.tests <= 3 * (bits(100) + 1));
	assert_int_equal(bisect_search(off, 100, 11, all_culprits_off, &plan), 10);
}

/* Good if the pair, or the single one, is off: whatever it finds is enough, and nothing in it is too much. */
static enum bisect_answer one_of_two_ways(void *context, const bool *off)
{
	(void)context;
	return (off[3] && off[7]) || off[11] ? BISECT_GOOD : BISECT_BAD;
}

static void test_two_ways(void **state)
{
	bool off[20];

	(void)state;
	assert_int_equal(bisect_search(off, 20, SIZE_MAX, one_of_two_ways, NULL), 2);
	assert_true(off[3] && off[7] && !off[11]);
}

/* ---- deny lists ---- */

#define WORDS "pinned|frees|staging"

static int line(const char *text, struct deny_entry *ret_entry)
{
	const char *why = NULL;
	int found = deny_line(text, strlen(text), WORDS, ret_entry, &why);

	assert_true(found >= 0 || why);
	return found;
}

static void test_lines(void **state)
{
	struct deny_entry entry;

	(void)state;
	assert_int_equal(line("", &entry), 0);
	assert_int_equal(line("  \t\r", &entry), 0);
	assert_int_equal(line(" # site 12", &entry), 0);
	assert_int_equal(line("site 0123456789abcdef", &entry), 1);
	assert_true(entry.kind == DENY_SITE && entry.key == UINT64_C(0x0123456789abcdef));
	assert_true(entry.rewrites == UINT32_MAX);
	assert_int_equal(line("\tsite ffffffffffffffff staging,pinned # why", &entry), 1);
	assert_true(entry.key == UINT64_MAX && entry.rewrites == 5);
	assert_int_equal(line("file libnccl.so.2 frees\r", &entry), 1);
	assert_true(entry.kind == DENY_FILE && entry.rewrites == 2);
	assert_int_equal(entry.length, 12);
	assert_memory_equal(entry.name, "libnccl.so.2", 12);
	assert_int_equal(line("python train_step", &entry), 1);
	assert_true(entry.kind == DENY_PYTHON && entry.length == 10);
	assert_int_equal(line("function cuMemFree_v2 frees # why", &entry), 1);
	assert_true(entry.kind == DENY_FUNCTION && entry.length == 12 && entry.rewrites == 2);
}

static void test_names_of_functions(void **state)
{
	static const struct {
		const char *line, *function;
		bool is_meant;
	} cases[] = {
		{"function cuMemcpyHtoD", "cuMemcpyHtoD", true},
		{"function cuMemcpyHtoD", "cuMemcpyHtoD_v2", true},
		{"function cuMemcpyHtoD", "cuMemcpyHtoD_v2_ptds", true},
		{"function cuMemcpyHtoD", "cuMemcpyHtoDAsync_v2", false},
		{"function cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds", true},
		{"function cuMemcpyHtoD_v2", "cuMemcpyHtoD", false},
		{"function cuMemcpy", "cuMemcpy_ptds", true},
		{"function cuMemcpyAsync", "cuMemcpyAsync_ptsz", true},
		{"function cuMemcpy", "cuMemcpyPeer", false},
		{"function cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD_v2", false},
		{"function cu", "cuInit", false},
	};
	struct deny_entry entry;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(line(cases[i].line, &entry), 1);
		if (deny_means(&entry, cases[i].function) != cases[i].is_meant)
			fail_msg("%s: %s", cases[i].line, cases[i].function);
	}
}

static void test_bad_lines(void **state)
{
	static const char *const bad[] = {
		"site",
		"site 0",
		"site 0000000000000000",
		"site 0123456789ABCDEF",
		"site 0123456789abcdef0",
		"site 0123456789abcdef pinned frees",
		"site 0123456789abcdef pinned,",
		"site 0123456789abcdef ,pinned",
		"site 0123456789abcdef pinne",
		"site 0123456789abcdef pinned|frees",
		"sites 0123456789abcdef",
		"functions cuMemFree",
		"function",
		"0123456789abcdef",
	};
	struct deny_entry entry;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (line(bad[i], &entry) != -1)
			fail_msg("taken: %s", bad[i]);
}

/* Whatever the bytes are, names lie in the line and bits are those of words. */
static void test_any_bytes(void **state)
{
	static const char alphabet[] =
		"site file python function pinned,frees,staging|0123456789abcdef#\t\r ";

	(void)state;
	for (int round = 0; round < 100 * ROUNDS; round++) {
		size_t length = random_below(48);
		/* Exactly as long: a reader that goes on is seen by a sanitizer. */
		char *text = malloc(length ? length : 1);
		struct deny_entry entry;
		const char *why;

		assert_non_null(text);
		for (size_t i = 0; i < length; i++)
			text[i] = random_below(8) ? alphabet[random_below(sizeof(alphabet) - 1)]
						  : (char)random_below(256);
		if (length > 20 && random_below(2))
			memcpy(text, "site 0123456789abcdef ", 21);
		if (deny_line(text, length, WORDS, &entry, &why) == 1) {
			assert_true(entry.rewrites == UINT32_MAX ||
				    (entry.rewrites && entry.rewrites <= 7));
			assert_true(entry.name >= text &&
				    entry.name + entry.length <= text + length);
		}
		free(text);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_exactly_the_culprits),
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_two_ways),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_names_of_functions),
		cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_any_bytes),
	};

	seed = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : (unsigned int)time(NULL);
	printf("seed %u\n", seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
