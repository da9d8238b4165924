// SPDX-License-Identifier: MIT
/*
 * Daemon log: what the LTTng daemons of a run said. They write into their own folder, since that of
 * the trace may be full; it goes with them, and what they wrote is read through the descriptor that we
 * hold. One thread; a log of NULL is an empty one.
 */
#ifndef SLIPSTREAM_TOOLS_TRACE_DAEMON_LOG_H
#define SLIPSTREAM_TOOLS_TRACE_DAEMON_LOG_H

#include <stdbool.h>
#include <stdio.h>

/* Makes the file. Ends the command with one line where it cannot. */
FILE *daemon_log_open(const char *path);

/* Says its last lines, for a failure that they may explain. */
void daemon_log_show(FILE *log);

/* Says the first error in it, if there is one: a full disk is told nowhere else. Was there one? */
bool daemon_log_say_error(FILE *log);

/* Keeps it as lttng.log in the trace's folder, if there is anything in it. */
void daemon_log_keep(FILE *log, const char *folder);

#endif
