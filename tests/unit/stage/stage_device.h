// SPDX-License-Identifier: MIT
/*
 * A device for the tests of staged copies: streams of copies, value writes and waits, and events, done by a thread of its own in the order
 * of each stream, at random moments. Device memory is ordinary memory. Calls can be made to fail, and are written down.
 */
#ifndef SLIPSTREAM_TEST_STAGE_DEVICE_H
#define SLIPSTREAM_TEST_STAGE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* Calls that can fail, in the journal by their letter. */
#define DEVICE_CALLS(X)                                                                            \
	X(REGISTER, 'r')                                                                           \
	X(POINTER, 'p')                                                                            \
	X(RANGE, 'g')                                                                              \
	X(CREATE, 'c')                                                                             \
	X(PLACE, 'P')                                                                              \
	X(WAIT, 'W')                                                                               \
	X(WRITE, 'w')                                                                              \
	X(COPY, 'C')                                                                               \
	X(EVENT_CREATE, 'n')                                                                       \
	X(RECORD, 'R')                                                                             \
	X(EVENT_QUERY, 'q')                                                                        \
	X(EVENT_SYNCHRONIZE, 's')                                                                  \
	X(QUERY, 'Q')                                                                              \
	X(SYNCHRONIZE, 'S')                                                                        \
	X(EXCHANGE, 'x')
#define DEVICE_ENUM(name, letter) DEVICE_##name,
enum device_call { DEVICE_CALLS(DEVICE_ENUM) DEVICE_CALL_COUNT };

/* The program's stream; internal ones are made by the engine. */
#define DEVICE_STREAM(n) ((CUstream)((uintptr_t)(n) + 1))
#define DEVICE_PROGRAM   8 /* program's streams */

void device_start(uint64_t seed);
/* False: something did not come to its end in 10 s. */
bool device_settle(void);
void device_stop(void);

/* The n-th call from now, from 1, gives the status and does nothing. */
void device_fail(enum device_call call, unsigned int n, CUresult status);
/* Calls since the last device_fail(). */
unsigned int device_count(enum device_call call);

/* Letters of the calls since the last device_journal(), each behind the stream's number where it has one. */
const char *device_journal(void);

/* Program's streams are held at their next operation. */
void device_hold(bool hold);
/* This one alone, beside that; NULL: none. */
void device_hold_stream(CUstream stream);
/* Internal streams stand behind a waiting stream of the program's, as in one queue of the hardware. */
void device_share(bool share);

/* What the driver's own copy would do, in its stream. */
void device_copy(CUstream stream, void *to, const void *from, size_t bytes);
bool device_is_relaxed(void);

#endif
