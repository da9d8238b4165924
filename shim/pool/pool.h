// SPDX-License-Identifier: MIT
/*
 * Pool: blocks of pinned host memory and of device memory between their free and their next use.
 *
 * Words
 *	block	one whole allocation of the driver. Never split, never joined: what the driver answers about an address in it
 *		(flags, device pointer, range) is right of itself, but for its size
 *	live	the program has it
 *	parked	freed by the program; work that was submitted before may still use it. In a batch
 *	ready	parked once, and proven to be used by nobody any more
 *	batch	blocks freed since the batch before it was closed; proven together. Batch 0 is the open one
 *	held	parked or ready; what the limit is about
 *	magazine
 *		ready blocks of one thread, which only needs a word of its own to take and give them (magazine.h). They are ready for
 *		everybody who asks here
 *	key	context id, flags as given, size. A block serves requests of its own key only
 *
 * Invariants
 *	A block is in the address table exactly while the driver has it for us: out before the driver's free, in after its allocation.
 *	A block is given out only as ready, and only to the context it was made in.
 *	Nothing here calls the driver. Everything but magazines is under LOCK_POOL, held for a few look-ups; where that cannot be taken
 *	(a signal handler inside the shim) the answer is "not ours", and the call goes to the driver.
 *	Held bytes and the room that magazines have reserved are never more than the limit, so no thread asks before it keeps a block.
 *
 * Sizes are in bytes. Any thread.
 */
#ifndef SLIPSTREAM_POOL_POOL_H
#define SLIPSTREAM_POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Batches closed and not yet proven, at most; and the open one. */
#define POOL_BATCHES 9

/* What the driver made a block with. Each kind has its own sums and limit; all share batches and the address table. */
enum pool_kind { POOL_PINNED, POOL_DEVICE, POOL_ARRAY, POOL_KINDS };

/* In a block's flags: memory of the device. The others are of pinned memory. */
#define POOL_DEVICE_FLAG (1U << 30)
/* A CUDA array: its address is its handle. Held only, never taken. */
#define POOL_ARRAY_FLAG (1U << 29)
/* Bits of the flags that the driver does not use: the node of memory a pinned block lies on. */
#define POOL_NODE_SHIFT 16
#define POOL_NODE_MAX   255

static inline enum pool_kind pool_kind(uint32_t flags)
{
	if (flags & POOL_ARRAY_FLAG)
		return POOL_ARRAY;
	return flags & POOL_DEVICE_FLAG ? POOL_DEVICE : POOL_PINNED;
}

/* Cached: ready, in a magazine; shown as ready. */
#define POOL_TAG_STATE UINT64_C(7) /* of a tag: enum pool_state */
enum pool_state { POOL_NOT_OURS, POOL_LIVE, POOL_PARKED, POOL_READY, POOL_CACHED };

struct pool_block {
	uint64_t address;
	uint64_t size;      /* the driver's allocation */
	uint64_t requested; /* what the program asked for, at most size */
	uint64_t context;   /* id */
	uint64_t buffer_id; /* 0: the driver's own; else what a recycled block shows instead */
	uint32_t flags;
	uint32_t state;   /* enum pool_state; of a copy only */
	uint32_t special; /* its free must be looked at: it has attributes of its own */
	/* The pool's own, but for `listed`. */
	uint32_t slot, round;
	uint64_t
		listed; /* bytes that state's table of memory has for it, which outlive its free the short way; 0: none */
	uint64_t tag;             /* address and enum pool_state (internal.h) */
	struct pool_block *next;  /* in a batch, a depot, the spare ones, or a list handed out */
	struct pool_block *chain; /* of the address table */
	struct pool_depot *depot;
};

/* Where it stands for others what is held (record.h), from the next change on. Before any other. */
struct record_held;
void pool_show(struct record_held *record);

/* `limit`: bytes held at most. Once for each kind that is to hold anything, before any other. */
void pool_start(enum pool_kind kind, uint64_t limit);
/*
 * What SLIPSTREAM_POOL_LIMIT says: bytes, or a share of the machine's memory or of the control group's limit, whichever is less. A program that
 * frees a block expects to get the memory back; the default of 6 % is missed little. Measured on nothing: a choice.
 */
uint64_t pool_limit_of(uint64_t setting);

/*
 * What the driver is asked for: at most 12.5 % more, or 63 bytes; of device memory what the driver would take for it anyway (512 bytes
 * and 2 MiB are its units), or at most 12.5 % more. 0: too large for the pool.
 */
uint64_t pool_size(enum pool_kind kind, uint64_t bytes);

/* A ready block of the key, live from now on; 0: none. *ret_parked: a proof might make one ready. */
uint64_t pool_take(uint64_t context, uint32_t flags, uint64_t bytes, bool *ret_parked);

/* A new allocation of the driver, live. Displaces what stood at its address. False: not stored. */
bool pool_add(uint64_t context, uint32_t flags, uint64_t bytes, uint64_t size, uint64_t address);

/* From now on its free must be looked at: no magazine takes it. */
void pool_mark_special(uint64_t address);

/* The block that begins at this address, copied; POOL_NOT_OURS: none. */
enum pool_state pool_look(uint64_t address, struct pool_block *ret_block);

/*
 * Live block to the open batch; `ready`: nobody can be using it, so it is ready at once. False: not live, another context's, or more than
 * the limit.
 */
bool pool_park(uint64_t address, uint64_t context, bool ready);
/* The same, not ready, of pinned memory without attributes of its own, whose range state keeps: `listed` stays. */
bool pool_park_listed(uint64_t address, uint64_t context);
/* The same of device memory, whose range state has let go of. */
bool pool_park_device(uint64_t address, uint64_t context, bool ready);

/* Live block out of the table, since the driver shall free it; false: not live. */
bool pool_remove(uint64_t address, struct pool_block *ret_block);
/* The driver refused: live as before. */
void pool_put_back(const struct pool_block *block);

/* Does the batch hold anything? */
bool pool_batch_is_empty(unsigned int batch);
/* Is a block of this context in any of them: freed, and not proven? */
bool pool_has_parked(uint64_t context);
/* The open batch becomes this one, which is empty. */
void pool_close(unsigned int batch);
/* The batch is proven: its blocks are ready. */
void pool_release(unsigned int batch);

/*
 * Takes held blocks of the kind and context out, ready ones first, until at most `keep` bytes are held; parked ones only if `parked`. A list, for
 * pool_spare() once the driver has freed them.
 */
struct pool_block *pool_give_back(enum pool_kind kind, uint64_t context, uint64_t keep,
				  bool parked);
/* The same, parked ones too, and `most` blocks at most. */
struct pool_block *pool_give_some_back(enum pool_kind kind, uint64_t context, uint64_t keep,
				       unsigned int most);
void pool_spare(struct pool_block *list);

/* Contexts ended, and their memory with them: forgets blocks of all that do not live: a list as above. */
struct pool_block *pool_drop(bool (*lives)(uint64_t context));

/*
 * Another round begins. Ready blocks of the kind and context that nobody has used for more than `rounds`, oldest first, at most `most`:
 * a list as above.
 */
struct pool_block *pool_old(enum pool_kind kind, uint64_t context, uint32_t rounds,
			    unsigned int most);

/* `held` and `live` are without what magazines did, which their records tell. The peak counts what they had room for. */
struct pool_bytes {
	uint64_t held, reserved, peak, live, limit;
};
/* Each figure as it was at some moment of the call. */
void pool_bytes(enum pool_kind kind, struct pool_bytes *ret_bytes);

#endif
