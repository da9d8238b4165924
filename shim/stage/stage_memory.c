// SPDX-License-Identifier: MIT
/*
 * Stage memory (stage_memory.h).
 *
 * Populating costs about 0.1 to 0.3 us for each page of 4 KiB even if it is there, which is much of what it takes to copy it (0.4 us); asking
 * mincore() about 128 KiB takes 0.6 us. But mincore() says nothing of permissions, so these are looked up first, by PROCMAP_QUERY, which
 * tells of one mapping at a time. Mappings of files are populated always: a page behind their end is a fault, and mincore() need not tell
 * the truth about them.
 */
#include "stage/stage_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uncancelled.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE      4096
#define PAGES_MAX 1025 /* 4 MiB that begin within a page */
/* Up to so many a probe each is quicker than populating them (2-core VM: 0.14 us a page against 0.6 and 0.12 a page). */
#define PROBED_MAX 4
/* Mappings that are looked at; more are populated piecewise. */
#define MAPPINGS_MAX 64

/* linux/fs.h of Linux 6.11. */
struct mapping_query {
	uint64_t size, flags, address;
	uint64_t start, end, mapping_flags, page_size, offset, inode;
	uint32_t device_major, device_minor, name_size, build_id_size;
	uint64_t name, build_id;
};
#define MAPPING_QUERY    _IOWR('f', 17, struct mapping_query)
#define MAPPING_READABLE 0x01
#define MAPPING_WRITABLE 0x02
#define MAPPING_SHARED   0x08

static bool no_mappings, no_populate;

void stage_memory_forget(bool mappings, bool populate)
{
	no_mappings = mappings;
	no_populate = populate;
}

static enum stage_memory look(int fd, uintptr_t first, uintptr_t end, bool write)
{
	enum stage_memory kind = STAGE_MEMORY_PRIVATE;
	uint64_t needed = write ? MAPPING_WRITABLE : MAPPING_READABLE;
	unsigned int i;

	for (i = 0; first < end; i++) {
		struct mapping_query query = {.size = sizeof(query), .address = first};

		if (i == MAPPINGS_MAX)
			return STAGE_MEMORY_ASK;
		if (ioctl(fd, MAPPING_QUERY, &query) != 0)
			return errno == ENOENT ? STAGE_MEMORY_BAD : STAGE_MEMORY_ASK;
		if (!(query.mapping_flags & needed))
			return STAGE_MEMORY_BAD;
		if (query.inode || query.mapping_flags & MAPPING_SHARED)
			kind = STAGE_MEMORY_ASK;
		if (query.end <= first)
			return STAGE_MEMORY_ASK;
		first = query.end;
	}
	return kind;
}

enum stage_memory stage_memory_look(uintptr_t first, uintptr_t end, bool write)
{
	enum stage_memory kind;
	int saved = errno, fd;

	if (no_mappings)
		return STAGE_MEMORY_ASK;
	fd = uncancelled_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		errno = saved;
		return STAGE_MEMORY_ASK;
	}
	kind = look(fd, first, end, write);
	uncancelled_close(fd);
	errno = saved;
	return kind;
}

bool stage_memory_is_there(uintptr_t first, uintptr_t end)
{
	unsigned char there[PAGES_MAX];
	size_t pages, i;
	int saved = errno;
	bool all;

	first &= ~(uintptr_t)(PAGE - 1);
	pages = (end - first + PAGE - 1) / PAGE;
	all = pages <= PAGES_MAX && mincore((void *)first, end - first, there) == 0;
	errno = saved;
	for (i = 0; all && i < pages; i++)
		all = there[i] & 1;
	return all;
}

bool stage_memory_populate(uintptr_t first, uintptr_t end, bool write)
{
	int saved = errno, result;

	if (no_populate)
		return false;
	first &= ~(uintptr_t)(PAGE - 1);
	end = (end + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	do
		result = madvise((void *)first, end - first,
				 write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	while (result != 0 && (errno == EINTR || errno == EAGAIN));
	errno = saved;
	return result == 0;
}

/*
 * rt_sigprocmask() with a `how` that does not exist copies the set in before it says EINVAL: so the kernel reads the page, has it mapped if
 * that can be, and changes nothing (as sync/reader.c).
 */
static bool probe(uintptr_t page)
{
	return syscall(SYS_rt_sigprocmask, ~0, page, NULL, 8) == -1 && errno == EINVAL;
}

bool stage_memory_is_readable(uintptr_t first, uintptr_t end)
{
	int saved = errno;
	bool readable = true;

	first &= ~(uintptr_t)(PAGE - 1);
	if (end - first > PROBED_MAX * PAGE)
		return !stage_memory_can_populate() || stage_memory_populate(first, end, false);
	for (; readable && first < end; first += PAGE)
		readable = probe(first);
	errno = saved;
	return readable;
}

bool stage_memory_can_populate(void)
{
	enum { UNKNOWN, YES, NO };
	static uint32_t can;
	uint32_t known = __atomic_load_n(&can, __ATOMIC_RELAXED);
	char here;

	if (known == UNKNOWN) {
		known = stage_memory_populate((uintptr_t)&here, (uintptr_t)&here + 1, false) ? YES
											     : NO;
		if (!no_populate)
			__atomic_store_n(&can, known, __ATOMIC_RELAXED);
	}
	return known == YES && !no_populate;
}
