// SPDX-License-Identifier: MIT
/* Page, data: the collection as the JSON that the scripts in page/ read. Texts are printable. */
#ifndef SLIPSTREAM_TRACING_PAGE_JSON_H
#define SLIPSTREAM_TRACING_PAGE_JSON_H

#include <jansson.h>

#include "tracing/analysis/consumer.h"
#include "tracing/analysis/page.h"
#include "tracing/analysis/page_collect.h"
#include "tracing/analysis/timeline_sites.h"

enum { PAGE_ROWS_MAX = 4000, PAGE_SITES_MAX = 1000, PAGE_FRAMES_MAX = 48 };

struct report;

/* The caller's. `report`: that of the whole trace; `savings` NULL: none. */
json_t *page_json(struct page_collection *collection, struct sites *sites,
		  const struct model *model, const struct analysis_end *end,
		  const struct report *report, const struct page_saving *savings,
		  size_t saving_count);

/* Why "nothing found" would not be believed: texts, printable. Empty: there is no doubt. */
json_t *page_reasons(const struct report *report);

#endif
