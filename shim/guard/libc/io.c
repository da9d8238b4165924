// SPDX-License-Identifier: MIT
/*
 * Libc, input and output: functions that hand the program's memory to the kernel (libc.h). What the kernel writes is a write of the program's,
 * what it reads a read.
 */
#include "guard/libc/libc.h"

#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* Some headers have macros of these names. */
#undef fread_unlocked
#undef fwrite_unlocked

/* One buffer. */
#define ONE(type, name, parameters, arguments, bytes, size, access)                                \
	LIBC_EXPORT type name parameters                                                           \
	{                                                                                          \
		const struct guard_hooks *hooks = libc_hooks();                                    \
                                                                                                   \
		if (__builtin_expect(!hooks, 1))                                                   \
			return LIBC_REAL(name) arguments;                                          \
		{                                                                                  \
			LIBC_SPAN(span);                                                           \
                                                                                                   \
			hooks->begin(&span, bytes, size, access, LIBC_HERE());                     \
			return LIBC_REAL(name) arguments;                                          \
		}                                                                                  \
	}

/* Several. */
#define MANY(type, name, parameters, arguments, tell)                                              \
	LIBC_EXPORT type name parameters                                                           \
	{                                                                                          \
		const struct guard_hooks *hooks = libc_hooks();                                    \
                                                                                                   \
		if (__builtin_expect(!hooks, 1))                                                   \
			return LIBC_REAL(name) arguments;                                          \
		{                                                                                  \
			LIBC_SPAN(span);                                                           \
                                                                                                   \
			tell;                                                                      \
			return LIBC_REAL(name) arguments;                                          \
		}                                                                                  \
	}

/* The limit of the kernel is 1024; what is wrong it refuses itself. */
static void begin_vector(const struct guard_hooks *hooks, struct guard_span *span,
			 const struct iovec *vector, size_t count, enum guard_access access,
			 const void *here)
{
	size_t i;

	if (!vector || !count || count > 1024)
		return;
	hooks->begin(span, vector, count * sizeof(*vector), GUARD_READS, here);
	for (i = 0; i < count; i++)
		hooks->begin(span, vector[i].iov_base, vector[i].iov_len, access, here);
}

static void begin_message(const struct guard_hooks *hooks, struct guard_span *span,
			  const struct msghdr *message, enum guard_access access, const void *here)
{
	if (!message)
		return;
	hooks->begin(span, message, sizeof(*message), access, here);
	hooks->begin(span, message->msg_name, message->msg_namelen, access, here);
	hooks->begin(span, message->msg_control, message->msg_controllen, access, here);
	begin_vector(hooks, span, message->msg_iov, message->msg_iovlen, access, here);
}

static void begin_messages(const struct guard_hooks *hooks, struct guard_span *span,
			   struct mmsghdr *messages, unsigned int count, enum guard_access access,
			   const void *here)
{
	unsigned int i;

	if (!messages || count > 1024)
		return;
	hooks->begin(span, messages, count * sizeof(*messages), access, here);
	for (i = 0; i < count; i++)
		begin_message(hooks, span, &messages[i].msg_hdr, access, here);
}

#define VECTOR(access)                                                                             \
	begin_vector(hooks, &span, iov, (size_t)(iovcnt < 0 ? 0 : iovcnt), access, LIBC_HERE())
/* Of recvfrom(). */
#define BUFFER_AND_ADDRESS                                                                         \
	do {                                                                                       \
		hooks->begin(&span, buf, n, GUARD_WRITES, LIBC_HERE());                            \
		if (from && length)                                                                \
			hooks->begin(&span, from, *length, GUARD_WRITES, LIBC_HERE());             \
		hooks->begin(&span, length, length ? sizeof(*length) : 0, GUARD_WRITES,            \
			     LIBC_HERE());                                                         \
	} while (0)
#define MESSAGE(access) begin_message(hooks, &span, message, access, LIBC_HERE())

ONE(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n), buf, n, GUARD_WRITES)
ONE(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n), buf, n, GUARD_READS)
ONE(ssize_t, pread, (int fd, void *buf, size_t n, off_t at), (fd, buf, n, at), buf, n, GUARD_WRITES)
ONE(ssize_t, pread64, (int fd, void *buf, size_t n, off64_t at), (fd, buf, n, at), buf, n,
    GUARD_WRITES)
ONE(ssize_t, pwrite, (int fd, const void *buf, size_t n, off_t at), (fd, buf, n, at), buf, n,
    GUARD_READS)
ONE(ssize_t, pwrite64, (int fd, const void *buf, size_t n, off64_t at), (fd, buf, n, at), buf, n,
    GUARD_READS)
ONE(ssize_t, recv, (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags), buf, n,
    GUARD_WRITES)
ONE(ssize_t, send, (int fd, const void *buf, size_t n, int flags), (fd, buf, n, flags), buf, n,
    GUARD_READS)
ONE(ssize_t, getrandom, (void *buf, size_t n, unsigned int flags), (buf, n, flags), buf, n,
    GUARD_WRITES)

MANY(ssize_t, recvfrom,
     (int fd, void *restrict buf, size_t n, int flags, struct sockaddr *restrict from,
      socklen_t *restrict length),
     (fd, buf, n, flags, from, length), BUFFER_AND_ADDRESS)
