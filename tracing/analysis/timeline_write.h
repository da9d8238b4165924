// SPDX-License-Identifier: MIT
/*
 * Timeline, output: events of the Chrome trace format, each one line, streamed. Names are raw text of the
 * program and are made printable here. Times are the analysis's ns, written as us since `origin_ns`.
 * Errors of the file are kept by it and reported at the end. One thread.
 */
#ifndef SLIPSTREAM_TRACING_TIMELINE_WRITE_H
#define SLIPSTREAM_TRACING_TIMELINE_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/* A row of the viewer. */
struct timeline_track {
	uint32_t pid, tid;
};

struct timeline_point {
	struct timeline_track track;
	int64_t ns;
};

struct timeline_file {
	FILE *out;
	int64_t origin_ns;
	uint64_t lines, flows;
};

void timeline_file_begin(struct timeline_file *file);
/* `other` is taken over. 0 or -errno of the first write that failed. */
int timeline_file_end(struct timeline_file *file, json_t *other);

struct timeline_fixed;

/* A number among the arguments of a slice; UINT64_MAX is written as null. */
struct timeline_value {
	const char *name;
	uint64_t value;
};

/* A complete slice: what is its own before what it has in common with others. */
void timeline_fixed_slice(struct timeline_file *file, struct timeline_track track, int64_t begin_ns,
			  int64_t end_ns, const struct timeline_fixed *text,
			  const struct timeline_value *values, size_t count);
/* A complete slice. `args` is taken over. */
void timeline_slice(struct timeline_file *file, struct timeline_track track, int64_t begin_ns,
		    int64_t end_ns, const char *name, const char *category, json_t *args);
void timeline_instant(struct timeline_file *file, struct timeline_point at, const char *name,
		      const char *category, json_t *args);
/* An arrow; both points must lie in slices. Both ends are written at once, so there is never half of one. */
void timeline_flow(struct timeline_file *file, const char *name, struct timeline_point from,
		   struct timeline_point to);
/* "process_name", "thread_name": a text; "process_sort_index", "thread_sort_index": a number. */
void timeline_name_track(struct timeline_file *file, struct timeline_track track, const char *what,
			 const char *name);
void timeline_sort_track(struct timeline_file *file, struct timeline_track track, const char *what,
			 int64_t index);

/* Text of the program for a viewer: printable, at most TIMELINE_TEXT bytes and then an ellipsis. */
#define TIMELINE_TEXT 512
json_t *timeline_text(const char *raw); /* null for NULL */
json_t *timeline_number(uint64_t value);

/* Sets and takes the value over. */
void timeline_set(json_t *object, const char *key, json_t *value);

#endif
