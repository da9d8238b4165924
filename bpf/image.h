// SPDX-License-Identifier: MIT
/*
 * ELF images as the witness needs them: where functions begin in the file, and which functions
 * cover an address.
 */
#ifndef SLIPSTREAM_WITNESS_IMAGE_H
#define SLIPSTREAM_WITNESS_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct image_function {
	char *name;             /* each alias of an address is one of its own */
	uint64_t address, size; /* as in the symbol table */
	uint64_t offset;        /* in the file */
};

struct image {
	char *path; /* NULL after image_read() */
	dev_t device;
	ino_t inode;
	struct image_function *function;
	size_t count;
	struct image_segment *segment;
	size_t segments;
};

/*
 * All functions of the file whose names begin with `prefix`: from .symtab where it has one and
 * `exported` is 0, else from .dynsym. Sorted by address, then by name. Returns 0, or -errno; -EINVAL: no ELF file
 * with a symbol table, or a damaged one. The file is not trusted: what its headers say is checked
 * against what is there.
 */
int image_read(struct image *ret_image, int file, const char *prefix, int exported);

/* The same by path, which becomes image.path with all links followed. Says on stderr what failed. */
int image_open(struct image *ret_image, const char *path, const char *prefix, int exported);
void image_done(struct image *image);

/* Calls `each` for every function that covers the byte at `offset` of the file, until it returns
 * non-zero, which is returned. */
int image_cover(const struct image *image, uint64_t offset,
		int (*each)(const struct image_function *function, void *data), void *data);

#endif
