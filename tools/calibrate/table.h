// SPDX-License-Identifier: MIT
/*
 * The calibration table as text (FORMAT.md): reading, checking, writing, comparing. One thread.
 */
#ifndef SLIPSTREAM_CALIBRATE_TABLE_H
#define SLIPSTREAM_CALIBRATE_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TABLE_FIRST_LINE "slipstream-calibration 1"

/* Whose complaints these are; `slipstream run` reads tables too. NULL: none is made. */
extern const char *table_speaker;

struct table {
	char **line; /* without newlines, without the checksum */
	size_t count;
};

void table_clear(struct table *table);
/* Returns 0 or -ENOMEM. */
int table_add_line(struct table *table, const char *line);
#define TABLE_PATH 4096

/*
 * Where a table for `path` is to be written: where its symbolic links lead. Returns 0 or -errno;
 * -EEXIST: something other than a regular file is there, which the renaming of table_write() would
 * replace.
 */
int table_place(const char *path, char ret_path[TABLE_PATH]);
/*
 * A regular file to write, made if it is not there; `flags`: O_TRUNC or O_APPEND. Waits for nobody and
 * follows no link. NULL: errno says why, EEXIST for anything but a regular file.
 */
FILE *table_open(const char *path, int flags);
/*
 * Writes beside the file first, then renames: a table is whole or not there. Returns 0 or -errno,
 * -EEXIST as table_place().
 */
int table_write(const struct table *table, const char *path);
void table_print(const struct table *table);
void table_print_json(
	const struct table *table); /* table_json.c; the stream's error tells of failure */
/*
 * Returns 0 or -errno after one line on stderr naming file and fault. `partial`: no checksum asked
 * for.
 */
int table_read(struct table *ret_table, const char *path, int partial);
/* Prints what differs (classes and facts, not figures); returns how many lines do. */
size_t table_compare(const struct table *present, const struct table *committed);

#endif
