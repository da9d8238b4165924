// SPDX-License-Identifier: MIT
/*
 * What frames.py calls through ctypes: python_frames() over the fake emit, its answer as text.
 */
#include <execinfo.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "config.h"
#include "fake_emit.h"
#include "sync/module.h"
#include "sync/python.h"
#include "sync/reader.h"
#include "sync/site.h"

#define EXPORT __attribute__((visibility("default")))
#define FRAME  ((const void *)((const uint64_t *)__builtin_frame_address(0) + 1))

struct config config = {.mode = CONFIG_OBSERVE, .python = true, .stack_depth = 32};

void probe_python(int on);
void probe_reader(int way);
int probe_frames(char *text, uint32_t size, uint32_t max);
uint32_t probe_notes(const char *text);
uint32_t probe_site(void);
uint32_t probe_site_cached(void);
int probe_site_frame(uint32_t id, char *text, uint32_t size);
double probe_cost(uint32_t max, uint32_t rounds);
double probe_site_cost(uint32_t cached, uint32_t rounds);
int probe_compare(void);

EXPORT void probe_python(int on)
{
	config.python = on;
}

EXPORT void probe_reader(int way)
{
	reader_force((enum reader_way)way);
}

/* One "file|function|line" a line, innermost first; how many frames. */
EXPORT int probe_frames(char *text, uint32_t size, uint32_t max)
{
	struct record_python_frame frames[64];
	uint32_t count = python_frames(module_generation(), frames, max < 64 ? max : 64), i;
	size_t used = 0;

	text[0] = '\0';
	for (i = 0; i < count; i++) {
		const char *file = fake_string(frames[i].file);
		const char *function = fake_string(frames[i].function);

		used += (size_t)snprintf(text + used, size - used, "%s|%s|%d\n", file ? file : "",
					 function ? function : "", frames[i].line);
		if (used >= size)
			return -1;
	}
	return (int)count;
}

EXPORT uint32_t probe_notes(const char *text)
{
	return fake_notes(NOTE_PYTHON, text);
}

EXPORT uint32_t probe_site(void)
{
	return site_take(__builtin_return_address(0), NULL);
}

EXPORT uint32_t probe_site_cached(void)
{
	return site_take(__builtin_return_address(0), FRAME);
}

/* "file|function|line" of a site's innermost Python frame; -1: there is none. */
EXPORT int probe_site_frame(uint32_t id, char *text, uint32_t size)
{
	const struct record_python_frame *frame;
	const struct record_site *site;
	uint32_t i;

	for (i = 0; (site = (const void *)fake_record(RECORD_SITE, i)); i++) {
		if (site->id != id || !site->python_frames)
			continue;
		frame = (const void *)((const struct record_frame *)(site + 1) + site->frames);
		snprintf(text, size, "%s|%s|%d", fake_string(frame->file),
			 fake_string(frame->function), frame->line);
		return 0;
	}
	return -1;
}

/* Frames of a site that are as the C library's unwinder gives them; below 0: how it differs. */
EXPORT int probe_compare(void)
{
	const struct record_site *site;
	const struct record_frame *frames;
	const struct record_module *module;
	void *want[80];
	int count = backtrace(want, 80), i, k;
	uint32_t id = site_take(__builtin_return_address(0), NULL);

	for (i = 0; i < count && want[i] != __builtin_return_address(0); i++)
		;
	site = id ? (const void *)fake_record(RECORD_SITE, id - 1) : NULL;
	if (!site || i == count || site->id != id)
		return -1;
	frames = (const void *)(site + 1);
	for (k = 0; k < site->frames; k++) {
		module = (const void *)fake_record(RECORD_MODULE, frames[k].module - 1);
		if (!module || i + k >= count ||
		    frames[k].offset + module->base != (uint64_t)(uintptr_t)want[i + k])
			return -100 - k;
	}
	/* It ends before the interpreter's loop, which called us. */
	return k < count - i && k < (int)config.stack_depth ? k : -1000 - k;
}

EXPORT double probe_cost(uint32_t max, uint32_t rounds)
{
	struct record_python_frame frames[64];
	struct timespec from, to;
	uint32_t i;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (i = 0; i < rounds; i++)
		python_frames(module_generation(), frames, max < 64 ? max : 64);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
	       rounds;
}

EXPORT double probe_site_cost(uint32_t cached, uint32_t rounds)
{
	struct timespec from, to;
	uint32_t i;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (i = 0; i < rounds; i++)
		site_take(__builtin_return_address(0), cached ? FRAME : NULL);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
	       rounds;
}
