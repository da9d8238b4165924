// SPDX-License-Identifier: MIT
/* List of waits: a consumer that writes one line for each wait, for people and for grep. */
#ifndef SLIPSTREAM_TRACING_WAITS_H
#define SLIPSTREAM_TRACING_WAITS_H

#include "tracing/analysis/report_consumer.h"

/*
 * Writes where the request's text goes; its selection holds, with what is known of a process when
 * the wait is written.
 */
struct consumer waits_consumer_new(const struct report_request *request);

#endif
