// SPDX-License-Identifier: MIT
/*
 * Following a program and all its descendants by ptrace, in order to know at the end which file
 * stood behind each of their code addresses. A process stops in the kernel when it begins to exit,
 * its mappings still there: that is when they are read, so no process is too short-lived, and none
 * is polled.
 *
 * One thread. The followed processes run freely in between.
 */
#ifndef SLIPSTREAM_WITNESS_FOLLOW_H
#define SLIPSTREAM_WITNESS_FOLLOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct follow_range {
	uint64_t start, end, offset;
	dev_t device;
	ino_t inode;
	char *path;
};

struct follow_process {
	pid_t id, parent;
	struct follow_range *range; /* executable mappings ever seen at a stop; later ones behind */
	size_t count;
};

struct follow {
	struct follow_process *process;
	size_t count;
	int status; /* of the program itself, as waitpid() gives it */
};

/* Runs the program to its end, and waits for its descendants for at most `grace_ms` more. Returns 0
 * or -errno. */
int follow_run(struct follow *ret_follow, char **arguments, int grace_ms);
void follow_done(struct follow *follow);

/* The file mapping behind a code address of a process, NULL if none was seen. */
const struct follow_range *follow_range(const struct follow *follow, pid_t process,
					uint64_t address);

#endif
