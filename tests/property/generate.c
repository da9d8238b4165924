// SPDX-License-Identifier: MIT
/*
 * Programs from seeds, and their text form. Called by main.c. Relies on nothing but libc.
 *
 * A seed first draws a taste: how often each kind of operation comes. Most programs are of many operations that never wait and of few that do,
 * since a wait orders what a missing barrier would leave unordered.
 */
#include "program.h"

#include <stdlib.h>
#include <string.h>

const char *const operation_names[] = {
#define OP(name) #name,
	EACH_OPERATION(OP)
#undef OP
};

/* How often an operation comes in a usual program. Beside threads: no captures, gates, or what other threads' calls would notice. */
static const struct {
	uint8_t kind, usual, beside, special;
} tastes[] = {
	/* special: what a program of that taste has more of */
	{OPERATION_kernel, 60, 40, 0},    {OPERATION_copy, 22, 16, 0},
	{OPERATION_copy_now, 4, 3, 1},    {OPERATION_plane, 4, 2, 1},
	{OPERATION_set, 14, 10, 0},       {OPERATION_set_now, 2, 2, 1},
	{OPERATION_record, 5, 3, 2},      {OPERATION_wait, 5, 3, 2},
	{OPERATION_synchronize, 3, 2, 2}, {OPERATION_query, 4, 0, 2},
	{OPERATION_host, 5, 4, 3},        {OPERATION_callback, 2, 2, 3},
	{OPERATION_look, 4, 4, 2},        {OPERATION_touch, 3, 3, 3},
	{OPERATION_begin, 3, 0, 4},       {OPERATION_fork, 2, 0, 4},
	{OPERATION_end, 2, 0, 4},         {OPERATION_replay, 4, 0, 4},
	{OPERATION_take, 3, 0, 5},        {OPERATION_give, 2, 0, 5},
	{OPERATION_renew, 2, 1, 5},       {OPERATION_pin, 2, 1, 5},
	{OPERATION_map, 1, 0, 5},         {OPERATION_restart, 4, 0, 6},
	{OPERATION_hand, 3, 2, 6},        {OPERATION_gate, 2, 0, 7},
	{OPERATION_open, 1, 0, 7},        {OPERATION_peer, 2, 2, 8},
	{OPERATION_add, 3, 20, 0},        {OPERATION_ask, 2, 1, 8},
	{OPERATION_wrong, 2, 1, 8},       {OPERATION_brief, 2, 5, 6},
};

#define SPECIALS 9
#define KINDS    (sizeof(tastes) / sizeof(tastes[0]))

static unsigned int below(uint64_t *state, unsigned int bound)
{
	return (unsigned int)(next_random(state) % bound);
}

static void draw(uint64_t *state, struct operation *operation, unsigned int kind,
		 unsigned int threads)
{
	operation->kind = (uint8_t)kind;
	operation->thread = (uint8_t)below(state, threads);
	for (unsigned int i = 0; i < NUMBERS; i++)
		operation->number[i] = (uint16_t)below(state, 1000);
}

static unsigned int weight(unsigned int at, bool beside, unsigned int special, bool pure)
{
	unsigned int usual = beside ? tastes[at].beside : tastes[at].usual;

	/* In a pure program there is nothing but what never waits, and one special thing. */
	if (tastes[at].special == special)
		return usual * 3;
	return pure && tastes[at].special ? 0 : usual;
}

static unsigned int some_kind(uint64_t *state, bool beside, unsigned int special, bool pure)
{
	unsigned int all = 0, pick;

	for (unsigned int i = 0; i < KINDS; i++)
		all += weight(i, beside, special, pure);
	pick = below(state, all);
	for (unsigned int i = 0; i < KINDS; i++) {
		unsigned int one = weight(i, beside, special, pure);

		if (pick < one)
			return tastes[i].kind;
		pick -= one;
	}
	return OPERATION_kernel;
}

