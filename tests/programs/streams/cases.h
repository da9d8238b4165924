/* SPDX-License-Identifier: MIT */
/*
 * What the cases of the rewritten default stream share. `word` is an array in device memory in which each stream has its own word; a step on a stream
 * folds in what it depends on by legacy order, so that the words at the end tell whether every operation ran in its place: a step of a
 * blocking stream reads the word of the legacy stream, a step of the legacy stream all of them.
 *
 * Whatever a case says (stdout) must be the same with the rewrite and without. Between begin() and end() the driver's journal says what it was really given;
 * run.py has the sequences. Streams and events that are to appear there have a letter, given by name_stream() and name_event().
 */
#ifndef STREAMS_CASES_H
#define STREAMS_CASES_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

#define WORDS 8 /* 0: the legacy stream's */
#define LOOSE 7 /* of non-blocking streams: has nothing to do with the others */

extern CUcontext context; /* primary, of device 0; current */
extern CUmodule module;   /* of the current context, as the kernels */
extern CUfunction hash_kernel, fill_kernel, copy_kernel, gate_kernel, spin_kernel;
extern CUdeviceptr word;

void load_kernels(void);
/* Kernels and words of the current context; each kernel has been launched, and nothing is pending. */
void prepare_context(void);
CUstream new_stream(char letter, unsigned int flags);
void name_stream(char letter, CUstream stream);
/* Not recorded yet. */
CUevent new_event(char letter, unsigned int flags);

/* Everything between them goes through the driver's journal; twice is one sequence in two parts. */
void begin(void);
void end(void);

/* One step; `index`: the word of the stream, 0 the legacy one's. The caller decides by which handle. */
CUresult try_step(CUstream stream, unsigned int index);
void step(CUstream stream, unsigned int index);
/* Waits for everything and says all words. */
void say_words(void);

/*
 * A stream stands still until open_gate(index). The words are pinned memory, so that nothing else has to be alive; there are 8.
 */
void close_gate(CUstream stream, unsigned int index);
void open_gate(unsigned int index);
/* The primary context was reset, and the gates' words with it. */
void gates_are_gone(void);

/* Work on the blocking stream (word 1) and on the legacy one: from here on, the rewrite stands for the latter. Nothing is dirty. */
void mix(CUstream blocking);

/* Another context than the primary one, with what the others use of it. */
struct one_context {
	CUcontext context;
	CUstream stream;
	CUdeviceptr word;
	CUmodule module;
	CUfunction hash, gate;
};
/* Made and current; in it: a blocking stream of this letter, mixed. fill_context(): the same of one that is made and current. */
struct one_context make_context(CUdevice device, char letter);
struct one_context fill_context(CUcontext made, char letter);
void enter_context(const struct one_context *one);

/* The driver's own function, past every look-up that is watched. */
void *driver_function(const char *wanted);

struct named_case {
	const char *name;
	void (*run)(void);
};
extern const struct named_case barrier_cases[], call_cases[], capture_cases[], life_cases[],
	memory_cases[], refused_cases[], entry_cases[], unseen_cases[];

#endif
