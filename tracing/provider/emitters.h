// SPDX-License-Identifier: MIT
/* Emitters: one pair of functions an event, generated; provider.c hands them to the preload library. */
#ifndef SLIPSTREAM_TRACING_EMITTERS_H
#define SLIPSTREAM_TRACING_EMITTERS_H

#include "tracing/provider/provider.h"

extern const struct trace_emitter trace_emitters[TRACE_EVENT_COUNT];

#endif
