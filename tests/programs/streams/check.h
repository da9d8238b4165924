/* SPDX-License-Identifier: MIT */
/*
 * What a case expects, what has to succeed, and what it says: stdout, compared with what it is without the rewrite.
 */
#ifndef STREAMS_CHECK_H
#define STREAMS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

extern int failures;

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                        \
		}                                                                                  \
	} while (0)

#define OK(call)                                                                                   \
	do {                                                                                       \
		CUresult status_ = (call);                                                         \
		if (status_ != CUDA_SUCCESS) {                                                     \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call,              \
				(int)status_);                                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* A status that is compared with what it is without the rewrite. */
#define SAY(call) printf("%d: %s: %d\n", __LINE__, #call, (int)(call))

#endif
