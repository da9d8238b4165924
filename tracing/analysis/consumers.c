// SPDX-License-Identifier: MIT
/* The table of consumers (consumers.h). */
#include "tracing/analysis/consumers.h"

#include <stddef.h>

#include "tracing/analysis/timeline.h"

const struct consumer_type consumer_types[] = {
	{"timeline", timeline_create},
	{NULL, NULL},
};
