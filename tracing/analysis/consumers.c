// SPDX-License-Identifier: MIT
/* The table of consumers (consumers.h). */
#include "tracing/analysis/consumers.h"

#include <stddef.h>

const struct consumer_type consumer_types[] = {
	{NULL, NULL},
};
