/* SPDX-License-Identifier: MIT */
/*
 * A random program of the property test, in three forms.
 *
 *	struct program	what a seed gives (generate.c), or a text (text.c): a few sizes and a list of operations, each a kind, a thread and numbers
 *			drawn at random. Any operation may be left out: the rest is a program still, which is what shrinking lives on.
 *	struct plan	what becomes of it (plan.c): actions on streams, buffers, events, of which each is ordered behind all that it conflicts with.
 *			Where nothing orders them yet, plan.c adds what does, or leaves the operation out. So each plan is free of races.
 *	a run		execute.c makes the driver calls of a plan and returns a digest.
 *
 * One thread uses these at a time; execute.c starts those of the program.
 */
#ifndef PROPERTY_PROGRAM_H
#define PROPERTY_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define THREADS    3
#define CONTEXTS   2
#define BLOCKING   6
#define SIDE       2 /* non-blocking streams */
#define OPERATIONS 96
#define ACTIONS    384
#define NUMBERS    6 /* of an operation */

/* Buffers, by number. Each is SIZE bytes. */
#define SIZE             512
#define PLAIN            5 /* device memory of a context from cuMemAlloc */
#define POOLED           2 /* from cuMemAllocAsync, if it is there */
#define OF_CONTEXT       (PLAIN + POOLED)
#define PINNED           3
#define REGISTERED       1
#define PAGEABLE         3
#define FIRST_PINNED     (CONTEXTS * OF_CONTEXT)
#define FIRST_REGISTERED (FIRST_PINNED + PINNED)
#define FIRST_PAGEABLE   (FIRST_REGISTERED + REGISTERED)
#define BUFFERS          (FIRST_PAGEABLE + PAGEABLE)

/* Lanes of a context, by number: where work is in order. */
enum {
	LEGACY,
	FIRST_BLOCKING,
	FIRST_SIDE = FIRST_BLOCKING + BLOCKING,
	OWN = FIRST_SIDE + SIDE,
	LANES = OWN + THREADS
};

#define EVENTS (2 * THREADS + 2) /* of a context: two a thread, and two for captures */
#define EXECS  2
#define WORDS  64 /* of pinned memory, for values */

/* OP(name): what a program is made of. Words of the text form; plan.c has a function for each. */
#define EACH_OPERATION(OP)                                                                         \
	OP(kernel)                                                                                 \
	OP(copy)                                                                                   \
	OP(copy_now)                                                                               \
	OP(plane)                                                                                  \
	OP(set)                                                                                    \
	OP(set_now)                                                                                \
	OP(record)                                                                                 \
	OP(wait)                                                                                   \
	OP(synchronize)                                                                            \
	OP(query)                                                                                  \
	OP(host)                                                                                   \
	OP(callback)                                                                               \
	OP(look)                                                                                   \
	OP(touch)                                                                                  \
	OP(begin)                                                                                  \
	OP(fork)                                                                                   \
	OP(end)                                                                                    \
	OP(replay)                                                                                 \
	OP(take)                                                                                   \
	OP(give)                                                                                   \
	OP(renew)                                                                                  \
	OP(pin)                                                                                    \
	OP(map)                                                                                    \
	OP(restart)                                                                                \
	OP(hand)                                                                                   \
	OP(gate)                                                                                   \
	OP(open)                                                                                   \
	OP(peer)                                                                                   \
	OP(add)                                                                                    \
	OP(ask)                                                                                    \
	OP(wrong)                                                                                  \
	OP(flood)                                                                                  \
	OP(brief)                                                                                  \
	OP(parallel)                                                                               \
	OP(serial)

enum operation_kind {
#define OP(name) OPERATION_##name,
	EACH_OPERATION(OP)
#undef OP
		OPERATION_KINDS
};

extern const char *const operation_names[];

struct operation {
	uint8_t kind, thread;
	uint16_t number[NUMBERS];
};

struct program {
	uint64_t seed;     /* of what it was made, and of the contents of buffers */
	uint64_t schedule; /* of the simulated driver */
	uint8_t threads, contexts, blocking, side;
	uint8_t flags; /* PROGRAM_... */
	uint16_t count;
	struct operation operation[OPERATIONS];
};

