// SPDX-License-Identifier: MIT
/*
 * slipstream bisect: finds the switch of mode fix, and the call sites, whose rewrite changes what a program does. Runs it raw (mode
 * observe), then in mode fix with more and more of it off (bisect_search.c), and compares the outcomes (bisect_run.c). The result goes to stdout, a line
 * about each run to stderr.
 */
#include "bisect.h"

#include <errno.h>
#include <inttypes.h>

#include "command.h"
#include "memory.h"
#include "program.h"
#include "report.h"
#include "report_lines.h"
#include "report_style.h"
#include "run.h"
#include "text.h"

#define NS          UINT64_C(1000000000)
#define LIMIT_TIMES 10 /* of the longest raw run */
#define LIMIT_LEAST (5 * NS)
#define ROUNDS      4 /* of sites that only come to light once others are denied */
#define RAW_LEAST   2

enum {
	KEY_CHECK = 0x400,
	KEY_OUTPUT,
	KEY_RUNS,
	KEY_TIMEOUT,
	KEY_DENY_OUT,
	KEY_DRIVER,
	KEY_VERBOSE
};

struct bisect {
	struct bisect_program program;
	const char *driver, *deny_out;
	unsigned long runs;
	char *command; /* in words */

	char *base;   /* deny list of the user; NULL none */
	char *denied; /* file of ours: the list of the run that comes */
	struct bisect_words switches, relaxations;
	char *relax; /* as the user has it */
	struct bisect_sites sites;

	struct bisect_outcome raw;
	unsigned int run_count;
	char *difference; /* of the first run in mode fix */
	bool keeps_sites; /* the next runs' sites are wanted */
	size_t fresh;     /* sites that they added */
};

static const struct argp_option options[] = {
	{"check", KEY_CHECK, "COMMAND", 0,
	 "ask this shell command, with the program's stdout on its stdin, instead of comparing "
	 "outputs: "
	 "exit status 0 is good, anything up to 125 bad",
	 1},
	{"output", KEY_OUTPUT, "FILE", 0,
	 "compare this file too, which the program writes; it is REMOVED before each run", 1},
	{"runs", KEY_RUNS, "N", 0,
	 "run each setting N times, for programs that fail now and then (1)", 1},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0,
	 "a run that takes longer hangs (10 times the longest raw run, 5 s at least)", 1},
	{"deny-out", KEY_DENY_OUT, "FILE", 0, "write a deny list that makes the program right", 1},
	{"driver", KEY_DRIVER, "DIR", 0, "put DIR, with its libcuda.so.1, first on LD_LIBRARY_PATH",
	 1},
	{"verbose", KEY_VERBOSE, NULL, 0, "show the program's stderr", 1},
	{0},
};

