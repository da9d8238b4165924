// SPDX-License-Identifier: MIT
/*
 * Page: the consumer that writes a trace as one HTML file for people: what made the host wait, ranked, with call
 * stacks, and a timeline. The file needs nothing else and opens without network. Its size is bounded: it tells what
 * it left out.
 *
 * The page itself is page/{page.html,style.css,*.js}; page/embed.py makes them part of the program.
 */
#ifndef SLIPSTREAM_TRACING_PAGE_H
#define SLIPSTREAM_TRACING_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct consumer;

/* For the table of consumers (consumers.h), whose rules hold. An existing file is overwritten. */
int page_create(const char *path, struct consumer *ret_consumer, char **reterr_text);

/* How much sooner the process would have ended without the waits of one call site under one rule. */
struct page_saving {
	uint32_t process;        /* number of its model_process */
	uint32_t rule, site;     /* as in def_wait; site 0: all waits of the rule */
	int64_t low_ns, high_ns; /* the saving lies between */
	int64_t middle_ns;       /* what it is ranked by */
};

/*
 * Savings for the page, asked for when the trace has ended. The array is read before the page's finish returns. Set
 * before that; without it the page has no such column.
 */
typedef const struct page_saving *page_find_savings(void *context, size_t *ret_count);
void page_set_savings(struct consumer *consumer, page_find_savings *find, void *context);

#endif
