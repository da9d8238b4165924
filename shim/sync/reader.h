// SPDX-License-Identifier: MIT
/*
 * Fault-proof reads of this process's own memory, for structures whose layout is only believed
 * (interpreter frames).
 */
#ifndef SLIPSTREAM_SYNC_READER_H
#define SLIPSTREAM_SYNC_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READER_PAGES 64 /* a power of two */

/* On the stack of one walk; belongs to one thread. */
struct reader {
	bool exact;                   /* by process_vm_readv(), else by probing */
	int pid;                      /* exact: this process */
	uint64_t pages[READER_PAGES]; /* probing: pages found readable */
};

/*
 * exact: no read can fault, whatever the address and whatever other threads do meanwhile; about 2
 * us each. Else: no read faults as long as no other thread unmaps the page just then; about 150 ns
 * a page. The quick way is for memory that is known to be what it is taken for.
 */
void reader_start(struct reader *reader, bool exact);

/* Copies exactly `size` bytes; 0, or -EFAULT if any of them cannot be read. Changes errno. */
int reader_copy(struct reader *reader, void *ret_bytes, uint64_t address, size_t size);

/* Copies at least `least` bytes, and up to `most` where they lie in pages that `least` touches
 * anyway. The count, or -EFAULT. */
int reader_copy_some(struct reader *reader, void *ret_bytes, uint64_t address, size_t least,
		     size_t most);

/* Tests only: the exact way always, or as where process_vm_readv() is refused. */
enum reader_way { READER_AS_ASKED, READER_EXACT, READER_REFUSED };
void reader_force(enum reader_way way);

#endif
