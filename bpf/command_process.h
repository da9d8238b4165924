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
	uint64_t offset; /* return address in the module's own numbering; without one the address */
};

struct site {
	uint32_t id;
	size_t count;
	struct site_frame frames[WATCH_FRAMES];
	bool is_written;
};

struct told_module {
	const struct module_file *file; /* what it is found by */
	uint32_t id;
	uint64_t base;
	bool is_written;
};

/* A stream, by what the call named. */
struct told_stream {
	uint64_t handle;
	uint32_t class, id; /* class: enum watch_stream_class */
};

/* A kind of wait. */
struct told_wait {
	uint32_t function, rule, site, id;
	uint8_t source_kind, destination_kind, idle_basis;
};

/* Items of one kind, owned: in the order of their ids, and in a tree (tsearch) by content. */
struct told_list {
	void **items;
	size_t count, capacity;
	void *tree;
};

struct told {
	pid_t id;
	bool shim, is_written, has_ended;
	uint32_t dump; /* number of the last one written */
	char *program, *command;
	uint32_t parent;
	uint64_t start_ns;
	struct told_list strings; /* struct told_string */
	struct told_list modules, sites, streams, waits;
	bool *functions, *rules; /* which are written, by number */
};

/* Reads what /proc says of it. `known` NULL: the watch knows nothing. */
struct told *told_new(pid_t id, const struct watch_process *known);
struct told *told_free(struct told *process);

/*
 * The site of a stack of that time: its frames as places in files, looked up now. NULL: it has none. It ends where an address lies in no
 * code: code without frame pointers leaves rubbish there, another with each call.
 */
struct site *told_site(struct told *process, struct watch *watch, struct module_files *files,
		       const uint64_t *frames, size_t count, uint64_t when_ns);

/* Frames of a site as the summary takes them. */
size_t told_frames(const struct told *process, const struct site *site,
		   struct witness_frame frames[WATCH_FRAMES]);

/* Ids, whose definitions are written before they return. */
struct told_out {
	struct told *process;
	struct text_out *text; /* NULL: nothing is written */
	uint64_t ns;
	uint32_t thread;
};

void told_write_begin(const struct told_out *out, const char *driver, bool whole);
uint32_t told_write_string(const struct told_out *out, const char *text);
void told_write_function(const struct told_out *out, uint32_t function);
uint32_t told_write_site(const struct told_out *out, struct site *site);
uint32_t told_write_stream(const struct told_out *out, const struct watch_call *call);
uint32_t told_write_wait(const struct told_out *out, const struct told_wait *wait);
void told_write(const struct told_out *out, enum trace_event event, const void *payload);

#endif
