// SPDX-License-Identifier: MIT
/*
 * Files behind code addresses of other processes: their load segments and build ids, so that addresses
 * become those of the file, which the report has symbols for. Nothing in these files is trusted. One
 * thread.
 */
#ifndef SLIPSTREAM_BPF_COMMAND_MODULES_H
#define SLIPSTREAM_BPF_COMMAND_MODULES_H

#include <stdint.h>
#include <sys/types.h>

struct watch_place;

#define MODULE_BUILD_ID_BYTES 64

struct module_file {
	dev_t device;
	ino_t inode;
	char *name; /* as the kernel names it */
	/* For people, and to be looked up by build id: the name, or where that leads to another file here (in a container with a root of its
	 * own) the way through its process, which is good while that lives. */
	char *path;
	char build_id[2 * MODULE_BUILD_ID_BYTES + 1]; /* hexadecimal; "" not known */
	struct module_segment *segments;
	size_t segment_count;
};

struct module_files {
	struct module_file **items;
	size_t count, capacity;
};

/*
 * The file of a place of the process, read once, while the process has it mapped or the path leads to
 * the same file. Never NULL; lives until module_files_done().
 */
const struct module_file *module_file_of(struct module_files *files, pid_t process,
					 const struct watch_place *place);
void module_files_done(struct module_files *files);

/* The place in the file's own numbering, as its symbols have it. */
uint64_t module_address(const struct module_file *file, const struct watch_place *place);

#endif