enum {
	PROGRAM_PRIMARY = 1,     /* the first context is the primary one */
	PROGRAM_LEGACY_LAST = 2, /* `add` ends on the legacy stream, not begins there */
	PROGRAM_QUICK_END = 4,   /* final bytes are read without waiting before */
	PROGRAM_PENDING_END = 8, /* threads end with work on their own streams */
	PROGRAM_COLD = 16,       /* kernels are launched for the first time by the program itself */
	PROGRAM_FLAGS = 31,
};

/* ---- generate.c, text.c ---- */

void program_make(struct program *program, uint64_t seed);
/* Lines of text that program_read() takes. */
void program_write(const struct program *program, FILE *to);
/* The next one of a file. 1, 0 at the end, -1 where it is no such file (said on stderr). */
int program_read(struct program *ret_program, FILE *from);

/* ---- plan.c ---- */

/* ACTION(name): what execute.c does. */
#define EACH_ACTION(A)                                                                             \
	A(hash)                                                                                    \
	A(fill)                                                                                    \
	A(move)                                                                                    \
	A(blend)                                                                                   \
	A(copy)                                                                                    \
	A(copy_now)                                                                                \
	A(plane)                                                                                   \
	A(set)                                                                                     \
	A(set_now)                                                                                 \
	A(record)                                                                                  \
	A(wait)                                                                                    \
	A(synchronize)                                                                             \
	A(poll)                                                                                    \
	A(synchronize_event)                                                                       \
	A(synchronize_all)                                                                         \
	A(query)                                                                                   \
	A(query_event)                                                                             \
	A(host)                                                                                    \
	A(callback)                                                                                \
	A(look)                                                                                    \
	A(touch)                                                                                   \
	A(begin)                                                                                   \
	A(fork)                                                                                    \
	A(end)                                                                                     \
	A(replay)                                                                                  \
	A(take)                                                                                    \
	A(give)                                                                                    \
	A(renew)                                                                                   \
	A(pin)                                                                                     \
	A(map)                                                                                     \
	A(restart)                                                                                 \
	A(brief)                                                                                   \
	A(write_value)                                                                             \
	A(wait_value)                                                                              \
	A(gate)                                                                                    \
	A(open)                                                                                    \
	A(peer)                                                                                    \
	A(peer_now)                                                                                \
	A(add)                                                                                     \
	A(ask)                                                                                     \
	A(wrong)                                                                                   \
	A(flood)                                                                                   \
	A(flood_open)

enum action_kind {
#define A(name) ACTION_##name,
	EACH_ACTION(A)
#undef A
		ACTION_KINDS
};

extern const char *const action_names[];

struct action {
	uint8_t kind, thread, context, lane;
	uint8_t form;       /* which of the names or handles of a lane, and which way to do it */
	uint8_t to, from;   /* buffers */
	uint8_t item;       /* event, graph, word, second lane or context, by kind */
	uint16_t value;     /* what is written, and where in the buffer */
	uint16_t segment;   /* actions of one run beside each other, or one after the other */
	uint16_t operation; /* the one that it is of */
};

struct plan {
	const struct program *program;
	uint16_t count, segments;
	bool beside[2 * OPERATIONS + 4]; /* of a segment: its threads run beside each other */
	struct action action[ACTIONS];
	uint32_t live;     /* buffers that are there and have known contents at the end */
	uint32_t unwaited; /* of those, the ones that the last reads are not ordered behind */
	bool pooled[CONTEXTS][POOLED]; /* still taken */
};

void plan_make(struct plan *plan, const struct program *program);

static inline unsigned int buffer_context(unsigned int buffer)
{
	return buffer < FIRST_PINNED ? buffer / OF_CONTEXT : 0;
}

static inline bool buffer_is_device(unsigned int buffer)
{
	return buffer < FIRST_PINNED;
}

static inline bool buffer_is_pageable(unsigned int buffer)
{
	return buffer >= FIRST_PAGEABLE;
}

static inline bool lane_is_legacy_ordered(unsigned int lane)
{
	return lane < FIRST_SIDE || lane >= OWN;
}

/* ---- execute.c ---- */

/*
 * Runs it; actions and what they return go to `to` (NULL: nowhere). pauses: a number that says where threads that run beside each other pause, 0:
 * nowhere.
 */
uint64_t plan_run(const struct plan *plan, uint64_t pauses, FILE *to);
/*
 * Once a process. keep: contexts are made once, and only what is in them ends with each program, since real drivers take long to make one. All
 * programs have created contexts then.
 */
void execute_start(bool keep);

/* splitmix64 */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

#endif
