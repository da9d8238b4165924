// SPDX-License-Identifier: MIT
/*
 * What-if (whatif.h) as a part of the report and of the page: call sites get names, rows their
 * place.
 */
#ifndef SLIPSTREAM_TRACING_WHATIF_EXTRA_H
#define SLIPSTREAM_TRACING_WHATIF_EXTRA_H

#include "report_trace.h"
#include "tracing/analysis/sink.h"

struct whatif_extra;

/*
 * Adds the consumer to the sink, before those that show its result. Must outlive the sink's
 * consumers; the sink's model is used.
 */
struct whatif_extra *whatif_extra_new(struct sink *sink);
struct whatif_extra *whatif_extra_free(struct whatif_extra *extra);

struct report_extra whatif_extra_report(struct whatif_extra *extra);
/* Of a consumer that page_create() made. */
void whatif_extra_page(struct whatif_extra *extra, struct consumer *page);

#endif
