// SPDX-License-Identifier: MIT
/* The watch mode of slipstream-witness: what `slipstream attach` and `slipstream run --witness` start. */
#ifndef SLIPSTREAM_BPF_COMMAND_WATCH_H
#define SLIPSTREAM_BPF_COMMAND_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct watch;
struct watch_stats;

#define COMMAND_WATCH "watch" /* first argument of slipstream-witness */

struct command_options {
	pid_t *processes;
	size_t process_count;
	bool all;
	char **libraries;
	size_t library_count;
	uint32_t *functions; /* NULL: the default set */
	size_t function_count;
	const char *shim, *shim_path;
	bool system_calls, single, live;
	bool program; /* the first process is one that was started for this: its signals are its own */
	unsigned int frames;
	uint64_t least_ns, seconds;  /* seconds 0: until somebody stops it */
	const char *trace, *summary; /* files */
	/*
	 * A socket to whoever started this (--control), -1: none. Written to it: "ready\n" once the probes are in, or "failed STATUS\n".
	 * Anything read from it, or its end, stops the watch.
	 */
	int control;
};

/* command_options.c: ends the program with one line where something is wrong. Texts stay those of `argv`. */
void command_options_read(int argc, char **argv, struct command_options *ret_options);
void command_options_done(struct command_options *options);

/* command_live.c: the table, drawn over the one before. */
struct live;
struct live *live_new(void);
struct live *live_free(struct live *live);
/* `stats` as of now; drawn once a second at most. */
void live_show(struct live *live, const struct watch_stats *stats, uint64_t now_ns);
/* Takes the table off the screen. */
void live_clear(struct live *live);

/* command_watch.c: the whole mode; `argv[0]` is COMMAND_WATCH. The exit status, unless it ends the program with a message. */
int command_watch(int argc, char **argv);

#endif
