// SPDX-License-Identifier: MIT
/*
 * Tracing parts: what of LTTng is on this machine, and whether the parts fit each other. Asked by
 * trace before it starts anything, and by the doctor.
 */
#ifndef SLIPSTREAM_TOOLS_TRACING_PARTS_H
#define SLIPSTREAM_TOOLS_TRACING_PARTS_H

#include <stdint.h>

struct tracing_parts {
	char *sessiond, *relayd; /* paths; NULL: not found */
	char *consumerd;         /* path that the session daemon starts; NULL: unknown */
	char *sessiond_version;  /* "2.13.9"; NULL: unknown */
	char *sessiond_socket; /* "8": programs whose LTTng-UST has another number are not heard */
	char *provider;        /* path of libslipstream-lttng.so; NULL: not built */
	char *provider_error;  /* one line why it does not load here; NULL: it does */
	char *ust; /* path of the LTTng-UST that it (or, if it fails, a program) loads; NULL: unknown */
	char *ust_socket; /* as sessiond_socket; NULL: unknown */
};

void tracing_parts_find(struct tracing_parts *ret_parts);
void tracing_parts_done(struct tracing_parts *parts);

/* For how many processors LTTng makes buffers: all that the machine could have, absent ones too. */
uint64_t tracing_parts_processors(void);

/* One line why no trace can be made, packages included; NULL: it can. The caller frees. */
char *tracing_parts_missing(const struct tracing_parts *parts);
/* Of that, the daemons: what is not there, and whether they fit the programs. */
char *tracing_parts_missing_daemons(const struct tracing_parts *parts);
/* Without a private session daemon, only what the program needs. */
char *tracing_parts_missing_provider(const struct tracing_parts *parts);

#endif
