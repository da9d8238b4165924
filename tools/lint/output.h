// SPDX-License-Identifier: MIT
/* Lint, options and outputs: what the command and the program for traces share (options.c, output.c). */
#ifndef SLIPSTREAM_LINT_OUTPUT_H
#define SLIPSTREAM_LINT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct report;
struct lint_config;
struct lint_baseline;

struct lint_output {
	const char *format;
	const char *path; /* NULL: stdout, text beside a program to stderr */
	FILE *file;       /* opened by lint_outputs_open() */
};

struct lint_options {
	const char *config_path, *baseline_path, *write_baseline, *driver, *records_folder;
	char *root;
	bool records, rules;
	bool no_order;      /* of a program: the order of its calls is not checked */
	bool guard;         /* of a program: host memory of copies under way is guarded */
	bool require_order; /* inconclusive where it was not */
	uint64_t timeout_s; /* of a program: it is ended after so long; 0: never */
	/* It was ended: what a thread was inside since before this time, ns of CLOCK_MONOTONIC, counts as stuck. 0: it was not ended. */
	uint64_t stuck_before_ns;
	struct lint_output *outputs;
	size_t output_count;
	char **paths;
	size_t path_count;
	char **program; /* NULL: paths are given */

	struct lint_config *config;
	struct lint_baseline *baseline;
};

/* Ends the command with LINT_USAGE and one line where something is wrong; configuration and baseline are read then. */
void lint_options_read(int argc, char **argv, struct lint_options *ret_options);
void lint_options_done(struct lint_options *options);

/* Before a program starts: whether each can be written. NULL: all are open; else one line (the caller frees). */
char *lint_outputs_open(struct lint_options *options);
/* "text=FILE"; NULL: good, else what is wrong with it (not to be freed). Keeps `word`. */
const char *lint_output_add(struct lint_options *options, const char *word);

/* Judges the finished report, writes everything and returns the exit status. `failed`: as in struct lint. */
int lint_finish(struct lint_options *options, struct report *report, const char *failed);

#endif
