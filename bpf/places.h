// SPDX-License-Identifier: MIT
/*
 * Which files stood behind the code addresses of processes, and when. Fed by the kernel's own messages
 * about mappings (mappings.h) and by /proc/PID/maps; asked by the watch for every record. Everything
 * goes by time, so that messages of several processors may come in any order and a process id may be
 * used again.
 *
 * Paths come from other processes: they are text to show, never to open. One thread.
 */
#ifndef SLIPSTREAM_PLACES_H
#define SLIPSTREAM_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct place {
	uint64_t since_ns; /* 0: before the watch began */
	uint64_t start, end, offset;
	dev_t device; /* as the kernel names it in mappings: not always what stat() says */
	ino_t inode;  /* 0: memory without a file */
	char *path;   /* "" without a file */
};

struct places;

struct places *places_new(void);
void places_done(struct places *places);

/* A process begins as a copy of another; or starts a program. 0 or -errno, as places_map(). */
int places_fork(struct places *places, pid_t process, pid_t parent, uint64_t ns);
int places_exec(struct places *places, pid_t process, uint64_t ns);
/* A mapping; the path is copied, at most `length` bytes of it. */
int places_map(struct places *places, pid_t process, const struct place *place, size_t length);

/* Calls `each` for every mapping of code that /proc/PID/maps has, until it returns true. 1: it did; 0; -errno, if it cannot be read. */
int places_read(pid_t process, bool (*each)(const struct place *place, void *data), void *data);

/* The same for all: those mappings are there at least since the process's last begin. Calls `each`
 * for every one that is new. -errno, if it cannot be read. */
int places_scan(struct places *places, pid_t process,
		void (*each)(pid_t process, const struct place *place, void *data), void *data);

/* The mapping of a code address at a time; UINT64_MAX: the last one known. NULL: not known. Good until the next change. */
const struct place *places_find(const struct places *places, pid_t process, uint64_t address,
				uint64_t when_ns);
/* The program that a process runs at that time: what was mapped first since it was started. NULL: not
 * known. Good until the next change. */
const char *places_program(const struct places *places, pid_t process, uint64_t when_ns);
/* Calls `test` for every mapping that the process may have at that time, until it returns true, which is
 * returned. Unmapping is not seen. */
bool places_any(const struct places *places, pid_t process, uint64_t when_ns,
		bool (*test)(const struct place *place, void *data), void *data);

/* Forgets processes that `keep` does not want. */
void places_prune(struct places *places, bool (*keep)(pid_t process, void *data), void *data);

/* Goes up with every change: answers kept elsewhere are old then. */
uint64_t places_changes(const struct places *places);

#endif
