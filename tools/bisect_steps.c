// SPDX-License-Identifier: MIT
/*
 * Bisect, steps (bisect.h): raw runs, then switches, relaxations and call sites, each by the same search (bisect_search.c) over runs of the
 * program (bisect_run.c). Called by bisect.c, in that order. A line about each run goes to stderr. A step that has nothing to find says so
 * on stdout, and ends the command.
 */
#include "bisect.h"

#include <stdio.h>

#include "command.h"
#include "memory.h"
#include "report_lines.h"

#define NS          UINT64_C(1000000000)
#define LIMIT_TIMES 10 /* of the longest raw run */
#define LIMIT_LEAST (5 * NS)
#define ROUNDS      4 /* of sites that only come to light once others are denied */
#define RAW_LEAST   2

static void finish(struct bisect *bisect)
{
	bisect_outcome_done(&bisect->raw);
	bisect_remove_folder(bisect->program.folder);
	bisect_words_done(&bisect->switches);
	bisect_words_done(&bisect->relaxations);
	bisect_sites_done(&bisect->sites);
}

void bisect_quit(struct bisect *bisect, int status)
{
	bool written = bisect_json_write(bisect, status);

	finish(bisect);
	exit(fflush(stdout) || !written ? EXIT_RUN : status);
}

void bisect_give_up(struct bisect *bisect, char *why)
{
	bisect->inconclusive = why;
	(void)printf("inconclusive: %s\n", why);
	bisect_quit(bisect, BISECT_INCONCLUSIVE);
}

/* ---- runs ---- */

/* One line about each run. */
static void tell(struct bisect *bisect, const char *what, const char *difference)
{
	command_say("run %u, %s: %s", ++bisect->run_count, what,
		    difference ? difference : "as raw");
}

/* Runs once, compares with raw, keeps the sites if they are wanted. What differs; NULL: nothing. The caller frees. */
static char *run_once(struct bisect *bisect, const struct bisect_settings *settings,
		      const char *what)
{
	struct bisect_outcome outcome;
	char *difference;

	bisect_run(&bisect->program, settings, &outcome);
	difference = bisect_difference(&bisect->program, &bisect->raw, &outcome);
	if (bisect->keeps_sites) {
		_cleanup_free_ char *records = memory_format("%s/records", outcome.folder);

		bisect->fresh += bisect_sites_add(&bisect->sites, records);
	}
	tell(bisect, what, difference);
	bisect_outcome_done(&outcome);
	return difference;
}

/* Bad as soon as one of the runs is. */
static enum bisect_answer try(struct bisect *bisect, const struct bisect_settings *settings,
			      const char *what)
{
	for (unsigned long i = 0; i < bisect->runs; i++) {
		char *difference = run_once(bisect, settings, what);

		if (!difference)
			continue;
		if (!bisect->difference)
			bisect->difference = difference;
		else
			free(difference);
		return BISECT_BAD;
	}
	return BISECT_GOOD;
}

static enum bisect_answer try_switches(void *context, const bool *off)
{
	struct bisect *bisect = context;
	_cleanup_free_ char *fix = bisect_words_join(&bisect->switches, off), *what = NULL;
	struct bisect_settings settings = {
		.fix = fix, .relax = bisect->relax, .deny = bisect->denied};

	if (!fix) /* nothing is rewritten: as raw */
		return BISECT_GOOD;
	what = memory_format("fix=%s", fix);
	return try(bisect, &settings, what);
}

static enum bisect_answer try_relaxations(void *context, const bool *off)
{
	struct bisect *bisect = context;
	_cleanup_free_ char *fix = bisect_words_join(&bisect->switches, NULL);
	_cleanup_free_ char *relax = bisect_relax_value(&bisect->relaxations, off);
	_cleanup_free_ char *what = memory_format("fix=%s relax=%s", fix, relax ? relax : "");
	struct bisect_settings settings = {.fix = fix, .relax = relax, .deny = bisect->denied};

	return try(bisect, &settings, what);
}

static size_t count_of(const bool *off, size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += off[i];
	return sum;
}

enum bisect_answer bisect_try_sites(void *context, const bool *off)
{
	struct bisect *bisect = context;
	_cleanup_free_ char *fix = bisect_words_join(&bisect->switches, NULL);
	size_t count = count_of(off, bisect->sites.uses.count);
	_cleanup_free_ char *what =
		memory_format("%zu of %zu call site%s denied", count, bisect->sites.uses.count,
			      plural(bisect->sites.uses.count));
	struct bisect_settings settings = {
		.fix = fix, .relax = bisect->relax, .deny = bisect->denied};

	bisect_sites_write(&bisect->sites, off, bisect->base, NULL, bisect->denied);
	return try(bisect, &settings, what);
}

/* ---- the steps ---- */

void bisect_run_raw(struct bisect *bisect)
{
	struct bisect_program *program = &bisect->program;
	const struct bisect_settings settings = {0};
	uint64_t longest = 0;

	for (unsigned long i = 0; i < bisect->runs || i < RAW_LEAST; i++) {
		struct bisect_outcome outcome;
		_cleanup_free_ char *difference = NULL, *ending = NULL;
		char *why;

		bisect_run(program, &settings, &outcome);
		ending = bisect_ending(&outcome);
		if (outcome.wall_ns > longest)
			longest = outcome.wall_ns;
		if (outcome.is_hung || outcome.check_status > 0) {
			command_say("run %u, raw: %s", ++bisect->run_count, ending);
			why = memory_format("%s without any rewrite",
					    outcome.is_hung ? "the program does not end"
							    : "the check finds the program bad");
			bisect_outcome_done(&outcome);
			bisect_give_up(bisect, why);
		}
		if (!i) {
			bisect->raw = outcome;
			command_say("run %u, raw: %s", ++bisect->run_count, ending);
			continue;
		}
		difference = bisect_difference(program, &bisect->raw, &outcome);
		bisect_outcome_done(&outcome);
		tell(bisect, "raw", difference);
		if (!difference)
			continue;
		bisect_give_up(bisect,
			       memory_format("raw runs of the program differ: %s", difference));
	}
	if (!program->limit_ns)
		program->limit_ns =
			LIMIT_TIMES * longest > LIMIT_LEAST ? LIMIT_TIMES * longest : LIMIT_LEAST;
}

