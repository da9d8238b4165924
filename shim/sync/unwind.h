// SPDX-License-Identifier: MIT
/*
 * Unwinds the calling thread's stack by its modules' call frame information, without trusting any
 * of it.
 */
#ifndef SLIPSTREAM_SYNC_UNWIND_H
#define SLIPSTREAM_SYNC_UNWIND_H

#include <stdint.h>

struct module_table;

/*
 * Tracked registers: what a called function must keep, the stack pointer and the program counter.
 */
enum unwind_register {
	UNWIND_RBX,
	UNWIND_RBP,
	UNWIND_R12,
	UNWIND_R13,
	UNWIND_R14,
	UNWIND_R15,
	UNWIND_RSP,
	UNWIND_PC,
	UNWIND_REGISTERS
};

/* What the information says of one place in the code, if it is of the usual simple kind: the
 * frame's address is a register plus an offset, registers are kept at offsets from it. */
struct unwind_rule {
	uint64_t pc;
	uint32_t stamp;               /* of the module table's state; 0 empty */
	int32_t offset;               /* of the frame's address from base */
	uint8_t base;                 /* enum unwind_register */
	uint8_t saved;                /* bit n: register n was saved */
	uint8_t is_signal;            /* the frame above was interrupted, not calling */
	int16_t at[UNWIND_REGISTERS]; /* in words from the frame's address */
};

#define UNWIND_RULES     4096 /* a power of two */
#define UNWIND_ENTRY_MAX 4096 /* bytes of one function's information that are read */

/* Zero is empty. Owned by site.c, under its lock, which the caller of unwind() holds. */
struct unwind_cache {
	struct unwind_rule rules[UNWIND_RULES];
	/* While a place is looked up: bytes of a function's entry and of the common one. Here since
	 * a thread's stack may be small. */
	uint8_t entry[UNWIND_ENTRY_MAX], common[UNWIND_ENTRY_MAX];
};

/*
 * The return addresses from the caller's frame on, innermost first; at most `max`, at least none.
 * `modules` is up to date. Ends where there is no information, or none that makes sense.
 */
uint32_t unwind(struct unwind_cache *cache, const struct module_table *modules,
		uint64_t *ret_addresses, uint32_t max);

#endif
