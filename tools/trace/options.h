// SPDX-License-Identifier: MIT
/* Options of `slipstream trace`, read and checked: sizes, times, addresses. One thread. */
#ifndef SLIPSTREAM_TOOLS_TRACE_OPTIONS_H
#define SLIPSTREAM_TOOLS_TRACE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "report.h"

/* Set for the program by --relayd, and what --stream-to is where it is not given. */
#define TRACE_STREAM_VARIABLE "SLIPSTREAM_STREAM_TO"

struct trace_options {
	struct report_output output;
	const char *folder; /* NULL: one is named by time and rank */
	const char *driver;
	char *url;            /* net://...: where the user's relay daemon is; NULL: none */
	const char *session;  /* the user's, to join; NULL: our own */
	const char *dump;     /* only ask for dumps: the folder of the record files; NULL: no */
	uint64_t size, count; /* of the sub-buffers; size 0: as the machine allows */
	uint64_t definitions; /* given: of all buffers of a processor; once sized: of
			       * a sub-buffer; 0: among the others */
	bool snapshot;
	uint64_t keep;    /* snapshot: bytes over all processors; 0: keep_ns says */
	uint64_t keep_ns; /* snapshot: time; 0: keep says */
	uint64_t blocked_over_ns;
	int timeout_s;
	bool live, relayd, witness;
	char **program; /* and its arguments */
};

/* Ends the command with one line where an option is wrong. */
void trace_options_read(int argc, char **argv, struct trace_options *ret_options);

/*
 * Sub-buffers for what a snapshot is to keep, or for a run that loses nothing, within what /dev/shm has.
 * Ends the command where asked-for buffers do not fit. What time they hold depends on the program: for
 * `keep_ns` they are a guess. After run_options_export(): level full needs more.
 */
void trace_options_size(struct trace_options *options);

#endif
