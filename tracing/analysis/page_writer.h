// SPDX-License-Identifier: MIT
/*
 * Page, writer: what page_json.c and page_numbers.c share while the data of a page are made. Definitions are numbered as
 * they are first referred to, so that only what the page shows is in it.
 */
#ifndef SLIPSTREAM_TRACING_PAGE_WRITER_H
#define SLIPSTREAM_TRACING_PAGE_WRITER_H

#include <jansson.h>

#include "memory.h"
#include "tracing/analysis/page_collect.h"
#include "tracing/analysis/page_json.h"
#include "tracing/analysis/timeline_write.h"

struct page_writer {
	struct page_collection *collection;
	struct sites *sites;
	const struct model *model;
	json_t *groups, *texts, *targets;
	struct table group_numbers;  /* uint32_t, by process and wait */
	struct table text_numbers;   /* uint32_t, by (process, string id) and operation */
	struct table target_numbers; /* uint32_t, by process and candidates */
	json_t *text_index;          /* number by text */
	json_t *group_index;         /* number by content: the same group in several processes */
};

/* The number of a text in `texts`, of an operation's name there. */
uint32_t page_text_number(struct page_writer *writer, const char *raw);
uint32_t page_operation_number(struct page_writer *writer, uint32_t process, uint32_t operation,
			       uint32_t name);
/* The number of a def_wait's content in `groups`. */
uint32_t page_group_number(struct page_writer *writer, uint32_t process, uint32_t wait);
/* The number in `targets` of what a wait waited for. */
uint32_t page_target_number(struct page_writer *writer, uint32_t process, uint32_t candidates);

static inline json_t *page_array(void)
{
	return memory_check(json_array());
}

/* Takes the value over. */
static inline void page_append(json_t *array, json_t *value)
{
	memory_check(json_array_append_new(array, value) ? NULL : array);
}

static inline json_t *page_integer(int64_t value)
{
	return memory_check(json_integer(value));
}

static inline json_t *page_boolean(bool value)
{
	return memory_check(json_boolean(value));
}

static inline json_t *page_numbers(const uint64_t *values, size_t count)
{
	json_t *array = page_array();

	for (size_t i = 0; i < count; i++)
		page_append(array, timeline_number(values[i]));
	return array;
}

/* An array of these numbers. */
#define PAGE_NUMBERS(...)                                                                          \
	page_numbers((const uint64_t[]){__VA_ARGS__},                                              \
		     sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* ns from the beginning of the page; 0 for what came before. */
static inline uint64_t page_since_begin(const struct page_writer *writer, int64_t ns)
{
	int64_t begin_ns = writer->collection->begin_ns;

	return ns > begin_ns ? (uint64_t)ns - (uint64_t)begin_ns : 0;
}

#endif
