// SPDX-License-Identifier: MIT
/*
 * The saving that what-if tells holds what is really saved: random programs are run by an independent
 * scheduler with and without the waits of each site (synthetic.h), and their traces given to the analysis.
 *
 *	whatif-property SEEDS [FIRST]
 *
 * FIRST is 1 unless given. It prints the first seed, and of a failure the seed and the smallest program found that still fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "synthetic.h"
#include "tests/unit/rounds.h"
#include "tracing/analysis/whatif.h"

/* Each mutation makes some of these fail; in a tenth of them, those around the one that finds the missing stream_wait. */
#define MUTATION_FIRST (ROUNDS_SHARE > 1 ? 901 : 1)
#define MUTATION_SEEDS ROUNDS(2000)

static uint64_t first_seed;
static unsigned int seeds = ROUNDS(2000);

struct tally {
	unsigned int programs, sites, outside;
	/* Savings above 5 % of the run, and those with an interval of at most 30 %; [1]: one stream a thread. */
	unsigned int matter[2], narrow[2];
};

static struct whatif_settings settings = {.sites = WHATIF_SITES_MAX, .wake_ns = 50000};

/* Rows of one site are one for each rule; here a site is told apart by its number alone. */
static bool site_range(const struct whatif_result *result, uint32_t site, int64_t *ret_low,
		       int64_t *ret_high, unsigned int *ret_rows)
{
	*ret_rows = 0;
	for (size_t i = 0; i < result->row_count; i++)
		if (result->rows[i].site == site) {
			*ret_low = result->rows[i].low_ns;
			*ret_high = result->rows[i].high_ns;
			++*ret_rows;
		}
	return *ret_rows == 1;
}

/* How many sites of the program have their true saving outside the interval. */
static unsigned int check(const struct program *program, enum omission omission,
			  struct tally *tally, bool tell)
{
	struct whatif *whatif = whatif_new(&settings);
	int64_t whole = program_run(program, 0);
	const struct whatif_result *result;
	unsigned int outside = 0, rows;

	program_trace(program, omission, &whatif_ops, whatif);
	result = whatif_result(whatif);
	for (uint32_t site = 1; site < SYNTHETIC_SITES; site++) {
		int64_t low, high, saved;

		if (!site_range(result, site, &low, &high, &rows))
			continue;
		saved = whole - program_run(program, site);
		/* What becomes a wait costs a wake-up, and threads may overtake each other: a run can get longer. Then 0 is told. */
		if (saved < 0)
			saved = 0;
		tally->sites++;
		if (saved < low || saved > high) {
			outside++;
			if (tell)
				printf("site %u saves %lld, told %lld to %lld, run %lld\n", site,
				       (long long)saved, (long long)low, (long long)high,
				       (long long)whole);
		}
		if (saved * 20 > whole) {
			unsigned int one_stream = program->seed % 3 == 0;

			tally->matter[one_stream]++;
			tally->narrow[one_stream] += (high - low) * 10 <= saved * 3;
		}
	}
	whatif_free(whatif);
	tally->programs++;
	tally->outside += outside;
	return outside;
}

/* Takes out runs of actions, halves first, as long as the program still fails. */
static void shrink(struct program *program, enum omission omission)
{
	struct tally tally = {0};
	struct program *smaller = malloc(sizeof(*smaller));

	assert_non_null(smaller);
	for (size_t piece = SYNTHETIC_ACTIONS; piece > 0; piece /= 2)
		for (unsigned int thread = 0; thread < program->threads; thread++)
			for (size_t at = 0; at + piece < program->count[thread];) {
				*smaller = *program;
				memmove(&smaller->action[thread][at],
					&smaller->action[thread][at + piece],
					(program->count[thread] - at - piece) *
						sizeof(struct action));
				smaller->count[thread] -= piece;
				if (check(smaller, omission, &tally, false))
					*program = *smaller;
				else
					at += piece;
			}
	free(smaller);
}

/*
 * One program in which each site has one kind of call (a site is a place in the source): what the first
 * action with a site is, all are.
 */
