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

/* On the stack of one walk; belongs to one thread. */
struct reader {
	int pid;     /* asked anew for each walk: a forked child must not read its parent */
	bool probed; /* process_vm_readv is refused here: probe the pages, then copy */
};

void reader_start(struct reader *reader);

/* Copies exactly `size` bytes; 0, or -EFAULT if any of them cannot be read. Changes errno. */
int reader_copy(struct reader *reader, void *ret_bytes, uint64_t address, size_t size);

/* Copies at least `least` bytes, and up to `most` where they lie in pages that `least` touches
 * anyway. The count, or -EFAULT. */
int reader_copy_some(struct reader *reader, void *ret_bytes, uint64_t address, size_t least,
		     size_t most);

/* Tests only: act as where the system call is refused. */
void reader_refuse(bool refuse);

#endif
