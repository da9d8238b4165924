// SPDX-License-Identifier: MIT
/*
 * Call sites in words, for the timeline and the page: the same place in all processes is one site, its
 * frames get names and lines from the files on this machine. One thread.
 */
#ifndef SLIPSTREAM_TRACING_TIMELINE_SITES_H
#define SLIPSTREAM_TRACING_TIMELINE_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracing/analysis/model.h"

/* One native frame, innermost first; an inlined function has one of its own, before its caller's. */
struct site_frame {
	char *function;     /* NULL unknown */
	char *file;         /* NULL unknown */
	uint32_t line;      /* 0 unknown */
	const char *module; /* path; NULL: none known. The model's */
	uint64_t offset;    /* in the module; the absolute address if it has none */
	bool inlined;
};

struct site_python_frame {
	const char *file, *function; /* NULL unknown. The model's */
	int32_t line;                /* 0 unknown */
};

struct site {
	uint64_t hash;   /* of its content: the same in every process; never 0 */
	uint32_t number; /* from 0, by appearance */
	char *label;     /* one line as text_printable() makes it; NULL before sites_symbolize() */
	struct site_frame *frames;
	size_t frame_count;
	struct site_python_frame *python;
	size_t python_count;
	/* Where it was first seen, to symbolize it. */
	uint32_t process, id;
};

struct sites;

struct sites *sites_new(void);
struct sites *sites_free(struct sites *sites);

/*
 * The site of this id in the process; NULL: id 0, or its definition is not complete (yet). It lives as
 * long as `sites`, and points into the model.
 */
struct site *sites_find(struct sites *sites, const struct model *model, uint32_t process,
			uint32_t id);

size_t sites_count(const struct sites *sites);
struct site *sites_at(const struct sites *sites, size_t number);

/*
 * Gives the site frames and a label. Opens the modules' files when `with_symbols`; else native frames
 * stay module and offset. A second call does nothing. What many sites share is looked up once if they
 * were all found before the first call.
 */
void sites_symbolize(struct sites *sites, const struct model *model, struct site *site,
		     bool with_symbols);

#endif
