// SPDX-License-Identifier: MIT
/* Run: the parts of `slipstream run`, one file each. */
#ifndef SLIPSTREAM_TOOLS_RUN_H
#define SLIPSTREAM_TOOLS_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_TRACE_PROGRAM "slipstream-trace"
#define RUN_AS_RUN        "slipstream-run" /* its argv[0] when `run --trace` starts it */
/* Set for it by `slipstream trace`: SIGUSR1 is blocked since then, and was not before. */
#define RUN_TRACE_HOLDS "SLIPSTREAM_HOLDS_SIGUSR1"

struct json_t;
struct program;
struct report_output;

/* ---- run_options.c: one option for each row of shim/options.def ---- */

struct argp;
extern struct argp run_options_argp; /* no input; complete after run_options_init() */
void run_options_init(void);
/* Puts the options given into the environment. Call after parsing. */
void run_options_export(void);
/* One line for each unknown SLIPSTREAM_ variable: for commands that go on without it. */
void run_options_warn(void);
/* The folder for record files that the user asked for, by option or variable; NULL: none. */
const char *run_options_out(void);

/* ---- run_preload.c: what the program finds in its environment ---- */

/* The LD_PRELOAD with our library in its place; the caller frees. */
char *run_preload_compose(const char *existing, const char *library);
void run_preload_export(const char *library, const struct program *program);
/* Whether the settings, once exported, ask for NVTX; and the library of another tool that NVTX would load instead, NULL: none. */
bool run_preload_wants_nvtx(void);
const char *run_preload_other_nvtx(const char *library);
/* Whether the library loads where the program's loader runs: NULL yes, or one line why not (the
 * caller frees). */
char *run_preload_verify(const char *library, const struct program *program);
/* Puts `folder` first on LD_LIBRARY_PATH. */
void run_preload_driver(const char *folder);

/* Output of the loader listing what `image` would load with `preload` ("": none), both streams;
 * *ret_status as waitpid(2). NULL: could not be asked. The caller frees. */
char *run_preload_list(const char *loader, const char *image, const char *preload, int *ret_status);
/* The line of such an output that says what is wrong with the library. The caller frees. */
char *run_preload_complaint(const char *listing, const char *library);

/* ---- run_wait.c: starting it, passing signals on, and its end ---- */

struct run_end {
	pid_t pid;
	int wait_status; /* as waitpid(2) */
	int exec_error;  /* not 0: the program could not be started */
};

/* What else goes on while the program runs; all may be NULL. Called between two waits, never in a
 * signal handler. */
struct run_watch {
	bool (*signal)(void *context, int number); /* true: it was for us, do not pass it on */
	void (*tick)(void *context);               /* about once a second */
	/* Once, after the process is there and before it becomes the program, which waits for it. */
	void (*started)(void *context, pid_t pid);
	void *context;
	const sigset_t *mask; /* of signals, for the program; NULL: as the caller's */
};

/*
 * Runs the file at `path`; NULL: what execvp(3) finds for arguments[0], a script without "#!"
 * included. `watch` may be NULL. 0, or -errno: no process could be made.
 */
int run_wait(const char *path, char **arguments, const struct run_watch *watch,
	     struct run_end *ret_end);
/* Ends as the program ended: the same status, or the same signal. */
void run_end_alike(int wait_status) __attribute__((noreturn));

/* ---- run_witness.c: slipstream-witness beside a program ---- */

struct run_witness;

/*
 * Starts the watch mode of slipstream-witness with these arguments (NULL behind the last) and waits until
 * it watches; nothing is preloaded into it. `process` 0: the arguments say whom. `name` stands in its
 * messages. 0 with *ret_witness; or an exit status, and why is told.
 */
int run_witness_start(const char *name, char *const *arguments, pid_t process,
		      struct run_witness **ret_witness);
/* Has it end, unless it has, and waits until all is written. Its exit status. Frees. */
int run_witness_end(struct run_witness *witness);
/*
 * From here on SIGINT, SIGTERM and SIGHUP are held; they have a witness end that run_witness_wait() waits for. Once,
 * before it is started, so that none ends us in between.
 */
void run_witness_hold_signals(void);
/* Waits until it ends. The same. */
int run_witness_wait(struct run_witness *witness);

/* Beside a program; where nobody may watch, that runs all the same. Zero: there is none. */
struct run_beside {
	char *summary, *text, *trace; /* files; `trace` a folder. The last two NULL: not wanted */
	struct run_witness *witness;
};
/* The summary goes through a file in `folder`; the trace, if one is wanted, becomes the folder `trace`. */
void run_beside_init(struct run_beside *beside, const char *folder, const char *trace);
void run_beside_start(void *beside, pid_t process); /* as run_watch.started */
/* The object for run_report(); NULL: there was none, or it left nothing, which is told. */
struct json_t *run_beside_end(struct run_beside *beside);

/* The text that slipstream-witness wrote as CTF in the folder `trace`, which must not be there; then it is gone.
 * 0, or a status after one line. */
int run_witness_convert(const char *text, const char *trace);

/* ---- run_steps.c: what run and trace do alike; each ends the command where it fails ---- */

/* Names what cannot be reached in it, before it starts. */
void run_inspect(const char *name, struct program *ret_program);
/* Finds the library, checks that it loads in the program, and puts it into LD_PRELOAD. */
void run_preload(const struct program *program);
/* Makes the folder for record files, readable by us alone; `asked` NULL: a private one. The caller
 * frees. */
char *run_make_folder(const char *asked, bool keep);
/* Only what the library can have put there; anything else stays, and the folder with it. */
void run_remove_folder(const char *folder);
/* The report on the record files in `folder` made since then, and on what the witness saw (taken over; NULL:
 * there was none). 0, or -errno after one line. */
int run_report(struct report_output *output, const struct program *program, const char *folder,
	       uint64_t since_ns, pid_t pid, struct json_t *witness);
/* The line and the status of a program that could not be started. */
void run_failed_start(const char *name, int error, const struct run_end *end)
	__attribute__((noreturn));

#endif
