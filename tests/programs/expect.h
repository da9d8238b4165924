/* SPDX-License-Identifier: MIT */
/*
 * What test programs expect of a condition, and what has to succeed: a line on stderr says where it is not so. The program defines `failures` and
 * makes its exit status of it. One that has threads or children of its own to leave behind, or another status, says how OK() ends it: EXPECT_END
 * before this is included.
 */
#ifndef TESTS_PROGRAMS_EXPECT_H
#define TESTS_PROGRAMS_EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#ifndef EXPECT_END
#define EXPECT_END exit(1)
#endif

extern int failures; /* atomic: threads add to it */

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
			EXPECT_END;                                                                \
		}                                                                                  \
	} while (0)

#endif
