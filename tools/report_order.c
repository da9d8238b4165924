// SPDX-License-Identifier: MIT
/*
 * Report, order (report_order.h): lists without duplicates, what makes two items the same, and what
 * comes first. Called while a report is built; relies on tsearch() for the trees.
 */
#include "report_order.h"

#include <search.h>

#include "memory.h"
#include "report.h"

/* The item equal to `key`, or a copy of it, newly added. */
void *report_list_find_or_add(struct report_list *list, const void *key, size_t size,
			      report_compare compare)
{
	void **node = tfind(key, &list->tree, compare);
	void *item;

	if (node)
		return *node;
	item = memory_new(size);
	memcpy(item, key, size);
	memory_check(tsearch(item, &list->tree, compare));
	list->items =
		memory_grow(list->items, list->count, &list->capacity, sizeof(list->items[0]));
	list->items[list->count++] = item;
	return item;
}

void report_text_list_add(struct report_list *list, char *text)
{
	list->items =
		memory_grow(list->items, list->count, &list->capacity, sizeof(list->items[0]));
	list->items[list->count++] = text;
}

static void nothing(void *item)
{
	(void)item;
}

void report_list_done(struct report_list *list)
{
	tdestroy(list->tree, nothing);
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct report_list){0};
}

void report_list_sort(struct report_list *list, report_compare compare)
{
	if (list->count)
		qsort(list->items, list->count, sizeof(list->items[0]), compare);
}

/* qsort() gives addresses of pointers, tsearch() the pointers: comparisons are written for the
 * latter. */
#define BY_POINTER(name)                                                                           \
	int name##_sort(const void *left, const void *right)                                       \
	{                                                                                          \
		return name(*(const void *const *)left, *(const void *const *)right);              \
	}

#define ORDER(a, b) ((a) < (b) ? -1 : (a) > (b))
#define RETURN_IF(order)                                                                           \
	do {                                                                                       \
		int order_ = (order);                                                              \
		if (order_)                                                                        \
			return order_;                                                             \
	} while (0)

static int text_order(const char *left, const char *right)
{
	if (!left || !right)
		return !!left - !!right;
	return strcmp(left, right);
}

/* ---- identities and ranks ---- */

int report_sync_identity(const void *left, const void *right)
{
	const struct report_sync *a = left, *b = right;

	RETURN_IF(ORDER(a->class, b->class));
	RETURN_IF(strcmp(a->rule, b->rule));
	RETURN_IF(strcmp(a->function, b->function));
	RETURN_IF(strcmp(a->cause, b->cause));
	return ORDER(a->allowed, b->allowed);
}

static int report_sync_rank(const void *left, const void *right)
{
	const struct report_sync *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return report_sync_identity(a, b);
}
BY_POINTER(report_sync_rank)

int report_site_identity(const void *left, const void *right)
{
	const struct report_site *a = left, *b = right;

	return ORDER(a->id, b->id);
}
BY_POINTER(report_site_identity)

static uint64_t use_id(const struct report_use *use)
{
	return use->site ? use->site->id : 0;
}

int report_use_identity(const void *left, const void *right)
{
	return ORDER(use_id(left), use_id(right));
}

static int report_use_rank(const void *left, const void *right)
{
	const struct report_use *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return report_use_identity(a, b);
}
BY_POINTER(report_use_rank)

int report_memory_identity(const void *left, const void *right)
{
	const struct report_memory *a = left, *b = right;

	RETURN_IF(ORDER(a->source, b->source));
	return ORDER(a->destination, b->destination);
}

static int report_memory_rank(const void *left, const void *right)
{
	const struct report_memory *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return report_memory_identity(a, b);
}
BY_POINTER(report_memory_rank)

int report_waited_identity(const void *left, const void *right)
{
	const struct report_waited *a = left, *b = right;

	RETURN_IF(text_order(a->host, b->host));
	RETURN_IF(ORDER(a->pid, b->pid));
	RETURN_IF(ORDER(a->context, b->context));
	RETURN_IF(ORDER(a->stream, b->stream));
	RETURN_IF(ORDER(a->stream_kind, b->stream_kind));
	RETURN_IF(ORDER(a->operation, b->operation));
	RETURN_IF(ORDER(a->certain, b->certain));
	RETURN_IF(ORDER(a->is_unknown, b->is_unknown));
	return text_order(a->name, b->name);
}

static int report_waited_rank(const void *left, const void *right)
{
	const struct report_waited *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return report_waited_identity(a, b);
}
BY_POINTER(report_waited_rank)

int report_named_identity(const void *left, const void *right)
{
	const struct report_named *a = left, *b = right;

	return text_order(a->name, b->name);
}

static int report_named_rank(const void *left, const void *right)
{
	const struct report_named *a = left, *b = right;

	RETURN_IF(ORDER(b->blocked_ns, a->blocked_ns));
	RETURN_IF(ORDER(b->count, a->count));
	return report_named_identity(a, b);
}
BY_POINTER(report_named_rank)

int report_function_identity(const void *left, const void *right)
{
	const struct report_function *a = left, *b = right;

	return strcmp(a->name, b->name);
}
BY_POINTER(report_function_identity)

int report_note_identity(const void *left, const void *right)
{
	const struct report_note *a = left, *b = right;

	RETURN_IF(ORDER(a->code, b->code));
	return strcmp(a->text, b->text);
}
BY_POINTER(report_note_identity)

static int report_text_identity(const void *left, const void *right)
{
	return strcmp(left, right);
}
BY_POINTER(report_text_identity)

int report_process_rank(const void *left, const void *right)
{
	const struct record_header *a = ((const struct report_process *)left)->file->header;
	const struct record_header *b = ((const struct report_process *)right)->file->header;

	RETURN_IF(ORDER(a->start_ns, b->start_ns));
	return ORDER(a->pid, b->pid);
}

/* The order in which files are merged must not depend on that in which the folder gave them. */
int report_file_rank(const void *left, const void *right)
{
	const struct record_file *a = *(struct record_file *const *)left;
	const struct record_file *b = *(struct record_file *const *)right;

	RETURN_IF(ORDER(a->header->start_ns, b->header->start_ns));
	RETURN_IF(ORDER(a->header->pid, b->header->pid));
	return strcmp(a->path, b->path);
}
