// SPDX-License-Identifier: MIT
/*
 * Program: looks at the program that is to be run, before it starts, and names what a preload
 * cannot reach in it. A script is followed to its interpreter.
 */
#ifndef SLIPSTREAM_TOOLS_PROGRAM_H
#define SLIPSTREAM_TOOLS_PROGRAM_H

#include <stdbool.h>

struct program {
	char *path;        /* the file named on the command line, found by PATH as execvp(3) does */
	char *image;       /* the ELF file that the kernel starts in the end */
	char *interpreter; /* its dynamic loader; NULL: none, or not ELF */
	char *blind_spot;  /* one line why nothing will be seen; NULL: none known */
	bool is_elf;       /* `path` itself is an ELF file, good or not */
	bool foreign_libc; /* the loader is not glibc's: preloading a glibc library would break the
			      program */
	bool needs_asan;   /* linked to a shared ASan runtime, which checks that it comes first */
};

/* 0; -ENOENT, -EACCES ... if it cannot be started at all. */
int program_inspect(const char *name, struct program *ret_program);
void program_done(struct program *program);

/* As execvp(3): the path of `name`, or NULL with the error. The caller frees. */
char *program_find(const char *name, int *reterr);

#endif
