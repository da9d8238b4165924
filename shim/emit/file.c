// SPDX-License-Identifier: MIT
/*
 * File: where the records lie. Called by emit.c, under its lock. Relies on open, fallocate, mmap.
 *
 * The address range for the whole file is reserved once, without access, and segments are mapped
 * into it as they are needed, so records never move. A page is only ever mapped after fallocate()
 * gave it a block on the disk: storing into a hole of a full file system would be a SIGBUS in the
 * program. Growing past RLIMIT_FSIZE would be a SIGXFSZ, so that limit is asked first.
 *
 * No descriptor is kept open. Programs close descriptors they do not know (daemons, shells), and
 * the number would then be a file of theirs. The file is opened again by name for each segment,
 * and used only if it is still the same one (device and inode).
 */
#include "emit/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "emit/record.h"
#include "uncancelled.h"

/* After a failure to grow, the disk is left alone for this long. */
#define RETRY_NS UINT64_C(1000000000)

/* The first segment comes in pieces: most files never need more, and opening stays cheap. */
#define STEP (UINT64_C(128) << 10)

static struct {
	unsigned char *base; /* start of the reserved range; written at open, read by anyone */
	uint64_t reserved;   /* bytes of address space */
	uint64_t mapped;     /* bytes usable */
	uint64_t cursor;     /* bytes used; read by anyone */
	uint64_t bound;
	uint64_t retry_ns; /* no growth before this */
	bool anonymous;
	dev_t device;
	ino_t inode;
	char path[PATH_MAX];
} file = {.bound = FILE_BOUND};

static uint64_t now_coarse(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Gives the bytes blocks on the disk. */
static int allocate_blocks(int fd, uint64_t offset, uint64_t size)
{
	static const char zeros[4096];
	struct rlimit limit;
	ssize_t written;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    offset + size > limit.rlim_cur)
		return -EFBIG;
	while (uncancelled_fallocate(fd, 0, (off_t)offset, (off_t)size)) {
		if (errno == EINTR)
			continue;
		if (errno != EOPNOTSUPP && errno != ENOSYS)
			return -errno;
		/*
		 * File systems without fallocate (NFSv3, some FUSE): writing has the same effect.
		 */
		while (size > 0) {
			written = uncancelled_pwrite(fd, zeros, sizeof(zeros), (off_t)offset);
			if (written < 0 && errno == EINTR)
				continue;
			if (written != sizeof(zeros))
				return written < 0 ? -errno : -ENOSPC;
			offset += sizeof(zeros);
			size -= sizeof(zeros);
		}
		break;
	}
	return 0;
}

/* Makes the file usable up to `want`, and a little further. */
static int map_more(int fd, uint64_t want)
{
	int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	uint64_t step = want > RECORD_SEGMENT ? RECORD_SEGMENT : STEP;
	uint64_t size = (want + step - 1) / step * step - file.mapped;
	int err;

	if (file.mapped + size > file.reserved || file.mapped + size > file.bound)
		return -EFBIG;
	if (fd >= 0) {
		err = allocate_blocks(fd, file.mapped, size);
		if (err)
			return err;
	}
	if (mmap(file.base + file.mapped, size, PROT_READ | PROT_WRITE, flags, fd,
		 fd < 0 ? 0 : (off_t)file.mapped) == MAP_FAILED)
		return -errno;
	file.mapped += size;
	return 0;
}

static int grow(uint64_t want)
{
	struct stat status;
	int fd, err;

	if (file.anonymous)
		return map_more(-1, want);
	if (file.retry_ns && now_coarse() < file.retry_ns)
		return -EAGAIN;
	err = 0;
	fd = uncancelled_open(file.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK,
			      0);
	if (fd < 0)
		err = -errno;
	else if (fstat(fd, &status))
		err = -errno;
	else if (status.st_dev != file.device || status.st_ino != file.inode)
		err = -ESTALE;
	else
		err = map_more(fd, want);
	if (fd >= 0)
		uncancelled_close(fd);
	file.retry_ns = err ? now_coarse() + RETRY_NS : 0;
	return err;
}

