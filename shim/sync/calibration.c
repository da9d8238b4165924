// SPDX-License-Identifier: MIT
/*
 * Calibration: reading and checking the table of idle costs and sizes (calibration.h). Called once by
 * sync_prepare(), before the program's threads; also by tests and a fuzzer. Relies on the catalogue
 * for names. No heap: the file is mapped.
 */
#include "sync/calibration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalogue/catalogue.h"
#include "emit/emit.h"
#include "sync/idle.h"
#include "uncancelled.h"

#define FIELDS     6
#define FIELD_SIZE 128

static const char *const kind_names[MEMORY_KIND_COUNT] = MEMORY_KIND_NAMES;
static const char *const copy_names[CALIBRATION_COPIES] = CALIBRATION_COPY_NAMES;

static struct calibration_stage stage; /* written by calibration_load() only */

static bool parse_kind(const char *text, uint8_t *ret_kind)
{
	uint8_t kind;

	for (kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
		if (!strcmp(text, kind_names[kind])) {
			*ret_kind = kind;
			return true;
		}
	}
	return false;
}

static bool parse_number(const char *text, uint64_t maximum, uint64_t *ret_number)
{
	uint64_t number = 0;
	unsigned int digit;

	if (!*text || (text[0] == '0' && text[1]))
		return false;
	for (; *text; text++) {
		digit = (unsigned int)(*text - '0');
		if (digit > 9)
			return false;
		number = number * 10 + digit;
		if (number > maximum)
			return false;
	}
	*ret_number = number;
	return true;
}

/* Cuts a line at its single blanks. */
static bool split(const char *line, size_t length, char field[FIELDS][FIELD_SIZE])
{
	size_t used = 0;
	int i = 0;

	for (; length; line++, length--) {
		if (*line == ' ') {
			if (!used || i == FIELDS - 1)
				return false;
			field[i++][used] = '\0';
			used = 0;
		} else if (*line > ' ' && *line < 0x7f && used < FIELD_SIZE - 1) {
			field[i][used++] = *line;
		} else {
			return false;
		}
	}
	field[i][used] = '\0';
	return used && i == FIELDS - 1;
}

/* NULL: fine. A function that is not known leaves number -1. */
static const char *parse_entry(const char *line, size_t length, struct calibration_entry *ret_entry,
			       int *ret_function)
{
	char field[FIELDS][FIELD_SIZE];
	uint64_t number;

	if (!split(line, length, field))
		return "expected: idle FUNCTION SOURCE DESTINATION SIZE_CLASS NS";
	*ret_function = catalogue_function(field[1]);
	if (strncmp(field[1], "cu", 2))
		return "not the name of a driver function";
	ret_entry->function = (uint16_t)*ret_function;
	if (!parse_kind(field[2], &ret_entry->source_kind))
		return "unknown kind of source memory";
	if (!parse_kind(field[3], &ret_entry->destination_kind))
		return "unknown kind of destination memory";
	if (!parse_number(field[4], 63, &number))
		return "size class is no number from 0 to 63";
	ret_entry->size_class = (uint8_t)number;
	if (!parse_number(field[5], UINT32_MAX, &number) || !number)
		return "idle cost is no number from 1 to 4294967295";
	ret_entry->idle_ns = (uint32_t)number;
	return NULL;
}

static bool begins_with(const char *line, size_t length, const char *word)
{
	size_t word_length = strlen(word);

	return length >= word_length && !memcmp(line, word, word_length);
}

/* A field that ends the line, without what is no text. */
static bool last_field(const char *from, const char *end, char *ret_field, size_t size)
{
	size_t length = (size_t)(end - from);

	if (length >= size || memchr(from, '\0', length))
		return false;
	memcpy(ret_field, from, length);
	ret_field[length] = '\0';
	return true;
}

/* NULL: fine. */
static const char *parse_stage(const char *line, size_t length, struct calibration_stage *said)
{
	const char *end = line + length;
	char field[FIELD_SIZE];
	unsigned int copy;
	uint64_t from;

	line += strlen("stage ");
	for (copy = 0; copy < CALIBRATION_COPIES; copy++)
		if (begins_with(line, (size_t)(end - line), copy_names[copy]) &&
		    line[strlen(copy_names[copy])] == ' ')
			break;
	if (copy == CALIBRATION_COPIES)
		return "expected: stage DIRECTION FORM STATE FROM, of a copy that is known";
	if (said->copies & (1U << copy))
		return "the same copy for the second time";
	if (!last_field(line + strlen(copy_names[copy]) + 1, end, field, sizeof(field)))
		from = 0;
	else if (!strcmp(field, "never"))
		from = CALIBRATION_NEVER;
	else if (!parse_number(field, CALIBRATION_FROM_MAX, &from))
		from = 0;
	if (!from)
		return "size is neither 'never' nor a number from 1 to 1099511627776";
	said->copies |= 1U << copy;
	said->from[copy] = from;
	return NULL;
}

