// SPDX-License-Identifier: MIT
/*
 * Check, accesses: who used which memory last (access.c), and what a kernel is given (parameters.c). All of it under check_lock(), unless said
 * otherwise.
 */
#ifndef SLIPSTREAM_CHECK_ACCESS_H
#define SLIPSTREAM_CHECK_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "check/internal.h"

enum access_how {
	ACCESS_READ,
	ACCESS_WRITE,
	/* From an address that the kernel is given to the block's end: nobody knows how much of it is used, and whether it is written. */
	ACCESS_KERNEL,
	ACCESS_PRODUCER, /* the same of the first that is given a block: it has nothing to read there */
};

struct access {
	uint64_t serial;     /* access_add() gives it */
	uint64_t begin, end; /* addresses */
	uint32_t lane, number;
	enum access_how how;
	bool is_unknown; /* something unseen is before it: it is held against nothing */
	struct check_side side;
};

#define ACCESSES_AT_ONCE 8
/* So few are a flag: copies to memory of a kernel that are meant to be seen while it runs. */
#define FLAG_BYTES 8

/* What was found about one access; the other one. */
struct access_conflict {
	struct check_side side;
	uint32_t lane, number;
};

/*
 * The first access that is not before this one, and must be; then it counts as before. `access` is remembered. False: there is none.
 */
bool access_add(const struct access *access, struct access_conflict *ret_conflict);
/* So many were added so far. Without the lock, too. */
uint64_t access_count(void);
/*
 * The block is freed by the next operation of the lane: an access to it, among the first `made` of all, that is not before that. What was remembered of it
 * is forgotten. What came later is the next owner's: another thread may have it before the call that frees returns.
 */
bool access_free(uint64_t begin, uint64_t end, uint64_t made, uint32_t lane,
		 struct access_conflict *ret_conflict);
/* The same without a question. */
void access_drop(uint64_t begin, uint64_t end, uint64_t made);

/* ---- blocks of device memory that nothing has been written to ---- */

void block_made(uint64_t address, uint64_t bytes);
void block_gone(uint64_t address);
/* An operation that may write anywhere. */
void block_unseen(void);
/* Something is written to the block that begins here. True: it was the first. */
bool block_is_first(uint64_t address);

void access_forget(void);

/* ---- pointers.c ---- */

/* A copy to the device: does it upload addresses of device memory? Without check_lock(). */
void pointers_look(const struct call *call);
/* One did: a kernel may use blocks that it is not given. Any thread. */
bool pointers_are_uploaded(void);
void pointers_forget(void);

/* ---- parameters.c ---- */

#define POINTERS_MAX 8

/* After a call that names a function. */
void parameters_named(const struct call *call, const uint64_t *arguments);
/*
 * Addresses of memory among what the kernel of this launch is given. False: not to be known. Without check_lock(): it asks the driver once for each
 * function.
 */
bool parameters_of(const struct call *call, const uint64_t *arguments, uint64_t *ret_addresses,
		   uint32_t *ret_count);
/* Is there a word among them, at any place, of which `holds` is true? Also where that is not to be known. As above. */
bool parameters_may_hold(const struct call *call, const uint64_t *arguments,
			 bool (*holds)(uint64_t word));
void parameters_forget(void);

#endif
