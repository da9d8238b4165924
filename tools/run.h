// SPDX-License-Identifier: MIT
/* Run: the parts of `slipstream run`, one file each. */
#ifndef SLIPSTREAM_TOOLS_RUN_H
#define SLIPSTREAM_TOOLS_RUN_H

#include <stdbool.h>
#include <sys/types.h>

struct program;

/* ---- run_options.c: one option for each row of shim/options.def ---- */

struct argp;
extern struct argp run_options_argp; /* no input; complete after run_options_init() */
void run_options_init(void);
/* Puts the options given into the environment. Call after parsing. */
void run_options_export(void);
/* The folder for record files that the user asked for, by option or variable; NULL: none. */
const char *run_options_out(void);

/* ---- run_preload.c: what the program finds in its environment ---- */

/* The LD_PRELOAD with our library in its place; the caller frees. */
char *run_preload_compose(const char *existing, const char *library);
void run_preload_export(const char *library, const struct program *program);
/* Whether the library loads where the program's loader runs: NULL yes, or one line why not (the
 * caller frees). */
char *run_preload_verify(const char *library, const struct program *program);
/* Puts `folder` first on LD_LIBRARY_PATH. */
void run_preload_driver(const char *folder);

/* ---- run_wait.c: starting it, passing signals on, and its end ---- */

struct run_end {
	pid_t pid;
	int wait_status; /* as waitpid(2) */
	int exec_error;  /* not 0: the program could not be started */
};

/*
 * Runs the file at `path`; NULL: what execvp(3) finds for arguments[0], a script without "#!"
 * included. 0, or -errno: no process could be made.
 */
int run_wait(const char *path, char **arguments, struct run_end *ret_end);
/* Ends as the program ended: the same status, or the same signal. */
void run_end_alike(int wait_status) __attribute__((noreturn));

#endif
