// SPDX-License-Identifier: MIT
/*
 * A library that looks like a driver to the watch: functions that wait in each of the ways a thread
 * can wait, that call each other, and that are left without a return. What cuStreamSynchronize does is
 * told by the handle; 0 to 2: nothing.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "waits.h"

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void futex_wait(uint64_t ns)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += (long)ns;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&mutex);
	while (pthread_cond_timedwait(&condition, &mutex, &end) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&mutex);
}

int cuStreamSynchronize(void *stream)
{
	uint64_t end = now_ns() + WAIT_NS;
	int pipe_ends[2], left;
	struct pollfd poll_end;

	switch ((uintptr_t)stream) {
	case WAIT_SPIN:
		while (now_ns() < end)
			;
		break;
	case WAIT_YIELD:
		while (now_ns() < end)
			sched_yield();
		break;
	case WAIT_POLL:
		if (pipe(pipe_ends))
			return 1;
		poll_end = (struct pollfd){pipe_ends[0], POLLIN, 0};
		poll(&poll_end, 1, WAIT_NS / 1000000);
		close(pipe_ends[0]);
		close(pipe_ends[1]);
		break;
	case WAIT_FUTEX:
		futex_wait(WAIT_NS);
		break;
	case WAIT_IOCTL:
		while (now_ns() < end)
			ioctl(0, FIONREAD, &left);
		break;
	case WAIT_SLEEP:
		usleep(WAIT_NS / 1000);
		break;
	case WAIT_FOREVER:
		pause();
		break;
	default:
		break;
	}
	return 0;
}

int cuStreamSynchronize_ptsz(void *stream)
{
	return stream != NULL;
}

/* Waits inside, by its own exported function. */
int cuMemcpyHtoD_v2(uint64_t destination, const void *source, size_t bytes)
{
	return cuStreamSynchronize((void *)WAIT_SLEEP) + (int)(destination & 0) + (source == NULL) +
	       (bytes == 0);
}

int cuMemcpyDtoHAsync_v2(void *destination, uint64_t source, size_t bytes, void *stream)
{
	return destination == NULL && source == 0 && bytes == 0 && stream == NULL;
}

int cuMemcpyHtoD(unsigned int destination, const void *source, unsigned int bytes)
{
	return source == NULL && destination == 0 && bytes == 0;
}

int cuMemcpy2D_v2(const void *copy)
{
	return copy == NULL;
}

int cuMemcpy3D_v2_ptds(const void *copy)
{
	return copy == NULL;
}

int cuMemcpyBatchAsync_ptsz(void *a, void *b, void *c, size_t d, void *e, void *f, size_t g,
			    void *h, void *stream)
{
	return a && b && c && d && e && f && g && h && stream;
}

int cuMemsetD2D32_v2(uint64_t destination, size_t pitch, unsigned int value, size_t width,
		     size_t height)
{
	return destination && pitch && value && width && height;
}

/* Left by longjmp. */
int cuCtxSynchronize(void)
{
	if (watch_test_jump)
		longjmp(*watch_test_jump, 1);
	return 0;
}

/* Calls itself, as deep as told. */
int cuMemFree_v2(uint64_t depth)
{
	return depth > 1 ? cuMemFree_v2(depth - 1) + 1 : 1;
}

static int hidden(void *stream)
{
	return cuStreamSynchronize(stream) + 1;
}

/* A function without a symbol, as export tables hand them out. */
int cuGetExportTable(const void **table, const void *id)
{
	static int (*const functions[])(void *) = {hidden};

	*table = (const void *)functions;
	return id == NULL;
}

jmp_buf *watch_test_jump;
