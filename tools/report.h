// SPDX-License-Identifier: MIT
/*
 * Report: what the record files of one run say together. Built by report_add() for each file and
 * report_finish(), then only read by the writers (text, JSON). Lines of the same (class, rule,
 * function, cause, allowed) are merged over all processes, call sites by their content, so the
 * order of the files does not matter and equal files give equal bytes.
 *
 * Strings point into the record files, which the report owns. They are raw: writers escape them.
 */
#ifndef SLIPSTREAM_TOOLS_REPORT_H
#define SLIPSTREAM_TOOLS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "record_read.h"

struct report_trace;
struct symbolizer;

/* One native frame. An inlined function gives a frame of its own, before the one it was inlined
 * into. */
struct report_frame {
	char *function;     /* NULL unknown */
	char *file;         /* NULL unknown */
	uint32_t line;      /* 0 unknown */
	const char *module; /* path; NULL: no module known */
	uint64_t offset;    /* in the module; the absolute address if it has none */
	bool inlined;
};

struct report_python_frame {
	const char *file, *function; /* NULL unknown */
	int32_t line;                /* 0 unknown */
};

struct report_site {
	uint64_t id; /* hash of its content: the same in every process, and in the next run of the
			same build */
	const struct record_file *source; /* where frames[] below come from */
	const struct record_site *record;
	struct report_frame *frames; /* filled by report_site_symbolize() */
	size_t frame_count;
	bool symbolized;
	struct report_python_frame *python;
	size_t python_count;
};

struct report_use {               /* what one call site has of one sync */
	struct report_site *site; /* NULL: none was taken */
	uint64_t count, blocked_ns, blocked_max, bytes;
};

struct report_memory {               /* the same by kinds of memory */
	uint8_t source, destination; /* enum memory_kind */
	uint64_t count, blocked_ns, bytes;
};

struct report_waited {    /* the same by what was waited for */
	const char *host; /* of a trace; NULL: this machine */
	uint32_t pid;     /* stream numbers count per process */
	uint64_t context, stream;
	uint32_t stream_kind, operation, certain;
	bool is_unknown;  /* all of that: its definition is missing */
	const char *name; /* NULL unknown */
	uint64_t count, blocked_ns;
};

struct report_named { /* a name and a figure: regions, bases, functions, notes */
	const char *name;
	uint64_t count, blocked_ns;
};

#define REPORT_CLASS_UNKNOWN 0 /* beside enum wait_class: a wait whose rule is not known */

struct report_list {
	void **items;
	size_t count, capacity;
	void *tree; /* tsearch() over the items, by identity */
};

struct report_sync {
	const char *rule, *function, *cause; /* never NULL */
	uint32_t class;                      /* enum wait_class */
	bool allowed;
	bool own_cost; /* the calls' own work, not a wait; class is implicit */
	uint64_t count, blocked_ns, blocked_max, call_ns, bytes;
	uint64_t idle_count[IDLE_DEFAULT + 1];            /* calls by enum idle_basis */
	struct report_list uses, memory, waited, regions; /* by blocked time once finished */
};

struct report_process {
	const struct record_file *file;
	const char *state; /* exited, running, gone, running when saved, silent when saved */
	uint64_t end_ns;   /* known or estimated, never before start */
	bool end_known;
	uint64_t calls, unwrapped; /* unwrapped ones are among the calls */
	uint64_t implicit_ns;
};

struct report_function {
	const char *name;
	uint64_t calls, handed_out;
	bool wrapped, in_driver;
};

struct report_note {
	uint32_t code; /* enum note_code */
	const char *text;
	uint64_t count;
};

struct report {
	struct record_file **files;
	size_t file_count, file_capacity;
	struct report_process *processes; /* by start, then pid */
	size_t process_count;
	struct report_list syncs;     /* by blocked time, then count, then names */
	struct report_list sites;     /* by id */
	struct report_list functions; /* by name */
	struct report_list notes;     /* by code, then text */
	struct report_list reasons;   /* char *: why a clean verdict would not hold */
	struct report_list problems;  /* char *: files that could not be read, wholly or in part */
	struct report_list blind;     /* char *: what `run` saw before the start */
	uint64_t calls, unwrapped, wall_ns;
	uint64_t implicit_ns; /* outside allowed scopes */
	uint64_t own_cost_ns; /* the part of it that is the calls' own work */
	uint64_t allowed_ns;  /* implicit, inside them */
	uint64_t explicit_ns;
	uint64_t unknown_ns, unknown_count; /* of unknown class; in none of the others */
	struct report_trace *trace; /* what only a trace has (report_trace.h); NULL: record files */
	json_t *witness; /* what the kernel saw (report_witness.h); NULL: nobody watched */
	bool witness_has_symbols;
	struct symbolizer *symbolizer; /* NULL until the first frame is asked for */
};

struct report *report_new(void);
struct report *report_free(struct report *report);

/* Takes the file over. */
void report_add(struct report *report, struct record_file *file);
/* Reads one file, or every *.slip of a folder; files begun before `since_ns` are left out. 0 or
 * -errno with one line. */
int report_add_path(struct report *report, const char *path, uint64_t since_ns, char **reterr_text);
/* A blind spot found before the start; one line. */
void report_add_blind_spot(struct report *report, const char *text);
/* Merges and ranks. `now_ns` and `ended_pid` (0: none): what `run` knows about a program that left
 * no end time. */
void report_finish(struct report *report, uint64_t now_ns, uint32_t ended_pid);

void report_site_symbolize(struct report *report, struct report_site *site);

void report_text_list_add(struct report_list *list, char *text); /* takes the text over */

/* Names of enum values for both writers; "unknown" for values out of range. */
const char *report_stream_kind(uint32_t kind);
const char *report_memory_kind(uint32_t kind);
const char *report_operation(uint32_t operation);
const char *report_class(uint32_t class);
const char *report_idle_basis(uint32_t basis);
const char *report_note_code(uint32_t code);

/* Those from REPORT_BY_STREAM on need a trace. */
enum report_by {
	REPORT_BY_RULE,
	REPORT_BY_SITE,
	REPORT_BY_FUNCTION,
	REPORT_BY_STREAM,
	REPORT_BY_THREAD,
	REPORT_BY_RANK,
	REPORT_BY_HOST,
	REPORT_BY_GPU,
};

struct report_style {
	enum report_by by;
	size_t limit; /* lines of each section; 0: all */
	size_t width;
	bool colour;
};

void report_write_text(struct report *report, const struct report_style *style, FILE *out);
json_t *report_json(struct report *report);
/* Sets "frames" and "python" of an object; of no site: empty. */
void report_json_stack(json_t *object, struct report *report, struct report_site *site);

/* Both outputs of one report, as `run` and `report` offer them. */
struct report_output {
	const char *json_path;   /* NULL: no JSON */
	const char *output_path; /* NULL: text to `text_stream` */
	FILE *text_stream;
	FILE *json_held, *output_held; /* a FIFO stays open from the check on; else NULL */
	struct report_style style;
	bool is_of_trace; /* all keys of ranking are there */
};

/*
 * Checks before the start that the key of ranking is there and that the files can be written (they
 * are made, empty; a FIFO needs its reader by then). 0 or -errno with one line.
 */
int report_output_prepare(struct report_output *output, char **reterr_text);
int report_output_write(struct report *report, struct report_output *output, char **reterr_text);

/* The enum report_by of a word, as --by takes it; -1: none. */
int report_by_name(const char *name);
#define REPORT_BY_NAMES "rule, site, function, stream, thread, rank, host or gpu"

#endif
