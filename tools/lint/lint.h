// SPDX-License-Identifier: MIT
/*
 * Lint: findings of a run held against rules, a configuration and a baseline. One way (lint_judge()): struct report (report.h) -> doubts, for
 * which nothing can be clean (doubt.c) -> regions (regions.c) -> uses, one for each call site and rule of the catalogue (collect.c), and for
 * each remark (remarks.c) -> results (results.c) -> budgets (budget.c) -> baseline (baseline.c); then writers and exit status. Called by
 * command.c for record files and programs, by trace/main.c for traces.
 *
 * One thread. Strings of the report stay the report's, which must live as long; everything else belongs to struct lint.
 */
#ifndef SLIPSTREAM_LINT_LINT_H
#define SLIPSTREAM_LINT_LINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lint/config.h"
#include "lint/rules.h"
#include "report.h"

/* Exit status of `slipstream lint`. */
#define LINT_CLEAN    0
#define LINT_FINDINGS 1
#define LINT_USAGE                                                                                 \
	2 /* command line, configuration, baseline, a file that cannot be read or written */
#define LINT_INCONCLUSIVE   3
#define LINT_PROGRAM_FAILED 4

#define LINT_IDENTITY_FRAMES 8 /* of the program's own, that a fingerprint takes */

struct lint_frame {
	char *function; /* without template arguments, parameters and clone numbers; NULL unknown */
	char *file;     /* relative to the root where it lies below it; NULL unknown */
	uint32_t line;  /* 0 unknown */
	const char *module; /* NULL: a Python frame, or unknown */
	uint64_t offset;    /* in the module */
};

/* The frames of a call site that are the program's, innermost first. */
struct lint_stack {
	struct report_site *site;
	struct lint_frame *frames;
	size_t count;
	bool is_own; /* false: none is, and these are all frames */
	char *key;   /* the same place: names, files and lines */
	char *identity; /* the same place in another build: names and file names of the innermost ones */
};

/* The most that one entry of a region had of something. */
struct lint_most {
	uint64_t value, entry; /* which entry, from 1 */
	uint64_t entries;      /* of how many, in that process and inside these regions */
};

/* A region of the program, by its path (regions.c), in all processes. */
struct lint_region {
	const char *path;
	uint64_t entries, waiting; /* of these, with a wait */
	struct lint_most implicit, explicit, blocked;
	bool is_uncounted; /* some record of it is of a library that did not count entries */
};

/* What one region has of a use. */
struct lint_part {
	const char *region; /* path; "": outside of all */
	uint64_t count, blocked_ns, bytes;
};

/* Calls of one driver function at one place, for one rule of the catalogue. */
struct lint_use {
	const char *slug, *function, *cause;
	uint32_t class;                 /* enum wait_class */
	const struct lint_stack *stack; /* NULL: no call site was taken */
	uint64_t count, blocked_ns, bytes;
	bool own_cost; /* the calls' own work, no wait */
	bool is_spread; /* in some process over a good part of its life, and not at once (LINT_SPREAD) */
	/* Of class WAIT_ORDER: what else takes part. NULL: nothing does. */
	const char *other_function;
	const struct lint_stack *other_stack; /* NULL also: no call site was taken */
	struct report_list parts;             /* struct lint_part, by region */
	struct report_list waited; /* struct report_named: what it waited for, in words */
};

struct lint_budget;

struct lint_result {
	const struct lint_rule *rule;
	enum lint_level level;
	const char *function, *cause;   /* NULL: of a budget */
	const struct lint_stack *stack; /* NULL: none */
	const char *other_function;     /* as in struct lint_use */
	const struct lint_stack *other_stack;
	const struct lint_budget *budget; /* NULL: of a call site */
	uint64_t entry; /* of a budget for single entries: which one had the most; else 0 */
	uint64_t count, blocked_ns, bytes; /* of calls that are not allowed */
	bool is_order;                     /* of a remark: no wait, so no threshold */
	bool on_device;                    /* no host was blocked, so blocked_ns says nothing */
	struct report_list parts, waited;  /* as in struct lint_use */
	char *message;                     /* one line */
	uint64_t fingerprint; /* survives moved lines, other machines and build folders */
	unsigned int
		occurrence; /* from 1, among results of the same fingerprint, in order of lines */
	bool is_known;      /* the baseline has it */
};

