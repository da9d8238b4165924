// SPDX-License-Identifier: MIT
/*
 * What a probe costs by the instruction it sits on: the same empty function behind each kind of first instruction. As a
 * library that looks like a driver, and as the program that calls it:
 *
 *     watch-sites COUNT          nanoseconds for a call of each kind, one line each
 */
#ifdef SITES_LIBRARY

#define SITE(name, code)                                                                           \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" code           \
		"\txor %eax, %eax\n\tret\n.size " #name ", . - " #name "\n")

SITE(cuCtxSynchronize, "\tpush %rbx\n\tpop %rbx\n");
SITE(cuMemFree_v2, "\tpush %r12\n\tpop %r12\n");
SITE(cuMemFreeHost, "\tendbr64\n\tpush %rbx\n\tpop %rbx\n");
SITE(cuEventSynchronize, "\tnop\n");
SITE(cuStreamSynchronize, "\t.byte 0x0f, 0x1f, 0x44, 0, 0\n");
SITE(cuMemAlloc_v2, "\tjmp 1f\n1:");
SITE(cuMemHostAlloc, "\tsub $8, %rsp\n\tadd $8, %rsp\n");
SITE(cuModuleUnload, "\tlea 8(%rdi), %rdx\n");
SITE(cuArrayDestroy, "\tendbr64\n\tmov %rsp, %r11\n");

#else

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EACH(X)                                                                                    \
	X(cuCtxSynchronize, "push")                                                                \
	X(cuMemFree_v2, "push of an upper register")                                               \
	X(cuMemFreeHost, "landing pad, push")                                                      \
	X(cuEventSynchronize, "nop of 1 byte")                                                     \
	X(cuStreamSynchronize, "nop of 5 bytes")                                                   \
	X(cuMemAlloc_v2, "jump")                                                                   \
	X(cuMemHostAlloc, "sub from the stack pointer (stepped)")                                  \
	X(cuModuleUnload, "lea (stepped)")                                                         \
	X(cuArrayDestroy, "landing pad, mov (stepped)")

#define DECLARE(name, what) int name(void);
EACH(DECLARE)

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The least of five runs: what others took from the processor is not meant. */
static double measure(int (*function)(void), int count)
{
	double least = 1e18;

	for (int run = 0; run < 5; run++) {
		uint64_t begin = now_ns();

		for (int i = 0; i < count / 5; i++)
			function();
		if ((double)(now_ns() - begin) / (count / 5) < least)
			least = (double)(now_ns() - begin) / (count / 5);
	}
	return least;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 100000;

#define MEASURE(name, what) printf("%8.0f %s %s\n", measure(name, count), #name, what);
	EACH(MEASURE)
	return 0;
}

#endif
