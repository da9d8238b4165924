// SPDX-License-Identifier: MIT
/*
 * Internal: what the files of the rewrite room need of each other.
 */
#ifndef SLIPSTREAM_REWRITE_INTERNAL_H
#define SLIPSTREAM_REWRITE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "config.h"
#include "emit/record.h"
#include "pool/pool.h"

struct call;

/* settle.c: makes ready what can be shown to be used by nobody, asking the driver where that helps. */
void settle_batches(uint64_t context);
/* Without a question: blocks whose users are known complete are ready. */
void settle_known(void);
/* While contexts end: may work of others use blocks that are not proven? What was freed last counts with all that is unfinished now. */
bool settle_used_elsewhere(void);
/*
 * Before blocks go back to the driver in a call that does not wait by itself (an allocation): waits until nothing is at work on the streams that can be
 * asked about, a second at most. False: something still is, perhaps a kernel that waits for this thread, and the driver's free would wait for it for ever.
 */
bool settle_work(uint64_t context);
/* Is an event of ours on its way on a stream of this context? A hint: others may change it meanwhile. */
bool settle_has_event(uint64_t context);

/* pinned.c: why the driver must free this live block in this call; NULL: it may be parked. Makes the wait of strict-free. `rewrite`: whose block. */
const char *free_objection(struct call *call, const struct pool_block *block,
			   enum config_fix rewrite);

/* pointer.c: the block that the address lies in, as the program may see it: behind what was asked for there is nothing. */
enum pool_state pointer_find(uint64_t address, struct pool_block *ret_block);

/*
 * A call that gives held blocks back to the driver besides doing its own work begins no more of them after this time, so that what other frees did not
 * wait for is not one long stall here. It is enough for more than one block a call, so what is held does shrink.
 */
#define GIVE_BACK_NS   UINT64_C(1000000)
#define GIVE_BACK_ONCE 4 /* blocks between two looks at the clock */

/* room.c: around taking blocks out of the pool and giving them to the driver; `some`: it has them. */
void room_giving_begin(void);
void room_giving_end(bool some);

/*
 * Off for good (doubt): nothing that is held will be used again. Behind a call of the driver that has waited for the device, with its result: what is
 * held of the current context goes, as far as GIVE_BACK_NS goes for each kind. Other contexts' handles may name nothing any more.
 */
bool room_is_to_leave(void);
void room_leave(struct call *call, CUresult result);

/* counts.c: what the report tells; adds are relaxed and never lost. Before counts_start() they go nowhere. */
void counts_start(void);
/* The record of `legacy`, for the room that makes it. */
struct record_rewrite *counts_legacy(void);
extern struct record_rewrite *counts, *counts_frees,
	*counts_staging; /* of `pinned` with all that settle.c asks, of `frees` */
#define COUNT(field, number) __atomic_fetch_add(&counts->field, number, __ATOMIC_RELAXED)
#define COUNT_FREES(field, number)                                                                 \
	__atomic_fetch_add(&counts_frees->field, number, __ATOMIC_RELAXED)
#define COUNT_STAGING(field, number)                                                               \
	__atomic_fetch_add(&counts_staging->field, number, __ATOMIC_RELAXED)
/* What is held now: the pool writes the sums, settle.c the batches. Written before any hook runs. */
extern struct record_held *counts_held;
/* Bytes held, their peak, live ones, from the pool. */
void counts_bytes(void);
/* The same of what calls change that only give and take pinned memory, and device memory. */
void counts_pinned_bytes(void);
void counts_device_bytes(void);

#endif