/* What it was measured on. Older tables say anything here; nobody then finds his own device in it. */
static void parse_device(const char *line, size_t length, struct calibration_stage *said)
{
	const char *end = line + length;
	char field[FIELD_SIZE];
	uint64_t number;

	if (begins_with(line, length, "gpu ")) {
		if (!last_field(line + strlen("gpu "), end, said->gpu, sizeof(said->gpu)))
			said->gpu[0] = '\0';
	} else if (begins_with(line, length, "driver ")) {
		said->driver = last_field(line + strlen("driver "), end, field, sizeof(field)) &&
					       parse_number(field, INT32_MAX, &number)
				       ? (int)number
				       : 0;
	}
}

static uint64_t hash_on(uint64_t hash, const char *bytes, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static bool is_checksum(const char *line, size_t length, uint64_t hash)
{
	char expected[32];

	snprintf(expected, sizeof(expected), "checksum %016llx", (unsigned long long)hash);
	return length == strlen(expected) && !memcmp(line, expected, length);
}

int calibration_parse(const char *text, size_t size,
		      int (*take)(void *context, const struct calibration_entry *entry),
		      void *context, struct calibration_stage *ret_stage, unsigned int *ret_line,
		      const char **ret_problem)
{
	struct calibration_stage said = {0};
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	struct calibration_entry entry;
	const char *problem = NULL;
	bool ended = false;
	const char *end;
	unsigned int line = 0;
	size_t length;
	int function;

	for (; size && !problem; text += length + 1, size -= length + 1) {
		*ret_line = ++line;
		end = memchr(text, '\n', size);
		if (!end) {
			problem = "the line has no end (cut file?)";
			break;
		}
		length = (size_t)(end - text);
		if (ended) {
			problem = "something follows the checksum";
		} else if (line == 1) {
			if (length != strlen(CALIBRATION_FIRST_LINE) ||
			    memcmp(text, CALIBRATION_FIRST_LINE, length))
				problem = "the first line is not '" CALIBRATION_FIRST_LINE "'";
		} else if (begins_with(text, length, "checksum ")) {
			ended = true;
			if (!is_checksum(text, length, hash))
				problem = "wrong checksum";
		} else if (begins_with(text, length, "idle ")) {
			problem = parse_entry(text, length, &entry, &function);
			if (!problem && function >= 0 && take && take(context, &entry))
				problem = "too many entries";
		} else if (begins_with(text, length, "stage ")) {
			problem = parse_stage(text, length, &said);
		} else {
			parse_device(text, length, &said);
		}
		hash = hash_on(hash, text, length + 1);
	}
	if (!problem && !ended) {
		*ret_line = line + 1;
		problem = "the checksum is missing (cut file?)";
	}
	if (ret_stage)
		*ret_stage = said;
	*ret_problem = problem;
	return problem ? -EINVAL : 0;
}

static int take_entry(void *context, const struct calibration_entry *entry)
{
	uint32_t key = idle_key_of(entry->function, entry->source_kind, entry->destination_kind,
				   entry->size_class);

	return idle_calibrate(key, entry->idle_ns) ? 0 : -ENOSPC;
}

static void complain(const char *path, unsigned int line, const char *problem)
{
	char text[640];
	int length;

	if (line)
		length =
			snprintf(text, sizeof(text),
				 "slipstream: calibration table '%.400s' is ignored: line %u: %s\n",
				 path, line, problem);
	else
		length = snprintf(text, sizeof(text),
				  "slipstream: calibration table '%.400s' is ignored: %s\n", path,
				  problem);
	if (length <= 0)
		return;
	if (uncancelled_write(STDERR_FILENO, text, (size_t)length) < 0) {
		/* Nobody to tell. */
	}
	text[length - 1] = '\0';
	emit_note(NOTE_CONFIG, text + strlen("slipstream: "));
}

void calibration_load(const char *path)
{
	const char *problem;
	struct stat status;
	unsigned int line;
	void *text;
	int fd;

	fd = uncancelled_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	if (fd < 0) {
		complain(path, 0, strerrordesc_np(errno));
		return;
	}
	if (fstat(fd, &status)) {
		complain(path, 0, strerrordesc_np(errno));
	} else if (!S_ISREG(status.st_mode)) {
		complain(path, 0, "not a regular file");
	} else if (!status.st_size) {
		complain(path, 0, "the file is empty");
	} else if ((size_t)status.st_size > CALIBRATION_SIZE_MAX) {
		complain(path, 0, "larger than 4 MiB");
	} else {
		text = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (text == MAP_FAILED) {
			complain(path, 0, strerrordesc_np(errno));
		} else {
			/* First only look: a bad file must not leave half of itself behind. */
			if (calibration_parse(text, (size_t)status.st_size, NULL, NULL, NULL, &line,
					      &problem) ||
			    calibration_parse(text, (size_t)status.st_size, take_entry, NULL,
					      &stage, &line, &problem)) {
				stage.copies = 0;
				complain(path, line, problem);
			}
			munmap(text, (size_t)status.st_size);
		}
	}
	uncancelled_close(fd);
}

const struct calibration_stage *calibration_stage(void)
{
	return stage.copies ? &stage : NULL;
}
