// SPDX-License-Identifier: MIT
/*
 * Record reader: one record file (shim/emit/record.h) checked and indexed. The file is hostile:
 * after record_file_read() every record in the lists has the size its type needs, every array in it
 * lies inside it, every string ends with a NUL. Ids that one record uses to name another are NOT
 * checked; the look-ups below answer NULL for an unknown one.
 *
 * The bytes are a snapshot: the file is read, not mapped, so a live writer or a truncation cannot
 * change or unmap them later.
 */
#ifndef SLIPSTREAM_TOOLS_RECORD_READ_H
#define SLIPSTREAM_TOOLS_RECORD_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emit/record.h"

#define RECORD_FILE_MAX     (UINT64_C(1) << 30) /* what lies beyond is not read, and said so */
#define RECORD_FRAMES_MAX   256                 /* of a call site; the library takes 64 at most */
#define RECORD_PROBLEMS_MAX 8                   /* told one by one; the rest is only counted */

struct record_list {
	const struct record **records; /* with ids: sorted by id, no id twice */
	size_t count, capacity;
};

/* What a trace has of the life of a process. Times as in the header. */
struct record_span {
	bool is_known;        /* it is of a trace, and the rest is filled */
	bool is_start_known;  /* else nobody said when the process started */
	bool is_late;         /* it began when the process had waited before */
	bool is_overwritten;  /* what was before it was overwritten */
	bool is_snapshot;     /* it ends at the latest when that was saved */
	bool is_saved;        /* so it does: the process ran on */
	bool has_definitions; /* the last ones are whole: counts, names and candidates are known */
	uint64_t begin_ns, end_ns;
	uint64_t
		whole_ns; /* from here on it has everything; before, what some processors' buffers kept */
	uint64_t gap_ns; /* nothing was recorded for that long in between */
};

struct record_file {
	char *path;
	const char *host; /* of a process of a trace; NULL: a file of this machine. Not owned */
	struct record_span span;
	uint8_t *bytes;
	size_t size;
	const struct record_header *header;

	/* With ids (or numbers). */
	struct record_list strings, functions, rules, modules, sites, candidates, waits, regions,
		remarks;
	/* Without. */
	struct record_list counters, thunks, waited_for, notes, rewrites, rewrite_sites, real_frees;
	/* What the process is inside now, and what that names. */
	struct record_list contexts, streams, clocks, threads, orders, gates, held;

	char *problems[RECORD_PROBLEMS_MAX]; /* one line each, without the path */
	size_t problem_count;                /* all of them */
};

/*
 * 0, or -errno with one line in *reterr_text (the caller frees): it cannot be opened, is no record
 * file, or not of this version. Damage behind a good header is no error: what could be read is
 * there, and problems[] says what could not.
 */
int record_file_read(const char *path, struct record_file **ret_file, char **reterr_text);

/* The same on bytes in memory, which must come from malloc(); they belong to the file from now on,
 * error or not. */
int record_file_parse(const char *path, uint8_t *bytes, size_t size, struct record_file **ret_file,
		      char **reterr_text);
struct record_file *record_file_free(struct record_file *file);

/* Is it a name as the library gives its record files (shim/emit/file.c)? */
bool record_file_is_named(const char *name);

const char *record_string_text(const struct record_file *file, uint32_t id); /* NULL unknown */
const struct record *record_find(const struct record_list *list, uint32_t id);

static inline const struct record_frame *record_site_frames(const struct record_site *site)
{
	return (const struct record_frame *)(site + 1);
}

static inline const struct record_python_frame *
record_site_python_frames(const struct record_site *site)
{
	return (const struct record_python_frame *)(record_site_frames(site) + site->frames);
}

#endif
