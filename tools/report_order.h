// SPDX-License-Identifier: MIT
/*
 * Order: the lists of a report. An identity says what is merged into one item; a rank is a total
 * order that ends with the identity, so that equal records give equal reports.
 */
#ifndef SLIPSTREAM_TOOLS_REPORT_ORDER_H
#define SLIPSTREAM_TOOLS_REPORT_ORDER_H

#include <stddef.h>

struct report_list;

typedef int (*report_compare)(const void *left, const void *right);

/* The item equal to `key`, or a copy of it (`size` bytes), newly added. */
void *report_list_find_or_add(struct report_list *list, const void *key, size_t size,
			      report_compare compare);
void report_list_sort(struct report_list *list, report_compare compare);
/* Frees the items, not what they point to. */
void report_list_done(struct report_list *list);

/* For items themselves (the trees). */
int report_sync_identity(const void *left, const void *right);
int report_site_identity(const void *left, const void *right);
int report_use_identity(const void *left, const void *right);
int report_memory_identity(const void *left, const void *right);
int report_waited_identity(const void *left, const void *right);
int report_named_identity(const void *left, const void *right);
int report_function_identity(const void *left, const void *right);
int report_note_identity(const void *left, const void *right);

/* For arrays of pointers to items. */
int report_sync_rank_sort(const void *left, const void *right);
int report_site_identity_sort(const void *left, const void *right);
int report_use_rank_sort(const void *left, const void *right);
int report_memory_rank_sort(const void *left, const void *right);
int report_waited_rank_sort(const void *left, const void *right);
int report_named_rank_sort(const void *left, const void *right);
int report_function_identity_sort(const void *left, const void *right);
int report_note_identity_sort(const void *left, const void *right);
int report_text_identity_sort(const void *left, const void *right);

int report_process_rank(const void *left, const void *right); /* array of struct report_process */
int report_file_rank(const void *left, const void *right);    /* array of struct record_file * */

#endif
