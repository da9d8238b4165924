// SPDX-License-Identifier: MIT
/*
 * Unwinds the calling thread's stack by its modules' call frame information, without trusting any
 * of it.
 */
#ifndef SLIPSTREAM_SYNC_UNWIND_H
#define SLIPSTREAM_SYNC_UNWIND_H

#include <stdbool.h>
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
 * All that the unwinder went by from one frame on: words of the stack, in the order read. With the
 * same modules loaded, and the return address of that frame in the same slot, the same words mean
 * the same addresses, exactly: which word is read next follows from those before it. Registers are
 * noted where they were read from, and only if a frame's address came of them.
 */
#define UNWIND_WORDS_MAX 160
#define UNWIND_TRACE_MAX (16 << 20) /* bytes of stack that a trace may span */
struct unwind_word {
	uint64_t address, value;
};
struct unwind_trace {
	uint64_t from; /* given: the slot of the frame's return address; 0 nothing is noted */
	bool started, complete; /* complete: nothing else was gone by */
	uint32_t count;
	struct unwind_word words[UNWIND_WORDS_MAX];
};

/*
 * The return addresses from the caller's frame on, innermost first; at most `max`, at least none.
 * `modules` is up to date. Ends where there is no information, or none that makes sense. Only
 * `from` of the trace need be set.
 */
uint32_t unwind(struct unwind_cache *cache, const struct module_table *modules,
		uint64_t *ret_addresses, uint32_t max, struct unwind_trace *trace);

#endif
