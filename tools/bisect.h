// SPDX-License-Identifier: MIT
/* Bisect: the parts of `slipstream bisect`, one file each (bisect.c: options and result). */
#ifndef SLIPSTREAM_TOOLS_BISECT_H
#define SLIPSTREAM_TOOLS_BISECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BISECT_NONE         0 /* exit statuses: mode fix changes nothing */
#define BISECT_FOUND        1
#define BISECT_INCONCLUSIVE 3

#include "report_rewrite.h"

/* ---- bisect_search.c: which elements must be off, so that all is good ---- */

enum bisect_answer { BISECT_GOOD, BISECT_BAD };

/* `off`: one for each element. */
typedef enum bisect_answer bisect_test(void *context, const bool *off);

/*
 * Sets *off to elements that make it good, as few as the order of the elements gives: without any one of them, and those before it, it is
 * bad. Known before: with none off it is bad, with all off it is good. About log2(count) tests for each element found. Returns how many
 * they are; `most`: it gives up once it has found as many, then *off may not be enough.
 */
size_t bisect_search(bool *off, size_t count, size_t most, bisect_test *test, void *context);

/* ---- bisect_words.c: switches and relaxations, as shim/options.def lists them ---- */

struct bisect_words {
	char **words;
	size_t count;
};

/* The words of SLIPSTREAM_FIX as the environment, else the table, has them. */
struct bisect_words bisect_switches(void);
/* The relaxations that SLIPSTREAM_RELAX leaves in effect. */
struct bisect_words bisect_relaxations(void);
void bisect_words_done(struct bisect_words *words);
/* Those that are not off, joined by commas; NULL: none is left. The caller frees. */
char *bisect_words_join(const struct bisect_words *words, const bool *off);
/* The value of SLIPSTREAM_RELAX with those that are off taken away, or forbidden by their strict- word; NULL: unset. The caller frees. */
char *bisect_relax_value(const struct bisect_words *relaxations, const bool *off);

/* ---- bisect_run.c: one run of the program ---- */

struct bisect_program {
	const char *path; /* as for run_wait() */
	char **arguments;
	const char *check;    /* command, NULL: outputs are compared */
	const char **outputs; /* files that the program writes */
	size_t output_count;
	uint64_t limit_ns; /* of one run; 0 none */
	bool show_stderr;
	char *preload,
		*asan; /* for the check: LD_PRELOAD and ASAN_OPTIONS as we found them; NULL unset */
	const char *folder; /* ours, for what the runs leave */
};

struct bisect_settings {
	const char *fix;   /* words; NULL: mode observe */
	const char *relax; /* NULL: unset */
	const char *deny;  /* file */
};

struct bisect_outcome {
	int wait_status; /* as waitpid(2) */
	bool is_hung;
	int check_status; /* exit status; -1: there was no check */
	uint64_t wall_ns;
	char *folder; /* holds `stdout`, `output-N` and the folder `records` */
};

/* Ends the command where it fails, and where a signal asks us to end. */
void bisect_run(const struct bisect_program *program, const struct bisect_settings *settings,
		struct bisect_outcome *ret_outcome);
/* What differs from a raw run, in words; NULL: nothing. The caller frees. */
char *bisect_difference(const struct bisect_program *program, const struct bisect_outcome *raw,
			const struct bisect_outcome *outcome);
/* "exit status 3" and the like. The caller frees. */
char *bisect_ending(const struct bisect_outcome *outcome);
/* Frees it and removes its folder. */
void bisect_outcome_done(struct bisect_outcome *outcome);
/* Removes a folder and what our runs left in it. */
void bisect_remove_folder(const char *folder);

/* ---- bisect_sites.c: call sites that made rewrites, those that the user's own list denies left out ---- */

struct bisect_sites {
	struct report_list uses; /* of report_rewrite_use */
	struct report *report;
};

/* Adds what the record files in `folder` have; how many are new. */
size_t bisect_sites_add(struct bisect_sites *sites, const char *folder);
void bisect_sites_done(struct bisect_sites *sites);
/*
 * Writes a deny list: the one of the user first (NULL: none), then the sites that are off, with `program` in the heading and a line on each
 * where it is not NULL. Ends the command where it cannot.
 */
void bisect_sites_write(const struct bisect_sites *sites, const bool *off, const char *base,
			const char *program, const char *path);

/* ---- bisect_steps.c: what is done one after the other ---- */

/* Filled by bisect.c up to `sites`; the rest is the steps'. */
struct bisect {
	struct bisect_program program;
	const char *driver, *deny_out, *json_path;
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

	/* The result: what must be off; NULL: it is not known, or not a matter of that. */
	const bool *switches_off, *relaxations_off, *sites_off;
	char *inconclusive; /* why; NULL: it is not */
	FILE *json;         /* NULL: no JSON is wanted */
};

/* ---- bisect_json.c: the result as JSON ---- */

/* Opens the file, so that one that cannot be written is known before the first run. Ends the command where it cannot. */
void bisect_json_begin(struct bisect *bisect);
/* Writes it, if it is wanted. False: it could not, which it has told. */
bool bisect_json_write(struct bisect *bisect, int status);

/* Writes the JSON that is wanted, removes what the runs left, and ends with this status. */
void bisect_quit(struct bisect *bisect, int status) __attribute__((noreturn));
/* Says why, and ends so. Takes the text. */
void bisect_give_up(struct bisect *bisect, char *why) __attribute__((noreturn));
/* The outcome to compare with, and the limit of a run. Ends the command where raw runs differ, or are bad. */
void bisect_run_raw(struct bisect *bisect);
/* Those that must be off, one for each; the caller frees. Ends the command where mode fix makes no difference. */
bool *bisect_find_switches(struct bisect *bisect);
/* The same; NULL: it is not a matter of relaxations alone. */
bool *bisect_find_relaxations(struct bisect *bisect);
/* The call sites that must be denied, as few as the search gives; NULL: denying all known ones does not help. */
bool *bisect_find_sites(struct bisect *bisect, const bool *switches);
/* Runs with these sites denied; `context`: struct bisect. */
enum bisect_answer bisect_try_sites(void *context, const bool *off);

#endif