struct lint_config;
struct lint_baseline;

struct lint {
	struct report *report;
	const struct lint_config *config;
	struct lint_baseline *baseline; /* NULL: none given */
	const char *root;               /* files are shown relative to it; absolute */
	const char *
		failed; /* how the program failed, in words; NULL: it did not, or was not run here */

	struct report_list stacks, uses, texts;
	struct report_list regions;  /* struct lint_region, by path */
	struct report_list paths;    /* regions.c's own */
	struct lint_result *results; /* by level, rule, file, line, fingerprint */
	size_t result_count, result_capacity;
	struct report_list reasons; /* char *: why a clean verdict would not hold */
	/* Calls that are no results, and why. */
	uint64_t allowed_by_program, allowed_by_config, below_threshold, cold, switched_off;
	uint64_t stuck_before_ns;        /* as in struct lint_options (output.h) */
	bool stands_still;               /* it was ended, and a remark says inside what */
	bool wants_order;                /* without remarks of a run the verdict is inconclusive */
	bool has_order;                  /* each process ran with SLIPSTREAM_CHECK=order */
	bool has_guard;                  /* and with guard */
	struct report_list not_followed; /* struct report_named: what the remarks say nothing of */
};

/* Everything but writing. `report` is finished. */
void lint_judge(struct lint *lint);
void lint_done(struct lint *lint);

/* LINT_CLEAN ... of what was judged. */
int lint_status(const struct lint *lint);
/* New results that fail. */
size_t lint_failures(const struct lint *lint);
/* Results of a level; known ones or new ones. */
size_t lint_count(const struct lint *lint, enum lint_level level, bool known);

/* ---- stack.c ---- */

/* The same object for the same place. NULL: no site. */
const struct lint_stack *lint_stack_of(struct lint *lint, struct report_site *site);
/* Where the result is shown: the innermost frame of the program with a file, else with a name; NULL: none. */
const struct lint_frame *lint_stack_place(const struct lint_stack *stack);
/* By files and lines. */
int lint_stack_order(const struct lint_stack *left, const struct lint_stack *right);
void lint_stacks_done(struct lint *lint);

/* ---- frame_names.c ---- */

/* Both: the caller frees. */
char *lint_function_name(const char *name);
char *lint_file_name(const char *file, const char *root);
/* A file or module of the system, of CUDA's or of installed Python packages. */
bool lint_is_foreign_file(const char *path);
bool lint_is_foreign_module(const char *path);

/* ---- collect.c ---- */

void lint_collect(struct lint *lint);
/* A use of these names and places, made if there is none. */
struct lint_use *lint_use_of(struct lint *lint, const struct lint_use *key);
/* One call, or several, of a region: added to the use's sums. */
struct lint_part *lint_use_part(struct lint_use *use, const char *region);

/* ---- regions.c ---- */

void lint_collect_regions(struct lint *lint);
/* Of a region's id in this file, good until lint_done(); "": none. */
const char *lint_region_path(struct lint *lint, const struct record_file *file, uint32_t id);
/* Does the pattern mean any region of the path, or only the innermost? */
bool lint_region_fits(const char *pattern, const char *path);
bool lint_region_is_named(const char *pattern, const char *path);
/* "epoch/step"; the caller frees. */
char *lint_region_words(const char *path);
/* What a figure of this region is divided by; 1: by nothing, it is of the run, or nothing counted. */
uint64_t lint_region_entries(const struct lint *lint, const char *path, enum lint_per per);

/* ---- remarks.c ---- */

/* Remarks of rules of class order become uses, beside those of the waits. */
void lint_collect_remarks(struct lint *lint);
/* Which rules need remarks, and whether there could be any: sets has_order and not_followed, and gives reasons. */
void lint_find_unchecked(struct lint *lint);
/* Is this rule checked in this run? */
bool lint_is_checked(const struct lint *lint, const struct lint_rule *rule);

/* ---- results.c ---- */

void lint_make_results(struct lint *lint);
/* An empty one, behind the others, which may move. */
struct lint_result *lint_result_add(struct lint *lint);
void lint_results_done(struct lint *lint);
uint64_t lint_fingerprint(const char *rule, const char *function, const char *identity);

/* ---- budget.c ---- */

void lint_check_budgets(struct lint *lint);

/* ---- doubt.c ---- */

void lint_find_doubts(struct lint *lint);

#endif
