// SPDX-License-Identifier: MIT
/* A library that waits, while it is loaded, for a thread of its own that sends: the loader's lock is taken meanwhile (kernel.c). */
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void *send_one(void *argument)
{
	struct iovec vector = {(char[]){"x"}, 1};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
	int *ends = argument;

	return sendmsg(ends[0], &message, 0) == 1 ? NULL : argument;
}

__attribute__((constructor)) static void load(void)
{
	pthread_t thread;
	void *failed;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    pthread_create(&thread, NULL, send_one, ends) || pthread_join(thread, &failed) ||
	    failed)
		abort();
	(void)close(ends[0]);
	(void)close(ends[1]);
}