void program_make(struct program *program, uint64_t seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
	unsigned int wanted, special, left = 0;
	bool pure, beside = false;

	memset(program, 0, sizeof(*program));
	program->seed = seed;
	program->schedule = next_random(&state);
	wanted = below(&state, 10);
	program->threads = wanted < 5 ? 1 : wanted < 8 ? 2 : 3;
	program->contexts = below(&state, 7) ? 1 : 2;
	wanted = below(&state, 10);
	program->blocking = wanted < 4   ? 1
			    : wanted < 7 ? 2
			    : wanted < 9 ? 3
					 : (uint8_t)(4 + below(&state, 3));
	program->side = (uint8_t)below(&state, SIDE + 1);
	program->flags = (uint8_t)below(&state, 16);
	if (below(&state, 4))
		program->flags |= PROGRAM_QUICK_END;
	if (below(&state, 5) == 0)
		program->flags |= PROGRAM_COLD;
	special = below(&state, SPECIALS);
	pure = below(&state, 2);
	wanted = 12 + below(&state, below(&state, 4) ? 24 : OPERATIONS - 20);
	if (program->threads > 1 && below(&state, 25) == 0)
		draw(&state, &program->operation[program->count++], OPERATION_flood,
		     program->threads);
	for (unsigned int i = 0; i < wanted; i++) {
		struct operation *operation = &program->operation[program->count++];

		if (program->threads > 1 && !left && below(&state, 10) == 0) {
			beside = !beside;
			left = 4 + below(&state, 12);
			draw(&state, operation, beside ? OPERATION_parallel : OPERATION_serial, 1);
			continue;
		}
		left -= left > 0;
		draw(&state, operation, some_kind(&state, beside, special, pure), program->threads);
	}
}

void program_write(const struct program *program, FILE *to)
{
	fprintf(to,
		"program %llu schedule %llu threads %u contexts %u blocking %u side %u flags %u\n",
		(unsigned long long)program->seed, (unsigned long long)program->schedule,
		program->threads, program->contexts, program->blocking, program->side,
		program->flags);
	for (unsigned int i = 0; i < program->count; i++) {
		const struct operation *operation = &program->operation[i];

		fprintf(to, "%s %u", operation_names[operation->kind], operation->thread);
		for (unsigned int n = 0; n < NUMBERS; n++)
			fprintf(to, " %u", operation->number[n]);
		fputc('\n', to);
	}
	fputs("end.\n", to);
}

static int complain(const char *line)
{
	fprintf(stderr, "property: no line of a program: %s", line);
	return -1;
}

static bool read_header(const char *line, struct program *program)
{
	unsigned long long seed, schedule;
	unsigned int threads, contexts, blocking, side, flags;

	if (sscanf(line,
		   "program %llu schedule %llu threads %u contexts %u blocking %u side %u flags %u",
		   &seed, &schedule, &threads, &contexts, &blocking, &side, &flags) != 7)
		return false;
	if (!threads || threads > THREADS || !contexts || contexts > CONTEXTS || !blocking ||
	    blocking > BLOCKING || side > SIDE || flags > PROGRAM_FLAGS)
		return false;
	*program = (struct program){
		.seed = seed,
		.schedule = schedule,
		.threads = (uint8_t)threads,
		.contexts = (uint8_t)contexts,
		.blocking = (uint8_t)blocking,
		.side = (uint8_t)side,
		.flags = (uint8_t)flags,
	};
	return true;
}

static bool read_operation(const char *line, struct program *program)
{
	struct operation *operation = &program->operation[program->count];
	unsigned int thread, number[NUMBERS];
	char name[16];

	if (program->count == OPERATIONS ||
	    sscanf(line, "%15s %u %u %u %u %u %u %u", name, &thread, &number[0], &number[1],
		   &number[2], &number[3], &number[4], &number[5]) != 2 + NUMBERS ||
	    thread >= program->threads)
		return false;
	for (unsigned int kind = 0; kind < OPERATION_KINDS; kind++) {
		if (strcmp(name, operation_names[kind]))
			continue;
		operation->kind = (uint8_t)kind;
		operation->thread = (uint8_t)thread;
		for (unsigned int i = 0; i < NUMBERS; i++)
			operation->number[i] = (uint16_t)number[i];
		program->count++;
		return true;
	}
	return false;
}

int program_read(struct program *ret_program, FILE *from)
{
	bool begun = false;
	char line[256];

	while (fgets(line, sizeof(line), from)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (!begun) {
			if (!read_header(line, ret_program))
				return complain(line);
			begun = true;
		} else if (!strcmp(line, "end.\n")) {
			return 1;
		} else if (!read_operation(line, ret_program)) {
			return complain(line);
		}
	}
	return begun ? complain("(the file ends in a program)\n") : 0;
}