MANY(ssize_t, sendto,
     (int fd, const void *buf, size_t n, int flags, const struct sockaddr *to, socklen_t length),
     (fd, buf, n, flags, to, length), {
	     hooks->begin(&span, buf, n, GUARD_READS, LIBC_HERE());
	     hooks->begin(&span, to, to ? length : 0, GUARD_READS, LIBC_HERE());
     })

MANY(ssize_t, readv, (int fd, const struct iovec *iov, int iovcnt), (fd, iov, iovcnt),
     VECTOR(GUARD_WRITES))
MANY(ssize_t, writev, (int fd, const struct iovec *iov, int iovcnt), (fd, iov, iovcnt),
     VECTOR(GUARD_READS))
MANY(ssize_t, preadv, (int fd, const struct iovec *iov, int iovcnt, off_t at),
     (fd, iov, iovcnt, at), VECTOR(GUARD_WRITES))
MANY(ssize_t, preadv64, (int fd, const struct iovec *iov, int iovcnt, off64_t at),
     (fd, iov, iovcnt, at), VECTOR(GUARD_WRITES))
MANY(ssize_t, pwritev, (int fd, const struct iovec *iov, int iovcnt, off_t at),
     (fd, iov, iovcnt, at), VECTOR(GUARD_READS))
MANY(ssize_t, pwritev64, (int fd, const struct iovec *iov, int iovcnt, off64_t at),
     (fd, iov, iovcnt, at), VECTOR(GUARD_READS))
MANY(ssize_t, preadv2, (int fd, const struct iovec *iov, int iovcnt, off_t at, int flags),
     (fd, iov, iovcnt, at, flags), VECTOR(GUARD_WRITES))
MANY(ssize_t, preadv64v2, (int fd, const struct iovec *iov, int iovcnt, off64_t at, int flags),
     (fd, iov, iovcnt, at, flags), VECTOR(GUARD_WRITES))
MANY(ssize_t, pwritev2, (int fd, const struct iovec *iov, int iovcnt, off_t at, int flags),
     (fd, iov, iovcnt, at, flags), VECTOR(GUARD_READS))
MANY(ssize_t, pwritev64v2, (int fd, const struct iovec *iov, int iovcnt, off64_t at, int flags),
     (fd, iov, iovcnt, at, flags), VECTOR(GUARD_READS))
MANY(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags),
     MESSAGE(GUARD_WRITES))
MANY(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags),
     MESSAGE(GUARD_READS))
MANY(int, recvmmsg,
     (int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout),
     (fd, messages, count, flags, timeout),
     begin_messages(hooks, &span, messages, count, GUARD_WRITES, LIBC_HERE()))
MANY(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned int count, int flags),
     (fd, messages, count, flags),
     begin_messages(hooks, &span, messages, count, GUARD_READS, LIBC_HERE()))

/* Large ones go past the stream's own buffer. */
ONE(size_t, fread, (void *restrict buf, size_t size, size_t n, FILE *restrict stream),
    (buf, size, n, stream), buf, size *n, GUARD_WRITES)
ONE(size_t, fread_unlocked, (void *restrict buf, size_t size, size_t n, FILE *restrict stream),
    (buf, size, n, stream), buf, size *n, GUARD_WRITES)
ONE(size_t, fwrite, (const void *restrict buf, size_t size, size_t n, FILE *restrict stream),
    (buf, size, n, stream), buf, size *n, GUARD_READS)
ONE(size_t, fwrite_unlocked,
    (const void *restrict buf, size_t size, size_t n, FILE *restrict stream),
    (buf, size, n, stream), buf, size *n, GUARD_READS)

/* What -D_FORTIFY_SOURCE calls in their place. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *restrict buf, size_t n, size_t room, int flags,
		       struct sockaddr *restrict from, socklen_t *restrict length);
size_t __fread_chk(void *restrict buf, size_t room, size_t size, size_t n, FILE *restrict stream);
size_t __fread_unlocked_chk(void *restrict buf, size_t room, size_t size, size_t n,
			    FILE *restrict stream);

ONE(ssize_t, __read_chk, (int fd, void *buf, size_t n, size_t room), (fd, buf, n, room), buf, n,
    GUARD_WRITES)
ONE(ssize_t, __pread_chk, (int fd, void *buf, size_t n, off_t at, size_t room),
    (fd, buf, n, at, room), buf, n, GUARD_WRITES)
ONE(ssize_t, __pread64_chk, (int fd, void *buf, size_t n, off64_t at, size_t room),
    (fd, buf, n, at, room), buf, n, GUARD_WRITES)
ONE(ssize_t, __recv_chk, (int fd, void *buf, size_t n, size_t room, int flags),
    (fd, buf, n, room, flags), buf, n, GUARD_WRITES)
MANY(ssize_t, __recvfrom_chk,
     (int fd, void *restrict buf, size_t n, size_t room, int flags, struct sockaddr *restrict from,
      socklen_t *restrict length),
     (fd, buf, n, room, flags, from, length), BUFFER_AND_ADDRESS)
ONE(size_t, __fread_chk,
    (void *restrict buf, size_t room, size_t size, size_t n, FILE *restrict stream),
    (buf, room, size, n, stream), buf, size *n, GUARD_WRITES)
ONE(size_t, __fread_unlocked_chk,
    (void *restrict buf, size_t room, size_t size, size_t n, FILE *restrict stream),
    (buf, room, size, n, stream), buf, size *n, GUARD_WRITES)
