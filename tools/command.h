// SPDX-License-Identifier: MIT
/*
 * Command: what the sub-commands of `slipstream` share. Each has one line in the table of
 * slipstream.c and one main function.
 *
 * Exit status: `run` 125 for anything of its own (usage too), else the program's; `bisect` and `lint` as their --help says; all others 0, 1
 * (findings or failure), 2 usage.
 */
#ifndef SLIPSTREAM_TOOLS_COMMAND_H
#define SLIPSTREAM_TOOLS_COMMAND_H

#include <argp.h>

#define EXIT_USAGE 2
#define EXIT_RUN   125 /* own failure of run; 126 and 127 as env(1) */

/* "slipstream run", for messages; set by main() before a sub-command starts. */
extern const char *command_name;
extern int command_usage_status;

int command_attach(int argc, char **argv);
int command_run(int argc, char **argv);
int command_report(int argc, char **argv);
int command_lint(int argc, char **argv);
int command_bisect(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_dump(int argc, char **argv);

/*
 * Descriptors 0 to 2 that the caller closed would be given to the first files opened here, and a
 * message for stderr would land in one of them. The placeholders close on exec, so the program
 * under test finds them closed as the caller left them.
 */
void command_hold_descriptors(void);

/* argp with one line for every error and --help that goes to stdout. */
void command_parse(const struct argp *argp, int argc, char **argv, unsigned int flags, void *input);

/* "COMMAND: text" on stderr. */
void command_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void command_fail(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));

#endif
