// SPDX-License-Identifier: MIT
/* Guarded memory is handed to the kernel by functions of the C library: an access that is found, and never a call that fails (guarded.h). */
#include "guarded.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

static char *host;
static int ends[2], file;

static void begin_destination(void)
{
	host = pinned(REGION);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	CHECK(file >= 0);
	CHECK(pwrite(file, "0123456789", 10, 0) == 10);
}

static void end_destination(void)
{
	OK(cuStreamSynchronize(stream));
	CHECK(host[0] == 42 && host[REGION - 4] == 42);
	OK(cuMemFreeHost(host));
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)close(file);
}

#define CALL_CASE(name, call, bytes)                                                               \
	static void name(void)                                                                     \
	{                                                                                          \
		struct iovec vector = {host, 8}, vectors[20];                                      \
		struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};                     \
		struct mmsghdr messages = {.msg_hdr = message};                                    \
		FILE *stdio;                                                                       \
                                                                                                   \
		begin_destination();                                                               \
		stdio = fdopen(dup(file), "r+");                                                   \
		CHECK(stdio);                                                                      \
		(void)setvbuf(stdio, NULL, _IONBF, 0);                                             \
		CHECK(write(ends[1], "12345678abcdefgh", 16) == 16);                               \
		vector.iov_base = host;                                                            \
		messages.msg_hdr = message;                                                        \
		for (int i = 0; i < 20; i++)                                                       \
			vectors[i] = (struct iovec){host + (size_t)i * 16, 8};                     \
		busy_on(stream);                                                                   \
		OK(cuMemcpyDtoHAsync(host, data, REGION, stream));                                 \
		CHECK((call) == (bytes));                                                          \
		(void)message;                                                                     \
		(void)vectors;                                                                     \
		(void)messages;                                                                    \
		end_destination();                                                                 \
		(void)fclose(stdio);                                                               \
	}

/* What fortified programs call: the address goes to guarded memory, the bytes beside it. */
ssize_t __recvfrom_chk(int fd, void *bytes, size_t size, size_t room, int flags,
		       struct sockaddr *from, socklen_t *length);
static char other[8];
static socklen_t address_length = sizeof(struct sockaddr_storage);
#define RECVFROM_CHK                                                                               \
	__recvfrom_chk(ends[0], other, 8, sizeof(other), 0, (struct sockaddr *)host,               \
		       &address_length)

CALL_CASE(do_read, read(ends[0], host, 8), 8)                        /* FOUND: read L01 */
CALL_CASE(do_write, write(file, host, 8), 8)                         /* FOUND: write L01 */
CALL_CASE(do_pread, pread(file, host, 8, 0), 8)                      /* FOUND: pread L01 */
CALL_CASE(do_pwrite, pwrite(file, host, 8, 0), 8)                    /* FOUND: pwrite L01 */
CALL_CASE(do_readv, readv(ends[0], &vector, 1), 8)                   /* FOUND: readv L01 */
CALL_CASE(do_writev, writev(file, &vector, 1), 8)                    /* FOUND: writev L01 */
CALL_CASE(do_preadv, preadv(file, &vector, 1, 0), 8)                 /* FOUND: preadv L01 */
CALL_CASE(do_pwritev, pwritev(file, &vector, 1, 0), 8)               /* FOUND: pwritev L01 */
CALL_CASE(do_many, writev(file, vectors, 20), 160)                   /* FOUND: many L01 */
CALL_CASE(do_recv, recv(ends[0], host, 8, 0), 8)                     /* FOUND: recv L01 */
CALL_CASE(do_send, send(ends[0], host, 8, 0), 8)                     /* FOUND: send L01 */
CALL_CASE(do_recvfrom, recvfrom(ends[0], host, 8, 0, NULL, NULL), 8) /* FOUND: recvfrom L01 */
CALL_CASE(do_recvfrom_chk, RECVFROM_CHK, 8)                      /* FOUND: recvfrom-fortified L01 */
CALL_CASE(do_sendto, sendto(ends[0], host, 8, 0, NULL, 0), 8)    /* FOUND: sendto L01 */
CALL_CASE(do_recvmsg, recvmsg(ends[0], &messages.msg_hdr, 0), 8) /* FOUND: recvmsg L01 */
CALL_CASE(do_sendmsg, sendmsg(ends[0], &messages.msg_hdr, 0), 8) /* FOUND: sendmsg L01 */
CALL_CASE(do_recvmmsg, recvmmsg(ends[0], &messages, 1, 0, NULL), 1) /* FOUND: recvmmsg L01 */
CALL_CASE(do_sendmmsg, sendmmsg(ends[0], &messages, 1, 0), 1)       /* FOUND: sendmmsg L01 */
CALL_CASE(do_fread, (int)fread(host, 1, 8, stdio), 8)               /* FOUND: fread L01 */
CALL_CASE(do_getrandom, getrandom(host, 8, 0), 8)                   /* FOUND: getrandom L01 */
CALL_CASE(do_fwrite, (int)fwrite(host, 1, 8, stdio), 8)             /* FOUND: fwrite L01 */

