// SPDX-License-Identifier: MIT
/*
 * Fuzzer of shim/sync/calibration.c, the parser of calibration tables that runs inside the user's program: any
 * bytes, as they are and with the first line and the right checksum about them, so that entries are
 * reached. What is taken lies within the bounds of the format; a second reading takes the same;
 * whoever stops it is not called again; a refusal names a line that is there and says why.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalogue/catalogue.h"
#include "emit/emit.h"
#include "sync/calibration.h"
#include "sync/idle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

/* For calibration_load(), which is not driven: only the parser reads bytes that anybody may have written. */
void emit_note(enum note_code code, const char *text)
{
	(void)code;
	(void)text;
}

uint32_t idle_key_of(uint16_t function, uint8_t source, uint8_t destination, uint8_t size_class)
{
	return (uint32_t)(function + source + destination + size_class);
}

bool idle_calibrate(uint32_t key, uint64_t idle_ns)
{
	return key && idle_ns;
}

/* The real one looks into the whole catalogue. */
int catalogue_function(const char *name)
{
	static const char *const names[] = {"cuMemFree_v2", "cuMemcpyHtoDAsync_v2", "cu"};

	for (int i = 0; i < 3; i++)
		if (!strcmp(name, names[i]))
			return i * (FUNCTION_COUNT - 1) / 2;
	return -1;
}

struct taken {
	uint64_t count, sum;
	uint64_t stop_at; /* the entry that is answered with an error; 0: none is */
};

static int take(void *context, const struct calibration_entry *entry)
{
	struct taken *taken = context;

	CHECK(!taken->stop_at || taken->count < taken->stop_at);
	CHECK(entry->function < FUNCTION_COUNT);
	CHECK(entry->source_kind < MEMORY_KIND_COUNT &&
	      entry->destination_kind < MEMORY_KIND_COUNT);
	CHECK(entry->size_class < 64 && entry->idle_ns);
	taken->count++;
	taken->sum = taken->sum * 31 + entry->function + entry->source_kind * 7u +
		     entry->destination_kind * 11u + entry->size_class * 13u + entry->idle_ns;
	return taken->count == taken->stop_at ? -1 : 0;
}

static unsigned int lines_of(const char *text, size_t size)
{
	unsigned int lines = 1;

	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	return lines;
}

static void check_stage(const struct calibration_stage *stage)
{
	CHECK(!(stage->copies >> CALIBRATION_COPIES) && stage->driver >= 0);
	CHECK(memchr(stage->gpu, '\0', sizeof(stage->gpu)));
	for (unsigned int i = 0; i < CALIBRATION_COPIES; i++)
		CHECK(!(stage->copies & 1U << i) || stage->from[i] == CALIBRATION_NEVER ||
		      (stage->from[i] && stage->from[i] <= CALIBRATION_FROM_MAX));
}

static int parse(const char *text, size_t size, struct taken *taken)
{
	const char *problem = NULL;
	unsigned int line = 0;
	struct calibration_stage stage;
	int r = calibration_parse(text, size, take, taken, &stage, &line, &problem);

	CHECK(!r == !problem);
	CHECK(line <= lines_of(text, size));
	CHECK(!problem || (*problem && line));
	if (!r)
		check_stage(&stage);
	return r;
}

static void try(const char *text, size_t size)
{
	struct taken taken = {0}, again = {0}, stopped = {0};
	int r = parse(text, size, &taken);

	CHECK(parse(text, size, &again) == r);
	CHECK(again.count == taken.count && again.sum == taken.sum);
	if (!taken.count)
		return;
	stopped.stop_at = 1 + taken.count / 2;
	CHECK(parse(text, size, &stopped) && stopped.count == stopped.stop_at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char first[] = CALIBRATION_FIRST_LINE "\n";
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	size_t length = strlen(first) + size, i;
	/* Blocks of their own size, so that a read beyond them is found. */
	char *text = malloc(size ? size : 1);
	char *whole = malloc(length + 27);

	CHECK(text && whole);
	memcpy(text, data, size);
	try(text, size);
	free(text);

	memcpy(whole, first, strlen(first));
	memcpy(whole + strlen(first), data, size);
	if (whole[length - 1] != '\n')
		whole[length++] = '\n';
	for (i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)whole[i]) * UINT64_C(0x100000001b3);
	text = malloc(length + 26);
	CHECK(text);
	memcpy(text, whole, length);
	snprintf(whole, 27, "checksum %016llx\n", (unsigned long long)hash);
	memcpy(text + length, whole, 26);
	try(text, length + 26);
	free(text);
	free(whole);
	return 0;
}
