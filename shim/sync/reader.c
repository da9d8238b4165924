// SPDX-License-Identifier: MIT
/*
 * Fault-proof reads (reader.h). Called by python.c and python_layout.c.
 *
 * The exact way is process_vm_readv() on our own process: it never faults, and memory that belongs
 * to a device it refuses to read. The quick way is a probe and a plain copy: rt_sigprocmask() with
 * a `how` that does not exist copies the set in before it says EINVAL, so that it tells a readable
 * address (EINVAL) from another (EFAULT) and changes nothing. It also serves where a sandbox
 * refuses process_vm_readv().
 */
#include "sync/reader.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096 /* the smallest page: probing more often than needed does no harm */

/* READER_REFUSED is written by whichever thread first meets a refusal; read by all: a hint, no
 * order needed. */
static atomic_uint forced = READER_AS_ASKED;

void reader_force(enum reader_way way)
{
	atomic_store_explicit(&forced, way, memory_order_relaxed);
}

void reader_start(struct reader *reader, bool exact)
{
	unsigned int way = atomic_load_explicit(&forced, memory_order_relaxed);

	reader->exact = way == READER_EXACT || (exact && way != READER_REFUSED);
	/* Asked anew for each walk: a forked child must not read its parent. */
	reader->pid = reader->exact ? getpid() : 0;
	memset(reader->pages, 0, sizeof(reader->pages));
}

static int copy_probed(struct reader *reader, void *ret_bytes, uint64_t address, size_t size)
{
	uint64_t page;

	for (page = address & ~(uint64_t)(PAGE - 1); page < address + size; page += PAGE) {
		uint64_t *known = &reader->pages[page / PAGE & (READER_PAGES - 1)];

		if (*known == page)
			continue;
		/* Reads 8 bytes: kept within one page, so that it tells of that page alone. */
		if (syscall(SYS_rt_sigprocmask, ~0, page, NULL, 8) != -1 || errno != EINVAL)
			return -EFAULT;
		*known = page;
	}
	/* Not memcpy(): in a program with the address sanitizer that is its own, which ends the
	 * program when we read a little past an object. */
	__asm__ volatile("rep movsb" : "+D"(ret_bytes), "+S"(address), "+c"(size) : : "memory");
	return 0;
}

int reader_copy(struct reader *reader, void *ret_bytes, uint64_t address, size_t size)
{
	struct iovec local = {ret_bytes, size};
	struct iovec remote = {(void *)(uintptr_t)address, size};
	ssize_t got;

	/* The kernel refuses others too; this also keeps sums from wrapping. */
	if (address < PAGE || address >= UINT64_C(1) << 56)
		return -EFAULT;
	if (reader->exact) {
		got = process_vm_readv(reader->pid, &local, 1, &remote, 1, 0);
		if (got == (ssize_t)size)
			return 0;
		if (got >= 0 || errno == EFAULT)
			return -EFAULT;
		reader->exact = false;
		reader_force(READER_REFUSED);
	}
	return copy_probed(reader, ret_bytes, address, size);
}

int reader_copy_some(struct reader *reader, void *ret_bytes, uint64_t address, size_t least,
		     size_t most)
{
	/* Wraps only for addresses that reader_copy() refuses. */
	uint64_t left = (((address + least - 1) | (PAGE - 1)) + 1) - address;
	size_t size = left < most ? left : most;
	int error = reader_copy(reader, ret_bytes, address, size);

	return error ? error : (int)size;
}
