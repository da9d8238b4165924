// SPDX-License-Identifier: MIT
/*
 * Session: the recording session of a traced run, in the private daemon or in one of the user's.
 * Every function may take as long as the keeper allows and returns 0, or -EIO with one line in
 * *reterr_text (the caller frees). One thread, one session a process.
 */
#ifndef SLIPSTREAM_TOOLS_TRACE_SESSION_H
#define SLIPSTREAM_TOOLS_TRACE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

struct keeper;
struct session;

enum session_mode {
	SESSION_RECORD,   /* everything, to a folder or over the network */
	SESSION_LIVE,     /* over the network, readable meanwhile */
	SESSION_SNAPSHOT, /* in memory only, until a snapshot is asked for */
};

struct session_plan {
	struct keeper *keeper; /* NULL: the daemon is the user's, and found as he finds it */
	const char *home;      /* with a keeper: its folder */
	const char *name;
	enum session_mode mode;
	const char *folder;       /* absolute; where trace or snapshots go; NULL: url says */
	const char *url;          /* net://HOST[:CONTROL[:DATA]] */
	uint64_t size, count;     /* of the sub-buffers: bytes, number; powers of two */
	uint64_t definitions;     /* SESSION_SNAPSHOT: size of those for the definitions */
	uint64_t blocked_over_ns; /* SESSION_SNAPSHOT: save when a call blocked longer; 0: never */
	int timeout_s;            /* for messages */
};

/* Makes and starts the session; the plan must outlive it. */
int session_start(const struct session_plan *plan, struct session **ret_session,
		  char **reterr_text);

/*
 * Takes part in the session `name` that the user has: events, and contexts where they are missing,
 * are enabled in it. *ret_notice: one line about what could not be had, or NULL (the caller frees).
 */
int session_join(const struct session_plan *plan, struct session **ret_session, char **ret_notice,
		 char **reterr_text);

/* Saves what the buffers hold. SESSION_SNAPSHOT only. */
int session_snapshot(struct session *session, char **reterr_text);
/*
 * With blocked_over_ns the session saves one snapshot of its own accord; a further one after each
 * rearm, none after a disarm.
 */
void session_rearm(struct session *session);
void session_disarm(struct session *session);

/* What was lost so far, exact once the session is stopped. A joined session: since we joined. */
struct session_loss {
	uint64_t events;  /* buffers were full */
	uint64_t packets; /* overwritten before they were saved; SESSION_SNAPSHOT: on purpose */
};

/*
 * Stops the session, so that everything recorded is written, and counts what was lost. A joined one
 * goes on; events that we enabled are disabled.
 */
int session_stop(struct session *session, struct session_loss *ret_loss, char **reterr_text);

/* Destroys it unless it is the user's; frees. NULL is no session. */
void session_end(struct session *session);

#endif
