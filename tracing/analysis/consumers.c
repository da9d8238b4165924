// SPDX-License-Identifier: MIT
/* The table of consumers (consumers.h). */
#include "tracing/analysis/consumers.h"

#include <errno.h>

#include "memory.h"
#include "tracing/analysis/page.h"
#include "tracing/analysis/timeline.h"

const struct consumer_type consumer_types[] = {
	{"timeline", timeline_create},
	{"html", page_create},
	{NULL, NULL},
};

int consumer_create(const char *name, const char *path, struct consumer *ret_consumer,
		    char **reterr_text)
{
	for (const struct consumer_type *type = consumer_types; type->name; type++)
		if (!strcmp(type->name, name))
			return type->create(path, ret_consumer, reterr_text);
	*reterr_text = memory_format("%s is not part of this build", name);
	return -ENOENT;
}
