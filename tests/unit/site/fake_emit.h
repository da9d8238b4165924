// SPDX-License-Identifier: MIT
/*
 * An emit that keeps everything in arrays, for tests of what calls it. Thread-safe by one lock.
 */
#ifndef SLIPSTREAM_TESTS_FAKE_EMIT_H
#define SLIPSTREAM_TESTS_FAKE_EMIT_H

#include <stddef.h>
#include <stdint.h>

#include "emit/emit.h"

const char *fake_string(uint32_t id); /* NULL: no such id */
const struct record *fake_record(enum record_type type,
				 uint32_t n); /* the n-th of its type, from 0 */
uint32_t fake_count(enum record_type type);
uint32_t fake_notes(enum note_code code, const char *text); /* how often; text NULL: any */
void fake_reset(void);
extern void (*fake_hook)(void); /* called by emit_reserve(), if set */
void fake_refuse(int refuse);   /* emit_reserve() fails from now on */

#endif
