// SPDX-License-Identifier: MIT
/*
 * Lanes: a trace decoded by several threads at once, each with a graph of its own over some of the
 * streams, merged by time into one sequence of events. Decoding is what takes the time (nine tenths
 * of it); the model and the consumers stay with the caller's thread.
 *
 * Synchronisation, by thread:
 *
 *		lane_new	lanes_next	lanes_stop	lanes_free
 * lane's thread   -               queue lock      flag, lock      joined before
 *
 * All functions here are called by one thread. A lane's graph, decoder and the batch that it fills
 * are its thread's from lanes_start() until that thread has been joined; full batches are handed
 * over and back under the lane's lock, which is held for moving a pointer only and nests in
 * nothing. babeltrace2 allows threads where they share no object: every lane has graph, components
 * and plugins of its own, made and freed by the caller's thread.
 */
#ifndef SLIPSTREAM_TRACING_LANES_H
#define SLIPSTREAM_TRACING_LANES_H

#include <babeltrace2/babeltrace.h>

#include "tracing/analysis/decode.h"

struct lanes;

/* How many are worth while for so many streams on this machine; 1: none. */
size_t lanes_worth(size_t streams);

struct lanes *lanes_new(void);
/* Ends the threads. The decoders let go of what is the graphs', so it comes before these are freed. */
struct lanes *lanes_free(struct lanes *lanes);

/* A new lane's sink in `graph`, which must live as long as the lane; NULL: the library fails. */
const bt_component_sink *lanes_add(struct lanes *lanes, bt_graph *graph);
const struct decoder_account *lanes_account(const struct lanes *lanes, size_t lane);

/* Starts the threads; 0 or -errno. */
int lanes_start(struct lanes *lanes);

/* The next event by time, valid until the next call; false: all lanes have ended. */
bool lanes_next(struct lanes *lanes, struct decoded *ret_event);

/* Ends the threads; what they had not handed over is lost. Accounts may be looked at afterwards. */
void lanes_stop(struct lanes *lanes);

/* Why a lane broke off, one line; NULL: none did. After lanes_next() said false. */
const char *lanes_error(const struct lanes *lanes);

#endif