static void one_kind_a_site(struct program *program)
{
	for (unsigned int thread = 0; thread < program->threads; thread++)
		for (size_t i = 0; i < program->count[thread]; i++) {
			struct action *action = &program->action[thread][i];

			if (action->kind >= ACTION_STREAM_SYNC && action->site)
				action->site = 1 + (uint32_t)(action->kind - ACTION_STREAM_SYNC);
		}
}

static struct tally try_seeds(unsigned int threads, enum omission omission, bool must_hold)
{
	struct program *program = malloc(sizeof(*program));
	struct tally tally = {0};

	assert_non_null(program);
	for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
		program_generate(program, seed, threads, 10 + seed % (SYNTHETIC_ACTIONS - 10));
		one_kind_a_site(program);
		if (check(program, omission, &tally, false) == 0 || !must_hold)
			continue;
		shrink(program, omission);
		printf("seed %llu, %u threads:\n", (unsigned long long)seed, threads);
		program_print(program);
		check(program, omission, &tally, true);
		fail_msg("seed %llu: the saving lies outside its interval",
			 (unsigned long long)seed);
	}
	free(program);
	return tally;
}

static void holds(unsigned int threads)
{
	struct tally tally = try_seeds(threads, OMIT_NOTHING, true);

	printf("%u threads: %u programs, %u sites, all inside\n", threads, tally.programs,
	       tally.sites);
	for (int i = 0; i < 2; i++)
		printf("  %s: of %u savings above 5 %% of the run %u (%.1f %%) have an interval of "
		       "at "
		       "most 30 %%\n",
		       i ? "one stream a thread" : "several streams", tally.matter[i],
		       tally.narrow[i],
		       100.0 * tally.narrow[i] / (tally.matter[i] ? tally.matter[i] : 1));
	assert_true(tally.sites > seeds);
}

static void test_one_thread(void **state)
{
	holds(1);
}

static void test_two_threads(void **state)
{
	holds(2);
}

static void test_three_threads(void **state)
{
	holds(3);
}

static unsigned int outside_without(enum omission omission, unsigned int *ret_narrow)
{
	struct tally tally = try_seeds(1, omission, false);

	*ret_narrow = tally.narrow[0] + tally.narrow[1];
	return tally.outside;
}

/* The test sees it when the trace does not have what the graph is made of. */
static void test_mutations(void **state)
{
	uint64_t random_seed = first_seed;
	unsigned int random_seeds = seeds;
	unsigned int narrow, all_narrow, outside;

	/* The same ones each time: that they find it is certain then. */
	first_seed = MUTATION_FIRST;
	seeds = MUTATION_SEEDS;
	assert_int_equal(outside_without(OMIT_NOTHING, &all_narrow), 0);
	outside = outside_without(OMIT_STREAM_WAIT, &narrow);
	printf("without stream_wait: %u outside\n", outside);
	assert_true(outside > 0);
	outside = outside_without(OMIT_JOIN, &narrow);
	printf("without join: %u outside\n", outside);
	assert_true(outside > 0);
	outside = outside_without(OMIT_LAUNCHES, &narrow);
	printf("without half of the launches: %u outside\n", outside);
	assert_true(outside > 0);
	/* What the host knew afterwards makes intervals narrow; without it they are wide, and hold. */
	outside = outside_without(OMIT_COMPLETED, &narrow);
	printf("without completed: %u outside, %u narrow of %u\n", outside, narrow, all_narrow);
	assert_true(narrow < all_narrow);
	outside = outside_without(OMIT_CANDIDATES, &narrow);
	printf("without candidates: %u outside, %u narrow of %u\n", outside, narrow, all_narrow);
	assert_true(narrow < all_narrow);
	first_seed = random_seed;
	seeds = random_seeds;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread),
		cmocka_unit_test(test_two_threads),
		cmocka_unit_test(test_three_threads),
		cmocka_unit_test(test_mutations),
	};

	if (argc > 1)
		seeds = (unsigned int)strtoul(argv[1], NULL, 10);
	first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	printf("first seed %llu\n", (unsigned long long)first_seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
