// SPDX-License-Identifier: MIT
/*
 * Keeper: a process of its own that starts the private LTTng daemons of a traced run and ends them,
 * however the tracer ends. One thread; one keeper a run.
 */
#ifndef SLIPSTREAM_TOOLS_TRACE_KEEPER_H
#define SLIPSTREAM_TOOLS_TRACE_KEEPER_H

#include <stdbool.h>

struct keeper;

struct keeper_plan {
	const char *home;     /* absolute; private folder, which goes with all in it at the end */
	const char *log;      /* absolute; the daemons' messages are added to it */
	const char *sessiond; /* path of lttng-sessiond; NULL: none wanted */
	const char *preload;  /* library for the daemons (daemon_user.c); NULL: none */
	char **relayd;        /* arguments of lttng-relayd, its path first; NULL: none wanted */
	int relayd_port;      /* TCP, loopback: where it answers once it is ready */
	int timeout_s;        /* for each start, each call and the end */
};

/*
 * Starts keeper and daemons; when it returns 0 they answer. Call before anything is put into the
 * environment for the program. -errno with one line in *reterr_text (the caller frees) otherwise.
 */
int keeper_start(const struct keeper_plan *plan, struct keeper **ret_keeper, char **reterr_text);

/*
 * A call into the daemons stands between these two. Where it takes longer than the time limit, the
 * keeper kills the daemons, so that the call comes back with an error; keeper_call_ends() then
 * answers false, as it does if the keeper itself is gone.
 */
void keeper_call_begins(struct keeper *keeper);
bool keeper_call_ends(struct keeper *keeper);

/* Ends the daemons, removes the folder, waits for both, frees. NULL is no keeper. */
void keeper_end(struct keeper *keeper);

#endif
