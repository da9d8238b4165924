// SPDX-License-Identifier: MIT
/*
 * Stage memory: the program's memory, before a thread of ours touches it. A copy thread must not fault: it has no state of the program's, and a
 * handler that the program has for its own threads may make no sense there. So the kernel is asked to map the pages first, which tells of
 * memory that cannot be had. Any thread, no lock; keeps errno.
 *
 * Another thread of the program that unmaps the memory during the copy makes us fault as it would the driver.
 */
#ifndef SLIPSTREAM_STAGE_STAGE_MEMORY_H
#define SLIPSTREAM_STAGE_STAGE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stage_memory {
	STAGE_MEMORY_BAD,     /* not all of it can be had: the driver's business */
	STAGE_MEMORY_ASK,     /* populate all of it before it is touched */
	STAGE_MEMORY_PRIVATE, /* may be had: only pages that are not there need be populated */
	STAGE_MEMORY_TRUST,   /* touched by the caller alone, as by the driver */
};

/*
 * About a whole range, once a copy: what kind of mappings it lies in. One look, about 4 us. Where the kernel cannot say (before Linux 6.11)
 * it is to be asked piecewise.
 */
enum stage_memory stage_memory_look(uintptr_t first, uintptr_t end, bool write);

/* Are all pages there already? False for more than 4 MiB. */
bool stage_memory_is_there(uintptr_t first, uintptr_t end);

/* Maps the pages, writable or readable; false: that cannot be, or the kernel cannot do it. */
bool stage_memory_populate(uintptr_t first, uintptr_t end, bool write);

/*
 * For a caller that reads a few pages itself, at once: all of them are there and may be read. False: that cannot be. Where the kernel cannot
 * say of that many pages they are trusted, as STAGE_MEMORY_TRUST is.
 */
bool stage_memory_is_readable(uintptr_t first, uintptr_t end);

/* Has the kernel the means (Linux 5.14)? Asked once. */
bool stage_memory_can_populate(void);

/* Tests: as if the kernel could not say. */
void stage_memory_forget(bool mappings, bool populate);

#endif
