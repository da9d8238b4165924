// SPDX-License-Identifier: MIT
/*
 * The calibration table as text. Used by calibrate.c; relies on libc alone.
 */
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *table_speaker = "slipstream calibrate";

void table_clear(struct table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->line[i]);
	free(table->line);
	*table = (struct table){0};
}

int table_add_line(struct table *table, const char *line)
{
	char **grown = realloc(table->line, (table->count + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	table->line = grown;
	table->line[table->count] = strdup(line);
	if (!table->line[table->count])
		return -ENOMEM;
	table->count++;
	return 0;
}

static uint64_t fnv(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t table_checksum(const struct table *table)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < table->count; i++)
		hash = fnv(fnv(hash, table->line[i]), "\n");
	return hash;
}

static void put(const struct table *table, FILE *file)
{
	for (size_t i = 0; i < table->count; i++)
		fprintf(file, "%s\n", table->line[i]);
	fprintf(file, "checksum %016" PRIx64 "\n", table_checksum(table));
}

void table_print(const struct table *table)
{
	put(table, stdout);
}

int table_place(const char *path, char ret_path[TABLE_PATH])
{
	char real[PATH_MAX];
	struct stat status;
	int r = 0;

	if (lstat(path, &status) == 0) {
		/* Where a link leads is replaced, not the link. */
		if (!realpath(path, real))
			return -errno;
		path = real;
		if (stat(path, &status))
			return -errno;
		if (!S_ISREG(status.st_mode))
			r = -EEXIST;
	} else if (errno != ENOENT) {
		return -errno;
	}
	if (snprintf(ret_path, TABLE_PATH, "%s", path) >= TABLE_PATH)
		return -ENAMETOOLONG;
	return r;
}

FILE *table_open(const char *path, int flags)
{
	struct stat status;
	int fd;

	/* A FIFO without a reader fails here instead of waiting. */
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK | flags,
		  0666);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		errno = EEXIST;
		return NULL;
	}
	return fdopen(fd, flags & O_APPEND ? "a" : "w");
}

int table_write(const struct table *table, const char *path)
{
	char beside[TABLE_PATH + 8];
	struct stat status;
	FILE *file;
	int r = 0;

	/* Looked at again: measuring took minutes. */
	if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return -EEXIST;
	if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside))
		return -ENAMETOOLONG;
	file = table_open(beside, O_TRUNC);
	if (!file)
		return -errno;
	put(table, file);
	if (fflush(file) || ferror(file))
		r = errno ? -errno : -EIO;
	if (fclose(file) && !r)
		r = -errno;
	if (!r && rename(beside, path))
		r = -errno;
	if (r)
		(void)unlink(beside);
	return r;
}

static int refuse(const char *path, const char *fault)
{
	if (table_speaker)
		fprintf(stderr, "%s: %s: %s\n", table_speaker, path, fault);
	return -EINVAL;
}

int table_read(struct table *ret_table, const char *path, int partial)
{
	struct table table = {0};
	bool closed = false;
	size_t room = 0;
	char *line = NULL;
	ssize_t length;
	struct stat status;
	FILE *file = NULL;
	int r = 0, fd;

	/* Not to wait for the writer of a FIFO. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd >= 0 && !fstat(fd, &status)) {
		if (!S_ISREG(status.st_mode)) {
			close(fd);
			return refuse(path, "not a regular file");
		}
		file = fdopen(fd, "r");
	}
	if (!file) {
		r = -errno;
		if (table_speaker)
			fprintf(stderr, "%s: %s: %s\n", table_speaker, path, strerror(-r));
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (!r && (length = getline(&line, &room, file)) > 0) {
		if (line[length - 1] != '\n') {
			/*
			 * A line cut short by a kill: what is left of the unit is measured again.
			 */
			if (!partial)
				r = refuse(path, "cut short");
			break;
		}
		line[length - 1] = 0;
		if (strlen(line) != (size_t)length - 1) {
			r = refuse(path, "not a text file");
		} else if (closed) {
			r = refuse(path, "lines after the checksum");
		} else if (!table.count && !partial && strcmp(line, TABLE_FIRST_LINE)) {
			r = refuse(path, "no calibration table of this version (first line)");
		} else if (!partial && !strncmp(line, "checksum ", 9)) {
			char expected[17];

			snprintf(expected, sizeof(expected), "%016" PRIx64, table_checksum(&table));
			if (strcmp(line + 9, expected))
				r = refuse(path, "wrong checksum: the file is damaged");
			closed = true;
		} else {
			r = table_add_line(&table, line);
		}
	}
	if (!r && ferror(file))
		r = refuse(path, "cannot be read");
	if (!r && !partial && !closed)
		r = refuse(path, "no checksum at its end: the file is damaged or was not finished");
	free(line);
	fclose(file);
	if (r) {
		table_clear(&table);
		return r;
	}
	*ret_table = table;
	return 0;
}

/*
 * Splits a line into what names it and what it says, without the figures. False: a kind of line
 * that is not compared. The idle lines are figures only.
 */
static bool judge(const char *line, char name[256], char says[256])
{
	char kind[16], a[128], b[128], c[64], d[64], e[64];

	if (sscanf(line, "%15s", kind) != 1)
		return false;
	if (!strcmp(kind, "cell") && sscanf(line, "%*s %127s %127s %63s", a, b, c) == 3) {
		snprintf(name, 256, "cell %.100s %.100s", a, b);
		snprintf(says, 256, "%s", c);
		return true;
	}
	if (!strcmp(kind, "gate") &&
	    sscanf(line, "%*s %127s %127s %63s %63s %63s", a, b, c, d, e) == 5) {
		snprintf(name, 256, "gate %.100s %.100s", a, b);
		snprintf(says, 256, "%s %s %s", c, d, e);
		return true;
	}
	if (!strcmp(kind, "fact") && sscanf(line, "%*s %127s %127s", a, b) == 2) {
		snprintf(name, 256, "fact %s", a);
		snprintf(says, 256, "%s", b);
		return true;
	}
	return false;
}

static bool look_up(const struct table *table, const char *wanted, char says[256])
{
	char name[256];

	for (size_t i = 0; i < table->count; i++) {
		if (judge(table->line[i], name, says) && !strcmp(name, wanted))
			return true;
	}
	return false;
}

size_t table_compare(const struct table *present, const struct table *committed)
{
	char name[256], here[256], there[256];
	size_t differences = 0;

	for (size_t i = 0; i < present->count; i++) {
		if (!judge(present->line[i], name, here))
			continue;
		if (!look_up(committed, name, there)) {
			printf("%s: %s here, not in the other table\n", name, here);
			differences++;
		} else if (strcmp(here, there)) {
			printf("%s: %s here, %s there\n", name, here, there);
			differences++;
		}
	}
	for (size_t i = 0; i < committed->count; i++) {
		if (!judge(committed->line[i], name, there) || look_up(present, name, here))
			continue;
		printf("%s: not measured here, %s there\n", name, there);
		differences++;
	}
	return differences;
}
