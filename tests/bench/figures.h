/* SPDX-License-Identifier: MIT
 *
 * Figures of measurements that were taken by turns: medians, quantiles, and the interval of the median of pairs; and the random numbers
 * that the turns are drawn with. Used by copies.c, behind.c, upload.c and stage.c.
 */
#ifndef SLIPSTREAM_BENCH_FIGURES_H
#define SLIPSTREAM_BENCH_FIGURES_H

/* A function that counting tools find by its name: nothing of it may be inlined or copied elsewhere. */
#ifdef __clang__
#define BENCH_ALONE __attribute__((noinline))
#else
#define BENCH_ALONE __attribute__((noinline, noclone))
#endif

#include <stddef.h>
#include <stdint.h>

struct interval {
	double low, middle, high;
};

/* Starts the sequence that figures_draw() gives; the same seed gives the same one. */
void figures_seed(uint64_t seed);
uint64_t figures_draw(void);

/* A random order of the numbers below `count`. */
void figures_shuffle(uint32_t *ret_order, size_t count);

/* What `share` (0 to 1) of the samples are below, between two of them in proportion; they change their places. 0 without samples. */
double figures_quantile(double *samples, size_t count, double share);

/*
 * The median with its 95 % interval, by a bootstrap of the samples: of 400 sets drawn from them, with repeats, 380 have their medians
 * in it. No matter how the samples are distributed; of fewer than three it is all that there is. Leaves the samples as they are.
 */
struct interval figures_median(const double *samples, size_t count);

/* CLOCK_MONOTONIC, ns. */
uint64_t figures_now(void);

#endif
