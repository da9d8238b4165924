// SPDX-License-Identifier: MIT
/*
 * Consumers: the table of analyses that write a file, by name. A new one is a line in consumers.c; to
 * be a component sink.slipstream.NAME it has its methods in components.c and plugin.c, and to be an
 * option --NAME of `slipstream report` a row in tools/report_select.c and an add_file() in analyze.c.
 */
#ifndef SLIPSTREAM_TRACING_CONSUMERS_H
#define SLIPSTREAM_TRACING_CONSUMERS_H

#include "tracing/analysis/sink.h"

struct consumer_type {
	const char *name;
	/*
	 * `path`: the file to write, checked here so that an unwritable one is an error before the
	 * trace is read. 0, or -errno with one line in *reterr_text (the caller frees).
	 */
	int (*create)(const char *path, struct consumer *ret_consumer, char **reterr_text);
};

extern const struct consumer_type consumer_types[]; /* ends with a NULL name */

/* By name; also -ENOENT: this build has no such consumer. */
int consumer_create(const char *name, const char *path, struct consumer *ret_consumer,
		    char **reterr_text);

#endif
