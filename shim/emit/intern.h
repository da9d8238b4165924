// SPDX-License-Identifier: MIT
/*
 * Intern: which record already stands for a text, a candidate, a wait. Internal to emit. Look-ups
 * take no lock; a miss takes emit's lock, looks again, and writes the record. Bounds: what does not
 * fit is dropped and counted.
 */
#ifndef SLIPSTREAM_EMIT_INTERN_H
#define SLIPSTREAM_EMIT_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "emit/emit.h"

/* The id of the record that says this, made if there is none; 0: dropped. */
uint32_t intern_string(const char *bytes, size_t length);
/* As emit_string_bytes(). */
const char *intern_string_bytes(uint32_t id, size_t *ret_length);
struct record_region *intern_region(uint32_t parent, uint32_t name, uint32_t *ret_id);
/* By its name's bytes; NULL: there is none. */
struct record_region *intern_known_region(uint32_t parent, const char *name, size_t length,
					  uint32_t *ret_id);
uint32_t intern_regions(void); /* how many there are */
uint32_t intern_candidate(const struct emit_candidate *candidate);
/* The record itself, whose live fields the caller adds to, atomically; NULL: dropped. */
struct record_wait *intern_wait(const struct emit_finding *finding, uint32_t *ret_id);
struct record_waited_for *intern_waited_for(uint32_t wait, uint32_t candidate);
struct record_remark *intern_remark(const struct emit_remark *remark);
struct record_note *intern_note(enum note_code code, uint32_t text);
struct record_remark *intern_remark(const struct emit_remark *remark);

/* Another number after each intern_clear(): what these functions returned before is good no more. Never 0. */
uint64_t intern_life(void);

/* In a forked child, and between tests. */
void intern_clear(void);

#endif
