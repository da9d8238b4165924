// SPDX-License-Identifier: MIT
/*
 * Dump: what one process that uses the library is inside now. Built once by dump_build() from its record file and from /proc, then only read by the
 * writers (text, JSON). The process is neither stopped nor signalled nor attached to, so what is here is of moments that lie a little apart.
 *
 * Strings that are not `char *` point into the record file, which the caller owns; all are raw: writers escape them.
 */
#ifndef SLIPSTREAM_TOOLS_DUMP_H
#define SLIPSTREAM_TOOLS_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "record_read.h"

/* A thread as the kernel sees it. */
struct dump_task {
	uint32_t thread; /* its number here */
	uint32_t inner;  /* as the process itself knows it: of its own namespace */
	char state;      /* of proc_pid_stat(5); '?' not known */
	char *name;      /* NULL: not known, as the others */
	char *wchan;     /* where in the kernel it waits */
	char *syscall;   /* name or number of the system call it is in */
};

struct dump_tasks {
	struct dump_task *items;
	size_t count, capacity;
};

/* A point in time that was recorded. */
struct dump_since {
	bool known;
	uint64_t at_ns;
};

/* A thread inside a driver call, or with something of the library that others wait for. */
struct dump_thread {
	uint32_t thread; /* its number here */
	const struct dump_task
		*task;           /* NULL: there is no such thread, any more; or the process ended */
	const char *function;    /* NULL: in no call */
	bool in_driver;          /* else still in the library */
	struct dump_since since; /* when the driver was called */
	uint32_t
		lock; /* RECORD_LOCK_WAITS, RECORD_LOCK_HOLDS: the submission lock of this context; 0 */
	uint32_t lock_context;
	struct dump_since lock_since; /* it waits */
	bool drains;                  /* waits for gates */
	struct dump_since drains_since;
	uint32_t in_flight[3]; /* numbers of contexts; 0: none */
};

/* A context whose default stream is rewritten. */
struct dump_context {
	uint32_t number;
	int32_t device; /* -1: not known */
	bool in_substitute;
	uint64_t turns;
	size_t in_flight, waiting;        /* operations; threads */
	const struct dump_thread *holder; /* of its submission lock; NULL: nobody */
};

struct dump_gate {
	const struct record_gate *record;
	uint32_t thread;  /* its number here */
	uint32_t context; /* its number; 0: not known */
};

struct dump {
	const struct record_file *file;
	const char *path; /* of the file, as its process knows it */
	uint64_t now_ns;  /* when the file was read */
	uint32_t pid;     /* as asked for; of a file: as it says */
	bool runs;
	struct dump_tasks tasks;
	struct dump_thread *threads; /* by time in the call, longest first */
	size_t thread_count;
	struct dump_context *contexts; /* by number */
	size_t context_count;
	struct dump_gate *gates;
	size_t gate_count;
	const struct record_held *held; /* NULL: not written */
	uint64_t cached_bytes;          /* of pinned memory, which threads keep for themselves */
};

/*
 * dump_find.c: the record file of a running process. 0 with its path as the process knows it and the one by which it can be opened from here (the caller
 * frees both), and `*pid` made the process's if it was a thread's; or -errno with one line that says why there is nothing to show.
 */
int dump_find(uint32_t *pid, char **ret_path, char **ret_open, char **reterr_text);

/* dump_tasks.c: all threads of the process; none: it ended, or /proc cannot be read. */
void dump_tasks_read(struct dump_tasks *tasks, uint32_t pid);
void dump_tasks_done(struct dump_tasks *tasks);

/* dump_build.c; `tasks` is taken over, `file` and `path` stay the caller's. */
void dump_build(struct dump *dump, const struct record_file *file, const char *path, uint32_t pid,
		bool runs, struct dump_tasks *tasks);
void dump_done(struct dump *dump);
/* The value of a setting (without SLIPSTREAM_), as the record file has it; NULL: not there. The caller frees. */
char *dump_setting(const struct record_file *file, const char *name);
/* Is the note a reason for which something of mode fix is off, or was not seen? */
bool dump_note_matters(const struct record_note *note);
/* NULL: not known. */
const struct record_stream *dump_stream(const struct dump *dump, uint32_t number);
const char *dump_gate_state(uint32_t state);
const char *dump_held_kind(enum held_kind kind);
/* What a copy's stream is, by its handle: "legacy", "per-thread" or the kind of a stream that is known. */
const char *dump_gate_stream(const struct dump *dump, const struct record_gate *gate);

void dump_write_text(const struct dump *dump, FILE *out);
/* The caller's to free. */
json_t *dump_json(const struct dump *dump);

#endif
