/* SPDX-License-Identifier: MIT */
/*
 * Uncancelled: calls of the system that are places in the C library where a thread can be cancelled. In the shim that would leave a lock held or half of something
 * done, and other threads would wait for ever. Made by the kernel alone they are none; who can get by without such a call of the C library uses these instead
 * (tests/unit/layout/test_uncancelled.py looks for what the library still has). As the C library's they set errno and return -1.
 *
 * Where the driver is called with a lock held, or between two halves of something, it may have such places itself: uncancelled_begin() keeps the thread
 * until uncancelled_end(); then it is cancelled at its next one. Any thread.
 */
#ifndef SLIPSTREAM_UNCANCELLED_H
#define SLIPSTREAM_UNCANCELLED_H

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static inline int uncancelled_open(const char *path, int flags, mode_t mode)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static inline void uncancelled_close(int file)
{
	syscall(SYS_close, file);
}

static inline ssize_t uncancelled_read(int file, void *ret_bytes, size_t size)
{
	return syscall(SYS_read, file, ret_bytes, size);
}

static inline ssize_t uncancelled_write(int file, const void *bytes, size_t size)
{
	return syscall(SYS_write, file, bytes, size);
}

static inline ssize_t uncancelled_pwrite(int file, const void *bytes, size_t size, off_t offset)
{
	return syscall(SYS_pwrite64, file, bytes, size, offset);
}

static inline int uncancelled_fallocate(int file, int mode, off_t offset, off_t size)
{
	return (int)syscall(SYS_fallocate, file, mode, offset, size);
}

/* Less than a second. */
static inline void uncancelled_nap(uint64_t ns)
{
	const struct timespec pause = {.tv_nsec = (long)ns};

	syscall(SYS_nanosleep, &pause, NULL);
}

static inline int uncancelled_begin(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void uncancelled_end(int before)
{
	int own;

	pthread_setcancelstate(before, &own);
}

#endif
