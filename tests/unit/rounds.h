/* SPDX-License-Identifier: MIT */
/*
 * How often tests repeat what they do. Under the thread sanitizer it is a tenth: each round costs ten times as much there, and what only many
 * rounds find is found by the builds without it.
 */
#ifndef SLIPSTREAM_TESTS_ROUNDS_H
#define SLIPSTREAM_TESTS_ROUNDS_H

/* gcc says so by a macro, clang by a feature. */
#if defined(__SANITIZE_THREAD__)
#define ROUNDS_SHARE 10
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ROUNDS_SHARE 10
#endif
#endif
#ifndef ROUNDS_SHARE
#define ROUNDS_SHARE 1
#endif

/* Of so many rounds of a normal build those that this one makes, at least one. */
#define ROUNDS(normal) (((normal) + ROUNDS_SHARE - 1) / ROUNDS_SHARE)

#endif
