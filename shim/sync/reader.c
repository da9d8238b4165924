// SPDX-License-Identifier: MIT
/*
 * Fault-proof reads (reader.h). Called by python.c and site.c.
 *
 * process_vm_readv() on our own process never faults and is atomic against unmapping. Sandboxes
 * that refuse it (old container profiles) get the second way: rt_sigprocmask() with a `how` that
 * does not exist copies the set in before it says EINVAL, so that it tells a readable address
 * (EINVAL) from another (EFAULT) and changes nothing; the bytes are then copied plainly. Between
 * the two another thread could unmap the page; what is read belongs to live frames of the calling
 * thread, which nobody unmaps.
 */
#include "sync/reader.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096 /* the smallest page: probing more often than needed does no harm */

/* Written once by whichever thread first meets a refusal, read by all: a hint, no order needed. */
static atomic_bool refused;

void reader_refuse(bool refuse)
{
	atomic_store_explicit(&refused, refuse, memory_order_relaxed);
}

void reader_start(struct reader *reader)
{
	reader->pid = getpid();
	reader->probed = atomic_load_explicit(&refused, memory_order_relaxed);
}

static int copy_probed(void *ret_bytes, uint64_t address, size_t size)
{
	uint64_t page;

	/* The probe reads 8 bytes: kept within one page so that it tells of that page alone. */
	for (page = address & ~(uint64_t)(PAGE - 1); page < address + size; page += PAGE) {
		if (syscall(SYS_rt_sigprocmask, ~0, page, NULL, 8) != -1 || errno != EINVAL)
			return -EFAULT;
	}
	memcpy(ret_bytes, (const void *)(uintptr_t)address, size);
	return 0;
}

int reader_copy(struct reader *reader, void *ret_bytes, uint64_t address, size_t size)
{
	struct iovec local = {ret_bytes, size};
	struct iovec remote = {(void *)(uintptr_t)address, size};
	ssize_t got;

	if (address < PAGE || address > UINT64_MAX - size || address >> 47)
		return -EFAULT;
	if (!reader->probed) {
		got = process_vm_readv(reader->pid, &local, 1, &remote, 1, 0);
		if (got == (ssize_t)size)
			return 0;
		if (got >= 0 || errno == EFAULT)
			return -EFAULT;
		reader->probed = true;
		reader_refuse(true);
	}
	return copy_probed(ret_bytes, address, size);
}

int reader_copy_some(struct reader *reader, void *ret_bytes, uint64_t address, size_t least,
		     size_t most)
{
	uint64_t page_end = ((address + least - 1) | (PAGE - 1)) + 1;
	size_t size = page_end - address < most ? page_end - address : most;
	int error = reader_copy(reader, ret_bytes, address, size);

	return error ? error : (int)size;
}
