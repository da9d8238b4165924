// SPDX-License-Identifier: MIT
/*
 * Random programs that must give the same with and without mode fix: many in one process, one line each.
 *
 *	property --seeds FROM:TO	programs of these seeds, TO not included
 *	property --programs FILE	programs of a file, as --print writes them
 *
 * Each program has contexts of its own, and, on the simulated driver, a schedule of its own. A line is `number digest`, where number is
 * the seed or the place in the file. With --repeat, each is run several times, each time with another schedule, until one gives something else than
 * the first: then both digests are in its line, with a slash between them. run.py runs it twice and compares. Exit status 3: a program hangs (its
 * number is on stderr).
 */
#include "program.h"

#include <argp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The simulated driver's (tests/simcuda/README.md). */
void simcuda_reseed(uint64_t seed) __attribute__((weak));

static struct {
	uint64_t from, to, schedule, limit, repeat;
	const char *file, *only;
	bool verbose, print, keep, threads;
} options = {.limit = 10, .repeat = 1};

static volatile uint64_t running;

static const struct argp_option rows[] = {
	{"seeds", 's', "FROM:TO", 0, "Programs of these seeds, TO not included", 0},
	{"programs", 'f', "FILE", 0, "Programs of a file", 0},
	{"only", 'o', "N,N...", 0, "Of each program only these operations, from 0", 0},
	{"threads", 't', NULL, 0, "Only programs whose threads run beside each other", 0},
	{"repeat", 'r', "N", 0, "Each program N times (1)", 0},
	{"schedule", 'c', "N", 0, "Another schedule of the simulated driver", 0},
	{"limit", 'l', "SECONDS", 0, "After which a program hangs (10)", 0},
	{"keep-contexts", 'k', NULL, 0,
	 "Make contexts once, not for each program, and leave floods out: for a real driver", 0},
	{"verbose", 'v', NULL, 0, "Each call, and what it gave", 0},
	{"print", 'p', NULL, 0, "Write the programs and do not run them", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	char *rest;

	switch (key) {
	case 's':
		options.from = strtoull(text, &rest, 0);
		if (*rest != ':')
			argp_error(state, "no range of seeds: %s", text);
		options.to = strtoull(rest + 1, &rest, 0);
		if (*rest)
			argp_error(state, "no range of seeds: %s", text);
		return 0;
	case 'f':
		options.file = text;
		return 0;
	case 'o':
		options.only = text;
		return 0;
	case 't':
		options.threads = true;
		return 0;
	case 'r':
		options.repeat = strtoull(text, NULL, 0);
		return 0;
	case 'c':
		options.schedule = strtoull(text, NULL, 0);
		return 0;
	case 'l':
		options.limit = strtoull(text, NULL, 0);
		return 0;
	case 'k':
		options.keep = true;
		return 0;
	case 'v':
		options.verbose = true;
		return 0;
	case 'p':
		options.print = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void keep_only(struct program *program)
{
	bool kept[OPERATIONS] = {false};
	unsigned int count = 0;

	for (const char *at = options.only; at && *at;) {
		char *rest;
		unsigned long number = strtoul(at, &rest, 10);

		if (rest == at)
			break;
		if (number < OPERATIONS)
			kept[number] = true;
		at = *rest == ',' ? rest + 1 : rest;
	}
	for (unsigned int i = 0; i < program->count; i++)
		if (kept[i])
			program->operation[count++] = program->operation[i];
	program->count = (uint16_t)count;
}

/* A real driver holds up other threads' calls while one waits for room in a queue (measured, H200): such a program hangs without any rewrite. */
static void leave_floods_out(struct program *program)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < program->count; i++)
		if (program->operation[i].kind != OPERATION_flood)
			program->operation[count++] = program->operation[i];
	program->count = (uint16_t)count;
}

static void on_alarm(int signal)
{
	char text[64];
	int length =
		snprintf(text, sizeof(text), "property: %llu hangs\n", (unsigned long long)running);

	if (write(2, text, (size_t)length) < 0)
		_exit(3);
	_exit(3);
}

static void say_actions(const struct plan *plan)
{
	for (unsigned int i = 0; i < plan->count; i++) {
		const struct action *action = &plan->action[i];

		printf("\t%u: %s thread %u context %u lane %u form %u to %u from %u item %u value "
		       "%u operation %u%s\n",
		       i, action_names[action->kind], action->thread, action->context, action->lane,
		       action->form, action->to, action->from, action->item, action->value,
		       action->operation, plan->beside[action->segment] ? " beside" : "");
	}
}

/* Where they go by turns, each run is as the one before. */
static bool has_threads_beside(const struct program *program)
{
	for (unsigned int i = 0; program->threads > 1 && i < program->count; i++)
		if (program->operation[i].kind == OPERATION_parallel ||
		    program->operation[i].kind == OPERATION_flood)
			return true;
	return false;
}

/* `run`: from 0, how often the plan was run before. Then its schedule is another one, and its threads pause where they did not. */
static uint64_t run_once(const struct plan *plan, uint64_t run)
{
	uint64_t schedule = options.schedule + run, digest;

	alarm((unsigned int)options.limit);
	if (simcuda_reseed)
		simcuda_reseed(plan->program->schedule ^ schedule * 0x9e3779b97f4a7c15);
	digest = plan_run(plan, run, options.verbose ? stdout : NULL);
	alarm(0);
	return digest;
}

static void run(struct program *program, uint64_t number)
{
	static struct plan plan;
	uint64_t digest, other;

	if (options.only)
		keep_only(program);
	if (options.keep)
		leave_floods_out(program);
	if (options.threads && !has_threads_beside(program))
		return;
	if (options.print) {
		program_write(program, stdout);
		return;
	}
	plan_make(&plan, program);
	if (options.verbose) {
		say_actions(&plan);
		fflush(stdout);
		setvbuf(stdout, NULL, _IOLBF, 0);
	}
	running = number;
	other = digest = run_once(&plan, 0);
	for (uint64_t i = 1; i < options.repeat && other == digest; i++)
		other = run_once(&plan, i);
	printf("%llu %016llx", (unsigned long long)number, (unsigned long long)digest);
	if (other != digest)
		printf("/%016llx", (unsigned long long)other);
	putchar('\n');
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct argp argp = {rows, parse, NULL, "Random programs for mode fix.",
					 NULL, NULL,  NULL};
	static struct program program;
	FILE *file;
	int result;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	signal(SIGALRM, on_alarm);
	if (!options.print)
		execute_start(options.keep);
	for (uint64_t seed = options.from; seed < options.to; seed++) {
		program_make(&program, seed);
		run(&program, seed);
	}
	if (!options.file)
		return 0;
	file = fopen(options.file, "re");
	if (!file) {
		perror(options.file);
		return 2;
	}
	for (uint64_t number = 0; (result = program_read(&program, file)) == 1; number++)
		run(&program, number);
	fclose(file);
	return result ? 2 : 0;
}
