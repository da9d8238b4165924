// SPDX-License-Identifier: MIT
/*
 * Ask: has the processes of a traced run repeat their definitions, so that a snapshot taken next can be
 * read by itself. One thread.
 */
#ifndef SLIPSTREAM_TOOLS_TRACE_ASK_H
#define SLIPSTREAM_TOOLS_TRACE_ASK_H

#include <stddef.h>
#include <stdint.h>

/*
 * How long a process has: it looks once a millisecond while it emits events. One that is idle or in a long
 * call does not answer at all, and the buffers are being overwritten meanwhile.
 */
#define ASK_MS 200

/*
 * Asks each process that runs and has a record file in `folder`, and waits until all have answered, ASK_MS
 * at most. *ret_asked: how many processes these were. *ret_silent: one line, whose end is the caller's to
 * write, about those that did not answer ("process 12 did not ..."); NULL: all did. The caller frees.
 * 0, or -errno: the folder cannot be read.
 */
int ask_for_dumps(const char *folder, size_t *ret_asked, char **ret_silent);

/* "process 12", "processes 12, 13", or of many the first in order and how many more; NULL: none. Sorts. */
char *ask_names(uint32_t *pids, size_t count);

#endif
