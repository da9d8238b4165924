/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * What the watch tells apart, and how much it keeps: the numbers that the kernel's part writes into its records and that
 * everybody else reads. Included by watch.bpf.c and by watch.h; needs nothing else.
 */
#ifndef SLIPSTREAM_WATCH_KINDS_H
#define SLIPSTREAM_WATCH_KINDS_H

enum {
	WATCH_FRAMES = 16, /* of a stack, at most */
	WATCH_DEPTH = 6,   /* watched calls inside each other in one thread, at most */
};

enum watch_stream_class {
	WATCH_STREAM_NONE = 0, /* no stream argument, or of the whole context */
	WATCH_STREAM_LEGACY, /* handle 0 of a plain name, 0x1 of any, a copy without stream argument */
	WATCH_STREAM_PER_THREAD, /* handle 0 of a _ptsz or _ptds name, 0x2 of any */
	WATCH_STREAM_OTHER,
};

enum watch_direction {
	WATCH_DIRECTION_NONE = 0, /* no copy */
	WATCH_H2D,
	WATCH_D2H,
	WATCH_D2D,
	WATCH_H2H,
	WATCH_UNKNOWN, /* a copy of addresses that say nothing: cuMemcpy */
};

/* Why a thread was off its processor. The first four are told by the system call it slept in. */
enum watch_how {
	WATCH_FUTEX = 0,
	WATCH_POLL,      /* poll, select, epoll and their forms */
	WATCH_IOCTL,     /* the kernel driver itself made it sleep */
	WATCH_YIELD,     /* gave the processor up in sched_yield */
	WATCH_PREEMPTED, /* was ready to run: the scheduler's doing, not the device's */
	WATCH_OTHER,     /* another system call, or a page fault */
	WATCH_HOWS,
};

/* Operands that lie in a structure to which an argument points. */
enum watch_structure {
	WATCH_STRUCTURE_NONE = 0,
	WATCH_STRUCTURE_2D, /* CUDA_MEMCPY2D */
	WATCH_STRUCTURE_3D, /* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER: alike as far as is read */
};

#endif
