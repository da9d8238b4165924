// SPDX-License-Identifier: MIT
/*
 * What the writer has told of one process: each definition has a number in it, and is written before what
 * names it. Of command_write.c only, and in its thread.
 */
#ifndef SLIPSTREAM_BPF_COMMAND_PROCESS_H
#define SLIPSTREAM_BPF_COMMAND_PROCESS_H

#include "command_modules.h"
#include "command_text.h"
#include "watch.h"
#include "witness_summary.h"

struct site_frame {
	uint32_t module; /* id; 0: none */
	uint64_t offset;
};

struct site {
	uint32_t id;
	size_t count;
	struct site_frame frames[WATCH_FRAMES];
	bool is_written;
};

struct process_module {
	const struct module_file *file; /* first: what it is found by */
	uint32_t id;
	uint64_t base;
	bool is_written;
};

/* A stream, by what the call named. */
struct process_stream {
	uint64_t handle;
	uint32_t class, id;
};

/* A kind of wait. */
struct process_wait {
	uint32_t function, rule, site, id;
	uint8_t source_kind, destination_kind, idle_basis;
};

struct process_list {
	void **items;
	size_t count, capacity;
	void *tree;
};

struct process {
	pid_t id;
	bool shim, is_written, has_ended;
	uint32_t dump;
	char *program, *command;
	uint32_t parent;
	uint64_t since_ns;
	struct process_list strings; /* struct process_string */
	struct process_list modules, sites, streams, waits;
	bool *functions, *rules; /* which are written */
};

/* Reads what /proc says of it. `known` NULL: the watch knows nothing. */
struct process *process_new(pid_t id, const struct watch_process *known);
struct process *process_free(struct process *process);

/* The site of a call: its frames as places in files, looked up now. NULL: it has none. */
struct site *process_site(struct process *process, struct watch *watch, struct module_files *files,
			  const struct watch_call *call);

/* Frames of a site as the summary takes them. */
size_t process_frames(const struct process *process, const struct site *site,
		      struct witness_frame frames[WATCH_FRAMES]);

/* Ids, whose definitions are written before they return. */
struct process_out {
	struct process *process;
	struct text_out *text; /* NULL: nothing is written */
	uint64_t ns;
	uint32_t thread;
};

void process_write_begin(const struct process_out *out, const char *driver, bool whole);
uint32_t process_write_string(const struct process_out *out, const char *text);
void process_write_function(const struct process_out *out, uint32_t function);
uint32_t process_write_site(const struct process_out *out, struct site *site);
uint32_t process_write_stream(const struct process_out *out, const struct watch_call *call);
uint32_t process_write_wait(const struct process_out *out, const struct process_wait *wait);
void process_write(const struct process_out *out, enum trace_event event, const void *payload);

#endif
