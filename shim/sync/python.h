// SPDX-License-Identifier: MIT
/*
 * Python frames of the calling thread, read without the interpreter's help and without the GIL.
 */
#ifndef SLIPSTREAM_SYNC_PYTHON_H
#define SLIPSTREAM_SYNC_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

struct record_python_frame;

/*
 * Fills at most `max` frames, innermost first; returns how many; 0 where this is no Python process,
 * its version is unknown (one NOTE_PYTHON is written), or SLIPSTREAM_PYTHON=off.
 */
uint32_t python_frames(struct record_python_frame *frames, uint32_t max);

/* The address lies in an interpreter's loop that runs bytecode. */
bool python_runs(uint64_t address);

/* A number that differs (almost surely) when the thread is at another place of its innermost Python
 * frame; 0 outside Python. */
uint64_t python_mark(void);

#endif
