// SPDX-License-Identifier: MIT
/*
 * The fake emit (fake_emit.h). Linked in place of shim/emit by the site tests and the Python probe.
 */
#include "fake_emit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STRINGS 8192
#define RECORDS (256 * 1024)
#define NOTES   64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *strings[STRINGS];
static uint32_t string_count;
static struct record *records[RECORDS];
static uint32_t record_count;
static struct {
	enum note_code code;
	char text[128];
	uint32_t count;
} notes[NOTES];
static uint32_t note_count;
static int refusing;

/* Not malloc(): signal handlers get here, as in the real one. */
static void *room(size_t size)
{
	static char *at, *end;
	void *bytes;

	size = (size + 7) & ~(size_t)7;
	if ((size_t)(end - at) < size) {
		at = mmap(NULL, 1 << 24, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
		if (at == MAP_FAILED)
			abort();
		end = at + (1 << 24);
	}
	bytes = at;
	at += size;
	return bytes;
}

uint32_t emit_string(const char *bytes, size_t length)
{
	uint32_t id;

	pthread_mutex_lock(&lock);
	for (id = 1; id <= string_count; id++) {
		if (strlen(strings[id]) == length && !memcmp(strings[id], bytes, length))
			break;
	}
	if (id > string_count) {
		if (id == STRINGS)
			abort();
		strings[id] = room(length + 1);
		memcpy(strings[id], bytes, length);
		string_count = id;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

void (*fake_hook)(void);

void *emit_reserve(size_t size)
{
	struct record *record;

	if (fake_hook)
		fake_hook();
	if (refusing)
		return NULL;
	pthread_mutex_lock(&lock);
	record = room(size);
	pthread_mutex_unlock(&lock);
	record->size = (uint32_t)size;
	return record;
}

void emit_publish(void *record, enum record_type type)
{
	pthread_mutex_lock(&lock);
	if (record_count == RECORDS)
		abort();
	records[record_count++] = record;
	((struct record *)record)->type = type;
	pthread_mutex_unlock(&lock);
}

void emit_note(enum note_code code, const char *text)
{
	uint32_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < note_count; i++) {
		if (notes[i].code == code && !strcmp(notes[i].text, text))
			break;
	}
	if (i == note_count) {
		if (i == NOTES)
			abort();
		notes[i].code = code;
		strncpy(notes[i].text, text, sizeof(notes[i].text) - 1);
		notes[i].count = 0;
		note_count++;
	}
	notes[i].count++;
	pthread_mutex_unlock(&lock);
}

const char *fake_string(uint32_t id)
{
	return id && id <= string_count ? strings[id] : NULL;
}

const struct record *fake_record(enum record_type type, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < record_count; i++) {
		if (records[i]->type == type && !n--)
			return records[i];
	}
	return NULL;
}

uint32_t fake_count(enum record_type type)
{
	uint32_t i, count = 0;

	for (i = 0; i < record_count; i++)
		count += records[i]->type == type;
	return count;
}

uint32_t fake_notes(enum note_code code, const char *text)
{
	uint32_t i, count = 0;

	for (i = 0; i < note_count; i++) {
		if (notes[i].code == code && (!text || !strcmp(text, notes[i].text)))
			count += notes[i].count;
	}
	return count;
}

void fake_reset(void)
{
	string_count = 0;
	record_count = 0;
	note_count = 0;
	refusing = 0;
}

void fake_refuse(int refuse)
{
	refusing = refuse;
}

const char *emit_string_bytes(uint32_t id, size_t *ret_length)
{
	if (!id || id > string_count)
		return NULL;
	*ret_length = strlen(strings[id]);
	return strings[id];
}
