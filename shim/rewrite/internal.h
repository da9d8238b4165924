// SPDX-License-Identifier: MIT
/*
 * Internal: what the files of the rewrite room need of each other.
 */
#ifndef SLIPSTREAM_REWRITE_INTERNAL_H
#define SLIPSTREAM_REWRITE_INTERNAL_H

#include <stdint.h>

#include "emit/record.h"
#include "pool/pool.h"

/* proof.c: makes ready what can be shown to be used by nobody, asking the driver where that helps. */
void proof_advance(uint64_t context);
/* The events of contexts that do not live are gone. */
void proof_drop(bool (*lives)(uint64_t context));

/* counts.c: what the report tells; adds are relaxed and never lost. Before counts_start() they go nowhere. */
void counts_start(void);
extern struct record_rewrite *counts;
#define COUNT(field, number) __atomic_fetch_add(&counts->field, number, __ATOMIC_RELAXED)
/* Bytes held, their peak, live ones, from the pool. */
void counts_bytes(void);

#endif
