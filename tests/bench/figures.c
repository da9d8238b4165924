// SPDX-License-Identifier: MIT
/*
 * Figures (figures.h). One thread.
 */
#include "figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SETS 400

static uint64_t state = 1;

void figures_seed(uint64_t seed)
{
	/* 0 would stay 0. */
	state = seed ^ UINT64_C(0x9e3779b97f4a7c15);
	if (!state)
		state = 1;
}

uint64_t figures_draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 16;
}

void figures_shuffle(uint32_t *ret_order, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t other = figures_draw() % (i + 1);

		ret_order[i] = ret_order[other];
		ret_order[other] = (uint32_t)i;
	}
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

double figures_quantile(double *samples, size_t count, double share)
{
	size_t below, above;
	double at;

	if (!count)
		return 0;
	qsort(samples, count, sizeof(*samples), compare);
	at = share * (double)(count - 1);
	below = (size_t)at;
	above = below + 1 < count ? below + 1 : below;
	return samples[below] + (at - (double)below) * (samples[above] - samples[below]);
}

static double *memory(size_t count)
{
	double *samples = malloc(count * sizeof(*samples));

	if (!samples) {
		fprintf(stderr, "no memory for %zu samples\n", count);
		exit(1);
	}
	return samples;
}

/* The sample at a rank of a drawn set: how often each place of the sorted samples was drawn is known. */
static double at_rank(const double *sorted, const uint32_t *drawn, size_t rank)
{
	size_t below = 0, place = 0;

	while ((below += drawn[place]) <= rank)
		place++;
	return sorted[place];
}

struct interval figures_median(const double *samples, size_t count)
{
	struct interval interval = {0, 0, 0};
	double *sorted, medians[SETS];
	uint32_t *drawn;

	if (!count)
		return interval;
	sorted = memory(count);
	memcpy(sorted, samples, count * sizeof(*sorted));
	interval.middle = figures_quantile(sorted, count, 0.5);
	interval.low = sorted[0];
	interval.high = sorted[count - 1];
	drawn = calloc(count, sizeof(*drawn));
	if (drawn && count >= 3) {
		for (int set = 0; set < SETS; set++) {
			memset(drawn, 0, count * sizeof(*drawn));
			for (size_t i = 0; i < count; i++)
				drawn[figures_draw() % count]++;
			medians[set] = (at_rank(sorted, drawn, (count - 1) / 2) +
					at_rank(sorted, drawn, count / 2)) /
				       2;
		}
		interval.low = figures_quantile(medians, SETS, 0.025);
		interval.high = figures_quantile(medians, SETS, 0.975);
	}
	free(drawn);
	free(sorted);
	return interval;
}

uint64_t figures_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}