/* The name stays good when the program changes its working directory. */
static int name_file(const char *folder, uint32_t pid, uint64_t start_ns)
{
	size_t used = 0;
	int length;

	if (folder[0] != '/') {
		if (!getcwd(file.path, sizeof(file.path)))
			return -errno;
		used = strlen(file.path);
	}
	length = snprintf(file.path + used, sizeof(file.path) - used, "%s%s/%u-%llu.slip",
			  used ? "/" : "", folder, pid, (unsigned long long)start_ns);
	if (length < 0 || (size_t)length >= sizeof(file.path) - used)
		return -ENAMETOOLONG;
	return 0;
}

static int reserve_range(void)
{
	uint64_t size;
	void *range;

	/* A process with an address-space limit gets a smaller file instead of none. */
	for (size = FILE_BOUND; size >= RECORD_SEGMENT; size /= 2) {
		range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			     0);
		if (range == MAP_FAILED)
			continue;
		file.base = range;
		file.reserved = size;
		return 0;
	}
	return -ENOMEM;
}

/* A process without a descriptor to spare can still leave the empty file that says it was there. */
static void leave_mark(int err)
{
	if ((err == -EMFILE || err == -ENFILE) && mknod(file.path, S_IFREG | 0600, 0)) {
		/* Then the line on stderr is all there is. */
	}
}

int file_open(const char *folder, uint32_t pid, uint64_t start_ns)
{
	struct stat status;
	unsigned char *base;
	int fd = -1;
	int err;

	file.mapped = 0;
	__atomic_store_n(&file.cursor, 0, __ATOMIC_RELAXED);
	file.retry_ns = 0;
	file.anonymous = !folder;
	err = reserve_range();
	if (err)
		return err;
	if (folder) {
		err = name_file(folder, pid, start_ns);
		if (err)
			goto release;
		fd = uncancelled_open(file.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
				      0600);
		if (fd < 0) {
			err = -errno;
			leave_mark(err);
			goto release;
		}
		if (fstat(fd, &status)) {
			err = -errno;
			goto close;
		}
		file.device = status.st_dev;
		file.inode = status.st_ino;
	}
	err = map_more(fd, STEP);
	if (err)
		goto close;
	if (fd >= 0)
		uncancelled_close(fd);
	return 0;

close: /* the file stays: an empty one tells the report that a process is missing */
	if (fd >= 0)
		uncancelled_close(fd);
release:
	base = file.base;
	file.base = NULL;
	munmap(base, file.reserved);
	return err;
}

void *file_base(void)
{
	return file.base;
}

void file_set_bound(uint64_t bytes)
{
	file.bound = bytes;
}

void *file_take(size_t size)
{
	uint64_t left = RECORD_SEGMENT - file.cursor % RECORD_SEGMENT;
	uint64_t start = size > left ? file.cursor + left : file.cursor;
	struct record *record;

	if (!file.base || size < sizeof(*record) || size > RECORD_SEGMENT)
		return NULL;
	if (start + size > file.mapped && grow(start + size))
		return NULL;
	/* Only now: while growth fails, the rest of the segment still takes smaller records. */
	if (start != file.cursor) {
		record = (struct record *)(file.base + file.cursor);
		record->size = (uint32_t)left;
		__atomic_store_n(&record->type, RECORD_PAD, __ATOMIC_RELEASE);
	}
	record = (struct record *)(file.base + start);
	/* Readers of a live file look at the size before they look behind this record. */
	__atomic_store_n(&record->size, (uint32_t)size, __ATOMIC_RELEASE);
	/* Pairs with the acquire load in file_used(): who sees the end sees the sizes up to it. */
	__atomic_store_n(&file.cursor, start + size, __ATOMIC_RELEASE);
	return record;
}

uint64_t file_used(void)
{
	return __atomic_load_n(&file.cursor, __ATOMIC_ACQUIRE);
}

void file_abandon(void)
{
	unsigned char *base = file.base;

	if (!base)
		return;
	/* Fails only where the mapping cannot be split any more; then unmapping fails as well. */
	mmap(base, file.reserved, PROT_READ | PROT_WRITE,
	     MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	file.base = NULL;
}
