// SPDX-License-Identifier: MIT
/*
 * Facts of a driver that are no table of calls: NULL-stream order, capture statuses, look-up rules,
 * wrong arguments.
 */
#ifndef SLIPSTREAM_CALIBRATE_FACTS_H
#define SLIPSTREAM_CALIBRATE_FACTS_H

struct bench;

struct fact_group {
	const char *name;
	/* Prints `fact NAME VALUE` lines to stdout. Runs in a process of its own on a fresh bench.
	 * 0 or -EIO. */
	int (*run)(struct bench *bench);
};

/* The last has a NULL name. */
extern const struct fact_group fact_groups[];

#endif
