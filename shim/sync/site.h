// SPDX-License-Identifier: MIT
/*
 * Call sites: the program's stack at a driver call, interned once in the record file.
 */
#ifndef SLIPSTREAM_SYNC_SITE_H
#define SLIPSTREAM_SYNC_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sites that one process interns; ids go from 1 to here. */
#define SITES_MAX (64 * 1024)

/* Makes room for the tables, so that the first site need not. Optional; any thread. */
void site_prepare(void);

/*
 * The id of the site record for the calling thread's stack, 0 if none can be taken.
 * `return_address` is the wrapper's return address: the first frame of the site; frames inside the
 * shim are left out. `frame` is the slot of the stack that holds it (ENTRY_FRAME()): with it a stack
 * seen before is known again without unwinding (site_cache.h); NULL: always unwound. Takes the
 * Python stack too where this is a Python process. Never blocks on the GIL, never faults, leaves
 * errno alone.
 */
uint32_t site_take(const void *return_address, const void *frame);

/*
 * The same for an instruction that this thread was interrupted at, from the signal's handler: `pc` is the first frame, as if it were a return address.
 */
uint32_t site_take_interrupted(const void *pc);

/*
 * What a site is called in every run of the same files (site_key.h), 0: there is no such site. Slow: to be asked once a site. No lock may
 * be held that site_take() could need.
 */
uint64_t site_key(uint32_t id);

/* Does it have a frame in a file of this name (without folders), or a Python frame of a function of this name? As slow. */
bool site_in_file(uint32_t id, const char *name, size_t length);
bool site_in_python(uint32_t id, const char *function, size_t length);

#endif