static unsigned long number(const char *option, const char *text, unsigned long most)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !value || value > most)
		command_fail(EXIT_USAGE, "--%s needs a number from 1 to %lu, not '%s'", option,
			     most, text);
	return value;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct bisect *bisect = state->input;
	struct bisect_program *program = &bisect->program;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = NULL;
		return 0;
	case KEY_CHECK:
		program->check = argument;
		return 0;
	case KEY_OUTPUT:
		program->outputs = memory_check(reallocarray(
			program->outputs, program->output_count + 1, sizeof(*program->outputs)));
		program->outputs[program->output_count++] = argument;
		return 0;
	case KEY_RUNS:
		bisect->runs = number("runs", argument, 10000);
		return 0;
	case KEY_TIMEOUT:
		program->limit_ns = number("timeout", argument, 1000000) * NS;
		return 0;
	case KEY_DENY_OUT:
		bisect->deny_out = argument;
		return 0;
	case KEY_DRIVER:
		bisect->driver = argument;
		return 0;
	case KEY_VERBOSE:
		program->show_stderr = true;
		return 0;
	case ARGP_KEY_ARG:
		program->arguments = state->argv + state->next - 1;
		state->next = state->argc; /* the rest is the program's */
		return 0;
	case ARGP_KEY_NO_ARGS:
		command_fail(EXIT_USAGE, "no program given (try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse_arguments(int argc, char **argv, struct bisect *bisect)
{
	static const struct argp_child children[] = {{.argp = &run_options_argp}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[--] PROGRAM [ARGUMENT...]",
		.doc = "Find the switch of mode fix, then the call sites, whose rewrite changes "
		       "what "
		       "PROGRAM does: its end, its stdout, the files named, or what a check says "
		       "of "
		       "them. It is run many times, with an empty stdin."
		       "\vExit status: 0 mode fix changes nothing, 1 found, 2 bad command line, 3 "
		       "inconclusive (raw runs differ, or no call site explains it), 125 if "
		       "slipstream "
		       "itself fails, 126 if PROGRAM cannot be executed, 127 if it cannot be "
		       "found. "
		       "--fix, --relax and --deny say where the search begins; --mode and --out "
		       "are "
		       "its own matter.",
		.children = children,
	};

	run_options_init();
	command_parse(&argp, argc, argv, ARGP_IN_ORDER, bisect);
}

static void finish(struct bisect *bisect)
{
	bisect_outcome_done(&bisect->raw);
	bisect_remove_folder(bisect->program.folder);
}

static void quit(struct bisect *bisect, int status)
{
	finish(bisect);
	exit(fflush(stdout) ? EXIT_RUN : status);
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

static enum bisect_answer try_sites(void *context, const bool *off)
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

static void run_raw(struct bisect *bisect)
{
	struct bisect_program *program = &bisect->program;
	const struct bisect_settings settings = {0};
	uint64_t longest = 0;

	for (unsigned long i = 0; i < bisect->runs || i < RAW_LEAST; i++) {
		struct bisect_outcome outcome;
		_cleanup_free_ char *difference = NULL, *ending = NULL;

		bisect_run(program, &settings, &outcome);
		ending = bisect_ending(&outcome);
		if (outcome.wall_ns > longest)
			longest = outcome.wall_ns;
		if (outcome.is_hung || outcome.check_status > 0) {
			command_say("run %u, raw: %s", ++bisect->run_count, ending);
			(void)printf("inconclusive: %s without any rewrite\n",
				     outcome.is_hung ? "the program does not end"
						     : "the check finds the program bad");
			bisect_outcome_done(&outcome);
			quit(bisect, BISECT_INCONCLUSIVE);
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
		(void)printf("inconclusive: raw runs of the program differ: %s\n", difference);
		quit(bisect, BISECT_INCONCLUSIVE);
	}
	if (!program->limit_ns)
		program->limit_ns =
			LIMIT_TIMES * longest > LIMIT_LEAST ? LIMIT_TIMES * longest : LIMIT_LEAST;
}

/* All off is as raw; ends the command where even the whole of mode fix is. */
static bool *find_switches(struct bisect *bisect)
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
		quit(bisect, BISECT_NONE);
	}
	if (bisect->switches.count > 1)
		(void)bisect_search(off, bisect->switches.count, SIZE_MAX, try_switches, bisect);
	else
		off[0] = true;
	return off;
}

/* NULL: it is not a matter of relaxations alone. */
static bool *find_relaxations(struct bisect *bisect)
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

/* NULL: denying all known sites does not help. */
static bool *find_sites(struct bisect *bisect, const bool *switches)
{
	bool *off = NULL;

	/* Once some sites are denied the program may come by others. */
	for (int round = 0; round < ROUNDS; round++) {
		enum bisect_answer answer;

		off = memory_check(realloc(off, bisect->sites.uses.count + 1));
		for (size_t i = 0; i < bisect->sites.uses.count; i++)
			off[i] = is_off(&bisect->switches, switches,
					bisect->sites.uses.uses[i].rewrite);
		bisect->keeps_sites = true;
		bisect->fresh = 0;
		answer = try_sites(bisect, off);
		bisect->keeps_sites = false;
		/* What came to light now is not denied, and was no harm. */
		off = memory_check(realloc(off, bisect->sites.uses.count + 1));
		for (size_t i = bisect->sites.uses.count - bisect->fresh;
		     i < bisect->sites.uses.count; i++)
			off[i] = false;
		if (answer == BISECT_GOOD)
			return off;
		if (!bisect->fresh)
			break;
	}
	free(off);
	return NULL;
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
	return try_sites(among->bisect, all);
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

/* ---- the result ---- */

static void print_words(const char *what, const struct bisect_words *words, const bool *off)
{
	(void)printf("  %s:", what);
	for (size_t i = 0; i < words->count; i++)
		if (off[i])
			(void)printf(" %s", words->words[i]);
}

static void print_cause(struct bisect *bisect, const bool *switches, const bool *relaxations)
{
	_cleanup_free_ char *ending = bisect_ending(&bisect->raw);
	_cleanup_free_ char *difference = text_printable(bisect->difference, false);
	_cleanup_free_ char *command = text_printable(bisect->command, false);

	(void)printf("mode fix changes the outcome of %s\n", command);
	(void)printf("  raw: %s\n  mode fix: %s\n", ending, difference);
	print_words("switch", &bisect->switches, switches);
	(void)printf("\n");
	if (relaxations) {
		_cleanup_free_ char *value = bisect_relax_value(&bisect->relaxations, relaxations);

		print_words("relaxation", &bisect->relaxations, relaxations);
		(void)printf(" (the outcome is that of raw runs with SLIPSTREAM_RELAX=%s)\n",
			     value ? value : "");
	}
}

static void print_sites(struct bisect *bisect, const bool *off)
{
	struct report_output output = {0};
	struct lines lines = {.out = stdout, .style = &output.style};

	report_style_init(&output, STDOUT_FILENO);
	for (size_t i = 0; i < bisect->sites.uses.count; i++) {
		const struct report_rewrite_use *site = &bisect->sites.uses.uses[i];

		if (!off[i])
			continue;
		lines_add(&lines, LINE_STRONG, "  call site %016" PRIx64 ": %s, rewritten by %s",
			  site->site->id, site->function ? site->function : "?", site->rewrite);
		lines_add_site(&lines, bisect->sites.report, site->site, "      ", 0);
	}
}

/* A list that is right is only right once it was tried. */
static void verify(struct bisect *bisect, const bool *off)
{
	_cleanup_free_ char *command = text_printable(bisect->command, false);

	if (try_sites(bisect, off) == BISECT_BAD) {
		(void)printf("inconclusive: with this deny list the program was right before, and "
			     "is not "
			     "now (try --runs)\n");
		quit(bisect, BISECT_INCONCLUSIVE);
	}
	if (bisect->deny_out) {
		bisect_sites_write(&bisect->sites, off, bisect->base, bisect->command,
				   bisect->deny_out);
		(void)printf("  right with: slipstream run --mode fix --deny %s -- %s\n",
			     bisect->deny_out, command);
	} else {
		(void)printf(
			"  right with these call sites denied (--deny-out FILE writes the list)\n");
	}
	(void)printf("  %u runs\n", bisect->run_count);
}

static void search(struct bisect *bisect)
{
	_cleanup_free_ bool *switches = NULL, *relaxations = NULL, *sites = NULL;

	run_raw(bisect);
	switches = find_switches(bisect);
	relaxations = find_relaxations(bisect);
	sites = find_sites(bisect, switches);
	if (sites)
		narrow_sites(bisect, sites);
	print_cause(bisect, switches, relaxations);
	if (!sites) {
		(void)printf(
			"inconclusive: with all %zu known call sites denied the outcome is still "
			"another one; leave the switch off\n",
			bisect->sites.uses.count);
		quit(bisect, BISECT_INCONCLUSIVE);
	}
	print_sites(bisect, sites);
	verify(bisect, sites);
}

static char *words_of(char **arguments)
{
	char *text = memory_copy(arguments[0]);

	for (size_t i = 1; arguments[i]; i++) {
		char *longer = memory_format("%s %s", text, arguments[i]);

		free(text);
		text = longer;
	}
	return text;
}

static char *copy_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? memory_copy(value) : NULL;
}

static void prepare(struct bisect *bisect, struct program *program)
{
	static const char *const own[] = {"SLIPSTREAM_MODE", "SLIPSTREAM_OUT"};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		(void)unsetenv(own[i]);
	run_options_export();
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (getenv(own[i]))
			command_fail(EXIT_USAGE, "--mode and --out are not for bisect");
	if (bisect->driver)
		run_preload_driver(bisect->driver);
	run_inspect(bisect->program.arguments[0], program);
	if (program->blind_spot)
		command_fail(EXIT_RUN, "mode fix cannot reach this program");
	bisect->program.path = program->is_elf ? program->path : NULL;
	bisect->program.preload = copy_variable("LD_PRELOAD");
	bisect->program.asan = copy_variable("ASAN_OPTIONS");
	run_preload(program);
	bisect->base = copy_variable("SLIPSTREAM_DENY");
	bisect->relax = copy_variable("SLIPSTREAM_RELAX");
	bisect->switches = bisect_switches();
	bisect->relaxations = bisect_relaxations();
	bisect->command = words_of(bisect->program.arguments);
	bisect->program.folder = run_make_folder(NULL, false);
	bisect->denied = memory_format("%s/deny", bisect->program.folder);
	bisect_sites_write(&bisect->sites, NULL, bisect->base, NULL, bisect->denied);
}

int command_bisect(int argc, char **argv)
{
	struct bisect bisect = {.runs = 1};
	struct program program = {0};

	command_failure_status = EXIT_RUN;
	parse_arguments(argc, argv, &bisect);
	prepare(&bisect, &program);
	search(&bisect);
	bisect_words_done(&bisect.switches);
	bisect_words_done(&bisect.relaxations);
	bisect_sites_done(&bisect.sites);
	quit(&bisect, BISECT_FOUND);
	return 0;
}
