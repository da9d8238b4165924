// SPDX-License-Identifier: MIT
/* Folders of a traced run: the one that the user gets, and the private one of the daemons. One
 * thread. */
#ifndef SLIPSTREAM_TOOLS_TRACE_FOLDER_H
#define SLIPSTREAM_TOOLS_TRACE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOLDER_CHANNEL     "slipstream"  /* the channel, whose streams are files FOLDER_CHANNEL_N */
#define FOLDER_DEFINITIONS "definitions" /* of a flight recorder: that of the definitions */
#define FOLDER_RECORDS     "records"     /* in the trace's folder: where the record files go */

/*
 * Makes the trace's folder, `asked` or one named by the time; of a rank of several, a folder of its
 * own in it. Absolute; the caller frees. Ends the command with one line if it is there and not
 * empty. What stays empty of it goes when the command ends.
 */
char *folder_make(const char *asked);

/* The private folder of the daemons, short enough for the names of their sockets. The caller frees. */
char *folder_make_home(void);

/* Bytes of the largest stream of events of a trace, wherever in the folder it lies; 0: none. */
uint64_t folder_largest_stream(const char *folder);

/* How many record files lie in a folder. */
size_t folder_count_records(const char *folder);

/* Is it a name as the session daemon gives snapshots? */
bool folder_is_snapshot(const char *name);

/* How many snapshots lie in a folder. */
size_t folder_count_snapshots(const char *folder);

#endif