/* The kernel reads a source: allowed. It writes one: not. */
static void source(void)
{
	begin_destination();
	OK(cuMemcpyDtoH(host, data, REGION));
	busy_on(stream);
	OK(cuMemcpyHtoDAsync(data, host, REGION, stream));
	CHECK(write(file, host, 8) == 8);
	CHECK(pread(file, host + 64, 8, 0) == 8); /* FOUND: source L02 */
	end_destination();
}

/* Beside the copy's bytes, on its pages: nothing to find, and no failure. */
static void beside(void)
{
	begin_destination();
	memset(host, 42, REGION);
	for (int i = 0; i < 50; i++) {
		CHECK(write(ends[1], "12345678", 8) == 8);
		busy_on(stream);
		OK(cuMemcpyDtoHAsync(host + 512, data, 64, stream));
		CHECK(read(ends[0], host + 600, 8) == 8);
		CHECK(pwrite(file, host + 300, 100, 0) == 100);
		OK(cuStreamSynchronize(stream));
	}
	end_destination();
}

static void *write_later(void *argument)
{
	sleep_ms(30);
	CHECK(write(ends[1], "12345678", 8) == 8);
	return argument;
}

static void *read_now(void *argument)
{
	CHECK(read(ends[0], host + 600, 8) == 8);
	return argument;
}

/* A read that blocks in the kernel while its page becomes one that is guarded. */
static void guarded_meanwhile(void)
{
	pthread_t reader, writer;

	begin_destination();
	memset(host, 42, REGION);
	reader = new_thread(read_now, NULL);
	sleep_ms(10);
	writer = new_thread(write_later, NULL);
	for (int i = 0; i < 10; i++) {
		busy_on(stream);
		OK(cuMemcpyDtoHAsync(host, data, 512, stream));
	}
	CHECK(!pthread_join(reader, NULL));
	CHECK(!pthread_join(writer, NULL));
	CHECK(!memcmp(host + 600, "12345678", 8));
	end_destination();
}

/* The page is guarded once such a read is over, from the next driver call on. */
static void guarded_again(void)
{
	pthread_t reader;

	begin_destination();
	memset(host, 42, REGION);
	reader = new_thread(read_now, NULL);
	sleep_ms(10);
	for (int i = 0; i < 10; i++)
		busy_on(stream);
	OK(cuMemcpyDtoHAsync(host, data, 512, stream));
	CHECK(write(ends[1], "12345678", 8) == 8);
	CHECK(!pthread_join(reader, NULL));
	busy_on(second);
	sum += (unsigned int)host[8]; /* FOUND: guarded-again L01 */
	end_destination();
}

/* What is wrong stays wrong. */
static void wrong(void)
{
	void *volatile none = NULL, *volatile low = (void *)16, *volatile high = (void *)-16;

	begin_destination();
	busy_on(stream);
	OK(cuMemcpyDtoHAsync(host, data, REGION, stream));
	CHECK(write(file, low, 8) == -1);
	CHECK(read(file, none, 8) == -1);
	CHECK(readv(ends[0], none, 3) == -1);
	CHECK(write(file, high, 64) == -1);
	end_destination();
}

/* Nothing is looked up when it is first called: a thread may wait for it that has the loader's lock. */
static void while_loading(void)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);

	CHECK(length > 0);
	while (length && path[length - 1] != '/')
		length--;
	strcpy(path + length, "libguard-loading.so");
	(void)alarm(20);
	CHECK(dlopen(path, RTLD_NOW));
}

static const struct guard_case cases[] = {
	{"read", do_read},
	{"write", do_write},
	{"pread", do_pread},
	{"pwrite", do_pwrite},
	{"readv", do_readv},
	{"writev", do_writev},
	{"preadv", do_preadv},
	{"pwritev", do_pwritev},
	{"many", do_many},
	{"recv", do_recv},
	{"send", do_send},
	{"recvfrom", do_recvfrom},
	{"recvfrom-fortified", do_recvfrom_chk},
	{"sendto", do_sendto},
	{"recvmsg", do_recvmsg},
	{"sendmsg", do_sendmsg},
	{"recvmmsg", do_recvmmsg},
	{"sendmmsg", do_sendmmsg},
	{"fread", do_fread},
	{"fwrite", do_fwrite},
	{"source", source},
	{"beside", beside},
	{"guarded-meanwhile", guarded_meanwhile},
	{"guarded-again", guarded_again},
	{"wrong", wrong},
	{"while-loading", while_loading},
	{"getrandom", do_getrandom},
};

CASES(cases)
