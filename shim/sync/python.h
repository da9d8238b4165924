// SPDX-License-Identifier: MIT
/*
 * Python frames of the calling thread, read without the interpreter's help and without the GIL.
 */
#ifndef SLIPSTREAM_SYNC_PYTHON_H
#define SLIPSTREAM_SYNC_PYTHON_H

#include <stdint.h>

struct record_python_frame;

/*
 * `generation`: of module_generation(), now. Fills at most `max` frames, innermost first; returns how many; 0 where this is no Python process,
 * its version is unknown (one NOTE_PYTHON is written), or SLIPSTREAM_PYTHON=off.
 */
uint32_t python_frames(uint64_t generation, struct record_python_frame *frames, uint32_t max);

/* The function that runs bytecode in the n-th interpreter of this process, 0 behind the last. */
uint64_t python_loop(uint32_t n, uint64_t *ret_size);

#endif