/* All off is as raw; ends the command where even the whole of mode fix is. */
bool *bisect_find_switches(struct bisect *bisect)
{
	bool *off = memory_new(bisect->switches.count * sizeof(*off));
	enum bisect_answer answer;

	bisect->keeps_sites = true;
	answer = try_switches(bisect, off);
	bisect->keeps_sites = false;
	if (answer == BISECT_GOOD) {
		(void)printf(bisect->sites.uses.count
				     ? "no difference: mode fix made rewrites at %zu "
				       "call site%s, and the "
				       "outcome is that of raw runs\n"
				     : "no difference: mode fix made no rewrite at all "
				       "(%zu call site%s; "
				       "slipstream run --mode fix tells why)\n",
			     bisect->sites.uses.count, plural(bisect->sites.uses.count));
		free(off);
		bisect_quit(bisect, BISECT_NONE);
	}
	if (bisect->switches.count > 1)
		(void)bisect_search(off, bisect->switches.count, SIZE_MAX, try_switches, bisect);
	else
		off[0] = true;
	return off;
}

/* NULL: it is not a matter of relaxations alone. */
bool *bisect_find_relaxations(struct bisect *bisect)
{
	size_t count = bisect->relaxations.count;
	bool *off;

	if (!count)
		return NULL;
	off = memory_new(count * sizeof(*off));
	for (size_t i = 0; i < count; i++)
		off[i] = true;
	if (try_relaxations(bisect, off) == BISECT_GOOD) {
		if (count > 1)
			(void)bisect_search(off, count, SIZE_MAX, try_relaxations, bisect);
		return off;
	}
	free(off);
	return NULL;
}

static bool is_off(const struct bisect_words *words, const bool *off, const char *word)
{
	for (size_t i = 0; i < words->count; i++)
		if (off[i] && !strcmp(words->words[i], word))
			return true;
	return false;
}

/* Only the sites that are off now are searched among. */
struct among {
	struct bisect *bisect;
	const size_t *index;
	size_t count;
};

static enum bisect_answer try_among(void *context, const bool *off)
{
	const struct among *among = context;
	_cleanup_free_ bool *all = memory_new(among->bisect->sites.uses.count * sizeof(*all));

	for (size_t i = 0; i < among->count; i++)
		all[among->index[i]] = off[i];
	return bisect_try_sites(among->bisect, all);
}

/* Sets *found, of the elements of *among; how many. */
static size_t search_among(struct among *among, size_t most, bool *found)
{
	memset(found, 0, among->count * sizeof(*found));
	return bisect_search(found, among->count, most, try_among, among);
}

/*
 * Last sites first: a block that is used again shows at the allocation, and to deny that is one site, where the frees that it may come
 * from are many. Where more than one is found, the other way round may give fewer.
 */
static void narrow_sites(struct bisect *bisect, bool *off)
{
	size_t count = count_of(off, bisect->sites.uses.count), k = count, backward, forward;
	_cleanup_free_ size_t *last_first = memory_new(count * sizeof(*last_first));
	_cleanup_free_ size_t *first_first = memory_new(count * sizeof(*first_first));
	_cleanup_free_ bool *found = memory_new(count * sizeof(*found));
	_cleanup_free_ bool *other = memory_new(count * sizeof(*other));
	struct among among = {.bisect = bisect, .index = last_first, .count = count};

	for (size_t i = 0; i < bisect->sites.uses.count; i++) {
		if (!off[i])
			continue;
		k--;
		last_first[k] = i;
		first_first[count - 1 - k] = i;
	}
	backward = search_among(&among, SIZE_MAX, found);
	if (backward > 1) {
		among.index = first_first;
		forward = search_among(&among, backward, other);
		if (forward >= backward)
			among.index = last_first;
		else
			memcpy(found, other, count * sizeof(*found));
	}
	for (size_t i = 0; i < count; i++)
		off[among.index[i]] = found[i];
}

bool *bisect_find_sites(struct bisect *bisect, const bool *switches)
{
	bool *off = NULL;

	/* Once some sites are denied the program may come by others. */
	for (int round = 0; round < ROUNDS; round++) {
		enum bisect_answer answer;

		off = memory_check(realloc(off, bisect->sites.uses.count + 1));
		for (size_t i = 0; i < bisect->sites.uses.count; i++) {
			const struct report_rewrite_use *site = bisect->sites.uses.items[i];

			off[i] = is_off(&bisect->switches, switches, site->rewrite);
		}
		bisect->keeps_sites = true;
		bisect->fresh = 0;
		answer = bisect_try_sites(bisect, off);
		bisect->keeps_sites = false;
		/* What came to light now is not denied, and was no harm. */
		off = memory_check(realloc(off, bisect->sites.uses.count + 1));
		for (size_t i = bisect->sites.uses.count - bisect->fresh;
		     i < bisect->sites.uses.count; i++)
			off[i] = false;
		if (answer == BISECT_GOOD) {
			narrow_sites(bisect, off);
			return off;
		}
		if (!bisect->fresh)
			break;
	}
	free(off);
	return NULL;
}
